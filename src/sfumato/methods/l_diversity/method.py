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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ...errors import ReleaseError, SpecError, VerificationError
from ...model.private import Batch, Facts, Needs, Profile, Released, Work
from ...model.public import (
    Asked,
    Candidate,
    Domain,
    Estimated,
    Evidence,
    GivesAway,
    Guarantee,
    Integers,
    Observed,
    Published,
    Roles,
    Trust,
)
from ...model.ratios import Ratio, exact
from ...stats.joint_codes import distinct_cells
from ..contract import Example, Method, Planned, ReadRows, Specification
from ..shared.groups_at_bound import group_size
from ..shared.restricted import value_label
from . import generalised
from .hierarchy import Hierarchy, from_rows, intervals, prefixes, suppress
from .lattice import KINDS, Generalisation, Kind, class_of, diverse, search_lattice
from .suppression import Keeper

MISSING = "(missing)"
NUMBERS = 20  # at a bound: integer columns with more values than this get interval hierarchies
INTERVALS = "interval:5/10/20/40"

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LDiversity(Specification):
    """Generalise until every class is l-diverse; rows of at most a share `suppression` may be left out.

    `hierarchies` maps a column to ARX-style rows (value, then one label per level), or to "interval:5/10/20",
    "prefix:3/1" or "suppress"; a column without one is kept or suppressed as a whole.
    """

    method: ClassVar[str] = "l-diversity"

    l: Ratio
    kind: str = "frequency"
    hierarchies: Mapping[str, Any] | str | None = field(
        default=None, metadata={"help": "column=FILE.csv|interval:5/10|prefix:3/1|suppress, ..."}
    )
    suppression: Ratio = Fraction(0)

    def __post_init__(self) -> None:
        if exact(self.l, "l") < 1:
            raise SpecError(f"l must be at least 1, got {self.l}", field="l")
        if self.kind not in KINDS:
            raise SpecError(f'kind must be one of {", ".join(KINDS)}, got "{self.kind}"', field="kind")
        if not 0 <= exact(self.suppression, "suppression") < 1:
            raise SpecError(
                f"suppression is a share of the rows, at least 0 and below 1, got {self.suppression}",
                field="suppression",
            )
        self.given()

    def given(self) -> dict[str, Any]:
        """Hierarchies by column, as given."""
        if self.hierarchies is None:
            return {}
        if isinstance(self.hierarchies, Mapping):
            return dict(self.hierarchies)
        parts = [part.partition("=") for part in self.hierarchies.split(",") if part.strip()]
        if not all(separator for _, separator, _ in parts):
            raise SpecError(
                f'hierarchies are written column=WHAT,column=WHAT, got "{self.hierarchies}"', field="hierarchies"
            )
        return {column.strip(): what.strip() for column, _, what in parts}


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
    columns: tuple[Level, ...]

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.l < 1:
            raise ValueError("unknown kind of diversity, or l below 1")
        for level in self.columns:
            if set(level.member) != set(range(len(level.labels))) or len(set(level.labels)) != len(level.labels):
                raise ValueError(f"values and labels of {level.column} do not fit each other")


def _cells(profile: Profile) -> tuple[Integers, Integers]:
    """(distinct QI cells, counts per sensitive value)."""
    histogram = profile.histograms[0]
    cells, where = distinct_cells(histogram.codes[:, :-1].astype(np.int64))
    values = len(profile.domains[-1])
    flat = np.bincount(
        where * values + histogram.codes[:, -1], weights=histogram.true_counts, minlength=len(cells) * values
    )
    return cells, flat.astype(np.int64).reshape(len(cells), values)


def hierarchy_of(domain: Domain, what: Any) -> Hierarchy:
    """The hierarchy a person means for a column; missing values are a class of their own below the top."""
    column = domain.columns[0]
    values = [v[0] for v in domain.values]
    if what is None or what == "suppress":
        return suppress(column, [MISSING if v is None else v for v in values])
    if isinstance(what, str):
        name, _, numbers = what.partition(":")
        try:
            steps = [int(n) for n in numbers.split("/")]
        except ValueError:
            steps = []
        if name == "prefix" and steps:
            return prefixes(column, [MISSING if v is None else v for v in values], steps)
        if name == "interval" and steps:
            numeric = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
            if len(numeric) < len(values):
                raise SpecError(f'intervals need numbers; "{column}" has other values', field="hierarchies")
            return intervals(column, numeric, steps)
        raise SpecError(
            f'hierarchy of "{column}" must be interval:5/10, prefix:3/1, suppress or a table, got "{what}"',
            field="hierarchies",
        )
    rows = [[str(cell) for cell in row] for row in what]
    if None in values and rows:
        rows.append([MISSING, *[MISSING] * (len(rows[0]) - 2), *rows[0][-1:]])
    return from_rows(column, [MISSING if v is None else v for v in values], rows)


def _kind(kind: str) -> Kind:
    return next(k for k in KINDS if k == kind)


def expected_error(plan: LDiversityPlan, profile: Profile) -> dict[str, Any]:
    """Root mean square of the even-spread error, over single quasi-identifier values that hold about 1 % or 10 %."""
    codes, table = _cells(profile)
    rows = table.sum()
    picked: dict[float, list[Any]] = {0.01: [], 0.1: []}
    for j, level in enumerate(plan.columns):
        true = np.zeros((len(level.member), table.shape[1]))
        np.add.at(true, codes[:, j], table)
        member = np.asarray(level.member)
        whole = np.zeros((len(level.labels), table.shape[1]))
        np.add.at(whole, member, true)
        even = whole[member] / np.bincount(member)[member][:, None]
        share = true.sum(axis=1) / rows
        for target, kept in picked.items():
            near = (share > target / 2) & (share < 2 * target)
            kept.append((even - true)[near])
    among = {t: np.concatenate(kept) for t, kept in picked.items()}
    rms = {t: np.sqrt((e**2).mean(axis=0)) if len(e) else np.zeros(table.shape[1]) for t, e in among.items()}
    return {
        "values": [value_label(v) for v in profile.domains[-1].values],
        "total": [0.0] * table.shape[1],
        "among_1_percent": rms[0.01].tolist(),
        "among_10_percent": rms[0.1].tolist(),
    }


class LDiversityMethod(Method[LDiversity, LDiversityPlan]):
    """Generalised quasi-identifiers, diverse sensitive values in every class."""

    name = "l-diversity"
    title = "l-diversity"
    trust = Trust.CONDITIONAL
    formula = "a row counts with the mean of h over the values of its labels; limits: least and largest h there"
    promise = "every group of rows that look alike holds l different values"
    answers = "estimate"
    spec = LDiversity
    plan_type = LDiversityPlan
    foreseeable = False
    classes = True
    gives_away = GivesAway(
        survives_corruption=False,
        hides_group=False,
        every_predicate=False,
        why="publishes every true value inside a class: members known, or values ruled out, reveal the others",
    )
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
        codes, table = _cells(profile)
        l, suppression = exact(spec.l, "l"), exact(spec.suppression, "suppression")
        kind = _kind(spec.kind)
        found = search_lattice(codes, table, hierarchies, l=l, kind=kind, suppression=suppression)
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
        public = LDiversityPlan(l=l, kind=spec.kind, suppression=suppression, columns=columns)
        where, n = class_of(codes, hierarchies, found.levels)
        sums = np.zeros((n, table.shape[1]), dtype=np.int64)
        np.add.at(sums, where, table)
        good = diverse(sums, l=l, kind=kind)
        keeper = None if good.all() else Keeper.of(codes, where, good)
        return Planned(public=public, work=Work(secret=(found, keeper)))

    def apply(self, plan: LDiversityPlan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Labels for values; rows of classes that are not diverse stay behind."""
        _, keeper = work.secret
        codes = batch.codes[: len(plan.columns)]
        new = [np.asarray(level.member, dtype=np.int32)[c] for level, c in zip(plan.columns, codes, strict=True)]
        return Released(codes=(*new, None), stay=None if keeper is None else keeper(codes))

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

    def verify(self, plan: LDiversityPlan, published: Published) -> None:
        """Every class is diverse: recomputed from the published rows."""
        sensitive = published.with_role("sensitive")
        codes, rows = published.counted((*(level.column for level in plan.columns), *sensitive))
        _, where = distinct_cells(codes[:, : len(plan.columns)])
        value = codes[:, -1]
        table = np.zeros((int(where.max(initial=-1)) + 1, int(value.max(initial=0)) + 1), dtype=np.int64)
        np.add.at(table, (where, value), rows)
        bad = int((~diverse(table, l=plan.l, kind=_kind(plan.kind))).sum())
        if bad:
            raise VerificationError(f"{bad} classes of the release are not {plan.kind} {plan.l}-diverse")

    def caveats(self, plan: LDiversityPlan) -> tuple[str, ...]:
        if not plan.suppression:
            return ()
        return (f"up to {float(plan.suppression):.2g} of the rows were left out; answers are about the published ones",)

    def estimate(self, plan: LDiversityPlan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Even spread inside a class, with certain limits."""
        members = [np.asarray(plan.columns[u].member, dtype=np.int64) for u in asked.units]
        found = generalised.estimate(members, observed, asked)
        if not plan.suppression:
            return found
        return Estimated(
            value=found.value,
            variance=found.variance,
            low=found.low,
            high=found.high,
            covariance=found.covariance,
            minimum=found.minimum,
            maximum=found.maximum,
            caveats=(*found.caveats, *self.caveats(plan)),
        )

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
        found = generalised.ratio_bounds(members, observed, asked, top, bottom)
        return None if found is None else (*found, ())

    def report(self, plan: LDiversityPlan, work: Work, profile: Profile) -> dict[str, Any]:
        """Levels, what they cost, and the error to expect."""
        found: Generalisation = work.secret[0]
        return {
            "levels": {level.column: f"{level.level} of {level.height}" for level in plan.columns},
            "information_loss": found.loss,
            "classes": found.classes,
            "suppressed_rows": found.suppressed,
            "nodes": {"checked": found.checked, "in_lattice": found.nodes},
            "expected_error": expected_error(plan, profile),
        }

    def with_files(self, spec: LDiversity, read: ReadRows) -> LDiversity:
        """Hierarchies given as files, read."""
        if spec.hierarchies is None:
            return spec
        read_in = {c: read(str(what), c) if _is_file(what) else what for c, what in spec.given().items()}
        return replace(spec, hierarchies=read_in)

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """l = 1/tau with every kind of diversity; only frequency holds the bound."""
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
                equal=kind == "frequency",
            )
            for kind, variant in kinds
        )


def _is_file(what: Any) -> bool:
    """Whether a hierarchy is given as a file: its name, or a path object."""
    return what.lower().endswith((".csv", ".txt")) if isinstance(what, str) else not isinstance(what, Sequence)


METHOD: Method[LDiversity, LDiversityPlan] = LDiversityMethod()
