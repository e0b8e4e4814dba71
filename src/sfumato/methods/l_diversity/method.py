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

from ...errors import SpecError, VerificationError
from ...laws.classes import Classes, Keeper, Level, Relabelling
from ...model.names import exact
from ...model.private import Facts, Known, Needs, Profile, Work
from ...model.public import (
    Candidate,
    Claim,
    Codes,
    Domain,
    Floats,
    Guarantee,
    Integers,
    Published,
    ReaderBound,
    Roles,
    Trust,
    value_label,
)
from ...stats.joint_codes import distinct_cells, sum_by_group
from ..contract import Example, Inputs, Method, Planned, ReadRows
from ..shared.options import group_size
from ..shared.readers import Found, in_parts
from .plan import KINDS, CellCounts, Generalisation, Kind, LDiversity, class_of, diverse, hierarchy_of, search_lattice

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


# --- the method -------------------------------------------------------------------------------------------------------


NUMBERS = 20  # at a bound: integer columns with more values than this get interval hierarchies
INTERVALS = "interval:5/10/20/40"

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LDiversityPlan:
    """What the release states."""

    l: Fraction
    kind: str
    suppression: Fraction  # at most this share of the rows was left out
    law: Classes

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.l < 1:
            raise ValueError("unknown kind of diversity, or l below 1")


def _cells(profile: Profile) -> CellCounts:
    """The distinct cells of quasi-identifiers, and their counts by sensitive value."""
    histogram = profile.histograms[0]
    cells, where = distinct_cells(histogram.codes[:, :-1].astype(np.int64))
    values = len(profile.domains[-1])
    return CellCounts.of_entries(cells, where, histogram.codes[:, -1], histogram.true_counts, values)


def _kind(kind: str) -> Kind:
    return next(k for k in KINDS if k == kind)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Apart(Relabelling):
    """What the release does not state: the search, and levels over the domains of *all* rows."""

    found: Generalisation
    columns: tuple[Level, ...]


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
    answers = "estimate, certain bounds"
    spec = LDiversity
    plan_type = LDiversityPlan
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
            law=Classes(columns=tuple(level for level, _, _ in stated), suppressed=int(sums[~good].sum())),
        )
        apart = _Apart(
            found=found,
            keeper=None if good.all() else Keeper.of(codes, where, good),
            columns=columns,
            code=tuple(code for _, _, code in stated),
        )
        domains = (*(domain for _, domain, _ in stated), profile.domains[-1])
        return Planned(public=public, work=Work(secret=apart, domains=domains))

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

    def verify(self, plan: LDiversityPlan, published: Published) -> None:
        """Every class is diverse, recomputed from the published rows."""
        columns, sensitive = tuple(level.column for level in plan.law.columns), published.with_role("sensitive")
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

    def report(self, plan: LDiversityPlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        """Levels, what they cost, and the error to expect."""
        apart: _Apart = work.secret
        found = apart.found
        return {
            "levels": {level.column: f"{level.level} of {level.height}" for level in plan.law.columns},
            "information_loss": found.loss,
            "classes": found.classes,
            "suppressed_rows": found.suppressed,
            "nodes": {"checked": found.checked, "in_lattice": found.nodes},
            "expected_error": expected_error(apart.columns, profile),
        }

    def inputs(self, spec: LDiversity, read: ReadRows) -> Inputs[LDiversity]:
        """Hierarchies given as files, read."""
        if spec.hierarchies is None:
            return Inputs(spec=spec)
        read_in = {c: read(str(what), c) if _is_file(what) else what for c, what in spec.given().items()}
        return Inputs(spec=replace(spec, hierarchies=read_in))

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


def _is_file(what: Any) -> bool:
    """Whether a hierarchy is given as a file: its name, or a path object."""
    return what.lower().endswith((".csv", ".txt")) if isinstance(what, str) else not isinstance(what, Sequence)


METHOD: Method[LDiversity, LDiversityPlan] = LDiversityMethod()
