"""l-diversity: generalise the quasi-identifiers until every class of equal ones holds diverse sensitive values.

Full-domain generalisation: one level of its hierarchy for each column, the same for all rows; the node of least loss
in the lattice. docs/explanation/l-diversity.md.

Guarantee: in every class of rows with equal published quasi-identifiers the sensitive values are l-diverse; with kind
"frequency" none holds more than 1/l of the class.
Assumes: a reader who knows a person's quasi-identifiers and nothing about the others in her class.
Cost: one pass to count, a lattice search on distinct cells (seconds for eight columns), one pass to generalise.
Error: even spread inside a class is assumed; where it fails estimates are biased. Certain limits stand beside them.
Does not protect against: readers who know members of a class, or can rule out values; it publishes true values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ReleaseError, SpecError, VerificationError
from ...laws.class_estimate import estimate, ratio_bounds
from ...laws.published import check_roles
from ...model.private import Batch, Facts, Known, Needs, Profile, Released, Work
from ...model.public import (
    Asked,
    Candidate,
    Claim,
    Codes,
    Domain,
    Estimated,
    Evidence,
    Floats,
    Guarantee,
    Integers,
    Observed,
    Published,
    ReaderBound,
    Roles,
    Trust,
    value_label,
)
from ...model.ratios import exact
from ...stats.joint_codes import distinct_cells, sum_by_group
from ..contract import Example, Method, Planned, ReadRows
from ..shared.options import group_size, rows_left_out
from ..shared.readers import Found, in_parts
from .hierarchy import hierarchy_of
from .plan import KINDS, CellCounts, Generalisation, Kind, LDiversity, class_of, diverse, search_lattice

# --- suppression ------------------------------------------------------------------------------------------------------
# Which rows of a batch stay, when cells of classes that are not diverse are left out.


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Keeper:
    """Which cells stay, for rows of codes of any batch: prefixes of the cells numbered column by column."""

    steps: tuple[Integers, ...]  # per column after the first: sorted keys prefix * size + code
    sizes: tuple[int, ...]
    stay: NDArray[np.bool_]  # per number of the whole cell

    @classmethod
    def of(cls, cells: Integers, where: Integers, good: NDArray[Any]) -> Keeper:
        """From the distinct cells, their classes and which classes are diverse."""
        sizes = tuple(int(c.max()) + 1 for c in cells.T)
        number, steps = cells[:, 0], []
        for column, size in zip(cells.T[1:], sizes[1:], strict=True):
            keys = np.unique(number * size + column)
            steps.append(keys)
            number = np.searchsorted(keys, number * size + column)
        stay = np.zeros(int(number.max()) + 1, dtype=bool)
        stay[number] = good[where]
        return cls(steps=tuple(steps), sizes=sizes, stay=stay)

    def __call__(self, codes: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        """Which rows stay; a cell that was not counted when planning does not."""
        number = codes[0].astype(np.int64)
        known = number < self.sizes[0]
        for keys, size, column in zip(self.steps, self.sizes[1:], codes[1:], strict=True):
            key = number * size + column
            number = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            known &= (keys[number] == key) & (column < size)
        return np.asarray(known & self.stay[np.minimum(number, len(self.stay) - 1)])


# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of l-diverse classes get: the shares of the values in a class.


CLASS = "she knows the person's class, and the rows of a class hold their true values"


def readers(bound: Fraction | None, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder; `bound` is what the plan promises of a class.

    What a reader can link to is the class, so that the readers histogram and linking are one.
    """
    reached = bound if known is None else _largest(known)
    found = Found(posterior=reached, why=CLASS if reached is not None else "the rows of the classes decide")
    return in_parts(
        claim, histogram=found, linking=found, corruption="whoever knows all members of a class but one knows the last"
    )


def _largest(known: Known) -> Fraction:
    """The largest share of a looked-at value in a published class, exact."""
    histogram, members, keeper = known.profile.histograms[0], known.work.secret.code, known.work.secret.keeper
    codes = histogram.codes[:, :-1]
    stay = np.ones(len(codes), dtype=bool) if keeper is None else keeper(list(codes.T))
    labels = np.stack([member[codes[stay, j]] for j, member in enumerate(members)], axis=1)
    _, place = distinct_cells(labels.astype(np.int64))
    count, value = histogram.true_counts[stay], histogram.codes[stay, -1]
    width = len(known.profile.domains[-1])
    table = np.bincount(place * width + value, weights=count, minlength=(int(place.max()) + 1) * width)
    table = table.astype(np.int64).reshape(-1, width)
    looked = np.zeros(width, dtype=bool)
    looked[known.joint.codes[known.looked, 0]] = True
    largest, sizes = np.where(looked, table, 0).max(axis=1), table.sum(axis=1)
    worst = int(np.argmax(largest / sizes))
    return Fraction(int(largest[worst]), int(sizes[worst]))


# --- checks of a release ----------------------------------------------------------------------------------------------
# Whether an l-diversity release can be what it says: all quasi-identifiers make the classes, and each is diverse.


def check_release(plan: LDiversityPlan, published: Published) -> None:
    """Classes are made of every quasi-identifier, and each is diverse, recomputed from the published rows."""
    check_roles(published, "quasi")
    columns = tuple(level.column for level in plan.columns)
    if set(columns) != set(published.with_role("quasi")):
        raise VerificationError("the classes are not made of all quasi-identifiers")
    for level in plan.columns:
        if not 0 <= level.level <= level.height:
            raise VerificationError(f'"{level.column}" has a level that its hierarchy does not have')
    sensitive = published.with_role("sensitive")
    if len(sensitive) != 1:
        raise VerificationError("an l-diversity release has one sensitive column")
    codes, rows = published.counted((*columns, *sensitive))
    _, where = distinct_cells(codes[:, : len(columns)])
    table = sum_by_group(
        rows, (where, codes[:, -1]), (int(where.max(initial=-1)) + 1, int(codes[:, -1].max(initial=0)) + 1)
    )
    bad = int((~_diverse(table, plan.l, plan.kind)).sum())
    if bad:
        raise VerificationError(f"{bad} classes of the release are not {plan.kind} {plan.l}-diverse")


def _diverse(table: Integers, l: Fraction, kind: str) -> np.typing.NDArray[np.bool_]:
    """By definition, class by class: largest share, number of values, or entropy."""
    size = table.sum(axis=1)
    if kind == "frequency":
        return np.asarray(table.max(axis=1) * l.numerator <= size * l.denominator)
    if kind == "distinct":
        return np.asarray((table > 0).sum(axis=1) * l.denominator >= l.numerator)
    share: Floats = table / np.maximum(size, 1)[:, None]
    entropy = -np.sum(share * np.log(np.where(share > 0, share, 1.0)), axis=1)
    return np.asarray(entropy >= np.log(float(l)) - 1e-12)


# --- the method -------------------------------------------------------------------------------------------------------


NUMBERS = 20  # at a bound: integer columns with more values than this get interval hierarchies
INTERVALS = "interval:5/10/20/40"

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One generalised column: the label of every value of its domain."""

    column: str
    level: int
    height: int
    labels: tuple[str, ...]
    member: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LDiversityPlan:
    """What the release states."""

    l: Fraction
    kind: str
    suppression: Fraction  # at most this share of the rows was left out
    suppressed: int  # so many rows were
    columns: tuple[Level, ...]

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.l < 1 or self.suppressed < 0:
            raise ValueError("unknown kind of diversity, l below 1, or a negative number of rows left out")
        for level in self.columns:
            if set(level.member) != set(range(len(level.labels))) or len(set(level.labels)) != len(level.labels):
                raise ValueError(f"values and labels of {level.column} do not fit each other")


def _cells(profile: Profile) -> CellCounts:
    """The distinct cells of quasi-identifiers, and their counts by sensitive value."""
    histogram = profile.histograms[0]
    cells, where = distinct_cells(histogram.codes[:, :-1].astype(np.int64))
    values = len(profile.domains[-1])
    return CellCounts.of_entries(cells, where, histogram.codes[:, -1], histogram.true_counts, values)


def _kind(kind: str) -> Kind:
    return next(k for k in KINDS if k == kind)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Apart:
    """What the release does not state: the search, which rows stay, and levels over the domains of *all* rows."""

    found: Generalisation
    keeper: Keeper | None
    columns: tuple[Level, ...]
    code: tuple[Codes, ...]  # of every value of those domains, what is published for it; 0 where no row stays


def _without(level: Level, domain: Domain, stays: NDArray[np.bool_]) -> tuple[Level, Domain, Codes]:
    """The level, the domain and the published codes without values and labels that only rows left out had."""
    if domain.declared or stays.all():
        return level, domain, np.asarray(level.member, dtype=np.int32)
    member = np.asarray(level.member)
    labels, new = np.unique(member[stays], return_inverse=True)
    code = np.zeros(len(member), dtype=np.int32)
    code[stays] = new
    kept = replace(level, labels=tuple(level.labels[i] for i in labels), member=tuple(int(c) for c in new))
    values = tuple(value for value, stay in zip(domain.values, stays, strict=True) if stay)
    return kept, replace(domain, values=values), code


def expected_error(columns: Sequence[Level], profile: Profile) -> dict[str, Any]:
    """Root mean square of the even-spread error, over single quasi-identifier values that hold about 1 % or 10 %.

    None where no value holds so much: nothing was looked at, and the error is not 0.
    """
    cells = _cells(profile)
    rows = cells.rows.sum()
    picked: dict[float, list[Any]] = {0.01: [], 0.1: []}
    for j, level in enumerate(columns):
        true = cells.by_class(cells.codes[:, j], len(level.member)).astype(np.float64)
        member = np.asarray(level.member)
        whole = sum_by_group(true, member, len(level.labels))
        even = whole[member] / np.bincount(member)[member][:, None]
        share = true.sum(axis=1) / rows
        for target, kept in picked.items():
            near = (share > target / 2) & (share < 2 * target)
            kept.append((even - true)[near])
    among = {t: np.concatenate(kept) for t, kept in picked.items()}
    unknown: list[float | None] = [None] * cells.values
    rms = {t: np.sqrt((e**2).mean(axis=0)).tolist() if len(e) else unknown for t, e in among.items()}
    return {
        "values": [value_label(v) for v in profile.domains[-1].values],
        "total": [0.0] * cells.values,
        "among_1_percent": rms[0.01],
        "among_10_percent": rms[0.1],
    }


class LDiversityMethod(Method[LDiversity, LDiversityPlan]):
    """Generalised quasi-identifiers, diverse sensitive values in every class."""

    name = "l-diversity"
    title = "l-diversity"
    trust = Trust.CONDITIONAL
    formula = "a row counts with the mean of h over the values of its labels; limits: least and largest h there"
    answers = "estimate, certain bounds"
    spec = LDiversity
    plan_type = LDiversityPlan
    classes = True
    example = Example(
        spec={"l": 3},
        options={"l": "3"},
        bad=(
            {"l": "1/2"}, {"l": "many"}, {"kind": "other"}, {"suppression": 1}, {"suppression": "-1/2"},
            {"hierarchies": "age"},
        ),
    )  # fmt: skip

    def needs(self, spec: LDiversity, roles: Roles) -> Needs:
        """One unit per quasi-identifier, and the sensitive column to look at."""
        if len(roles.sensitive) != 1:
            raise SpecError("l-diversity takes one sensitive column; give the others another role", field="sensitive")
        if not roles.quasi:
            raise SpecError("l-diversity generalises quasi-identifiers; name them with --qi", field="quasi")
        unknown = [column for column in spec.given() if column not in roles.quasi]
        if unknown:
            raise SpecError(
                f'a hierarchy is given for "{unknown[0]}", which is not a quasi-identifier', field="hierarchies"
            )
        n = len(roles.quasi)
        return Needs(
            units=tuple((column,) for column in (*roles.quasi, *roles.sensitive)),
            joints=(tuple(range(n + 1)),),
            changed=(*[True] * n, False),
            sensitive=(n,),
        )

    def plan(self, spec: LDiversity, profile: Profile, rng: np.random.Generator) -> Planned[LDiversityPlan]:
        """The feasible node of least loss."""
        hierarchies = [hierarchy_of(domain, spec.given().get(domain.columns[0])) for domain in profile.domains[:-1]]
        cells = _cells(profile)
        codes = cells.codes
        l, suppression = exact(spec.l, "l"), exact(spec.suppression, "suppression")
        kind = _kind(spec.kind)
        found = search_lattice(cells, hierarchies, l=l, kind=kind, suppression=suppression)
        columns = tuple(
            Level(
                column=h.column,
                level=level,
                height=h.height,
                labels=h.labels[level],
                member=tuple(int(c) for c in h.levels[level]),
            )
            for h, level in zip(hierarchies, found.levels, strict=True)
        )
        where, n = class_of(codes, hierarchies, found.levels)
        sums = cells.by_class(where, n)
        good = diverse(sums, l=l, kind=kind)
        stated = [
            _without(level, domain, np.isin(np.arange(len(domain)), codes[good[where], j]))
            if not good.all()
            else (level, domain, np.asarray(level.member, dtype=np.int32))
            for j, (level, domain) in enumerate(zip(columns, profile.domains[:-1], strict=True))
        ]
        public = LDiversityPlan(
            l=l,
            kind=spec.kind,
            suppression=suppression,
            suppressed=int(sums[~good].sum()),
            columns=tuple(level for level, _, _ in stated),
        )
        apart = _Apart(
            found=found,
            keeper=None if good.all() else Keeper.of(codes, where, good),
            columns=columns,
            code=tuple(code for _, _, code in stated),
        )
        domains = (*(domain for _, domain, _ in stated), profile.domains[-1])
        return Planned(public=public, work=Work(secret=apart, domains=domains))

    def apply(self, plan: LDiversityPlan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Labels for values; rows of classes that are not diverse stay behind."""
        apart: _Apart = work.secret
        codes = batch.codes[: len(plan.columns)]
        new = [
            code.take(c) if code.any() else np.zeros(batch.rows, dtype=code.dtype)  # one label, that of all values
            for code, c in zip(apart.code, codes, strict=True)
        ]
        return Released(codes=(*new, None), stay=None if apart.keeper is None else apart.keeper(codes))

    def released_domains(self, plan: LDiversityPlan, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
        """Labels where a column is generalised."""
        found = tuple((domain.columns[0], len(domain)) for domain in domains[: len(plan.columns)])
        if found != tuple((level.column, len(level.member)) for level in plan.columns):
            raise ReleaseError("release.json states labels that do not fit its columns")
        out = list(domains)
        for i, level in enumerate(plan.columns):
            if level.level:
                values = tuple((label,) for label in level.labels)
                out[i] = Domain(columns=domains[i].columns, values=values, declared=domains[i].declared)
        return tuple(out)

    def guarantee(self, plan: LDiversityPlan) -> Guarantee:
        """What the kind of diversity promises."""
        says = {
            "frequency": f"no sensitive value holds more than {1 / plan.l} of the rows",
            "entropy": f"the sensitive values have an entropy of at least log({plan.l})",
            "distinct": f"there are at least {plan.l} different sensitive values",
        }[plan.kind]
        weaker = () if plan.kind == "frequency" else ("a bound on the share of the most frequent value in a class",)
        return Guarantee(
            model=f"{plan.kind} l-diversity",
            parameters={"l": str(plan.l), "kind": plan.kind, "suppression": str(plan.suppression)},
            statement=f"In every class of rows with equal published quasi-identifiers {says}.",
            assumptions=(
                "the reader knows a person's quasi-identifiers and nothing about the others in the class",
                "she does not reason about how the classes were chosen",
                "the table is published once",
            ),
            not_covered=(
                *weaker,
                "a reader who knows other members of the class, or can rule out values",
                "the exact histogram of the sensitive column inside each class, which is published",
                "columns that are published as they are",
            ),
            trust=self.trust,
        )

    def generalised(self, plan: LDiversityPlan, unit: int) -> tuple[int, ...]:
        """The label of every value."""
        return plan.columns[unit].member

    def verify(self, plan: LDiversityPlan, published: Published) -> None:
        """Every class is diverse: recomputed from the published rows."""
        check_release(plan, published)

    def claim(self, plan: LDiversityPlan) -> Claim:
        """1/l, whatever the prior."""
        return Claim(rho2=1 / plan.l)

    def readers(self, plan: LDiversityPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """The shares of the values in a class."""
        return readers(
            1 / plan.l if plan.kind == "frequency" else None,
            claim.or_own(self.claim(plan).rho1, self.claim(plan).rho2),
            known,
        )

    def estimate(self, plan: LDiversityPlan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Even spread inside a class, with certain limits."""
        members = [np.asarray(plan.columns[u].member, dtype=np.int64) for u in asked.units]
        return estimate(members, observed, asked)

    def caveats(self, plan: LDiversityPlan) -> tuple[str, ...]:
        """How many rows are missing."""
        return rows_left_out(plan.suppressed)

    def bound(
        self,
        plan: LDiversityPlan,
        evidence: Evidence,
        kind: str,
        observed: Observed,
        asked: Asked,
        top: Sequence[int],
        bottom: Sequence[int],
        share: float | None,
    ) -> tuple[Any, Any, tuple[str, ...]] | None:
        """Certain bounds of shares and averages."""
        if kind != "ratio":
            return None
        members = [np.asarray(plan.columns[u].member, dtype=np.int64) for u in asked.units]
        found = ratio_bounds(members, observed, asked, top, bottom)
        return None if found is None else (*found, ())

    def report(self, plan: LDiversityPlan, work: Work, profile: Profile) -> dict[str, Any]:
        """Levels, what they cost, and the error to expect."""
        apart: _Apart = work.secret
        found = apart.found
        return {
            "levels": {level.column: f"{level.level} of {level.height}" for level in plan.columns},
            "information_loss": found.loss,
            "classes": found.classes,
            "suppressed_rows": found.suppressed,
            "nodes": {"checked": found.checked, "in_lattice": found.nodes},
            "expected_error": expected_error(apart.columns, profile),
        }

    def with_files(self, spec: LDiversity, read: ReadRows) -> LDiversity:
        """Hierarchies given as files, read."""
        if spec.hierarchies is None:
            return spec
        read_in = {c: read(str(what), c) if _is_file(what) else what for c, what in spec.given().items()}
        return replace(spec, hierarchies=read_in)

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """l = 1/tau with every kind of diversity; only frequency limits the share of a value."""
        hierarchies = facts.hierarchies or {
            c: INTERVALS for c, m in facts.sizes.items() if c in facts.integers and m > NUMBERS
        }
        base: dict[str, Any] = {"l": group_size(tau), "hierarchies": hierarchies}
        kinds = (("frequency", ""), ("entropy", "entropy"), ("distinct", "distinct"))
        return tuple(
            Candidate(
                method=self.name,
                parameters=base | {"kind": kind},
                variant=variant,
                releases=1,
            )
            for kind, variant in kinds
        )


def _is_file(what: Any) -> bool:
    """Whether a hierarchy is given as a file: its name, or a path object."""
    return what.lower().endswith((".csv", ".txt")) if isinstance(what, str) else not isinstance(what, Sequence)


METHOD: Method[LDiversity, LDiversityPlan] = LDiversityMethod()
