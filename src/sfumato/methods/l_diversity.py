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

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError, SpecError, VerificationError
from ..laws.classes import Classes, Keeper, Level, Relabelling
from ..model.names import Ratio, exact, parts
from ..model.private import Facts, Known, Needs, Profile, Work
from ..model.public import (
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
from ..stats.joint_codes import distinct_cells, sum_by_group
from .contract import Example, Inputs, Method, Planned, ReadRows, Specification
from .shared.readers import Found, in_parts
from .shared.restricted import group_size, told

MISSING = "(missing)"

Ints = NDArray[np.int64]
ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hierarchy:
    """levels[h][code] is the class of a value at level h; labels[h][class] its name."""

    column: str
    levels: tuple[Ints, ...]
    labels: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for h in range(1, len(self.levels)):
            below, above = self.levels[h - 1], self.levels[h]
            first = np.full(int(below.max()) + 1, -1, dtype=np.int64)
            first[below[::-1]] = above[::-1]
            if not np.array_equal(first[below], above):
                raise SpecError(
                    f"hierarchy of {self.column!r}: level {h} splits a class of level {h - 1}; levels must be nested",
                    field="hierarchies",
                )

    @property
    def height(self) -> int:
        return len(self.levels) - 1

    def class_sizes(self, level: int) -> Ints:
        """The number of domain values in each class of a level."""
        return np.bincount(self.levels[level], minlength=len(self.labels[level]))


def _build(column: str, label_rows: Sequence[Sequence[str]]) -> Hierarchy:
    """label_rows[h][code]: the label of every value at every level; classes are numbered in domain order."""
    levels, labels = [], []
    for row in label_rows:
        order = {label: i for i, label in enumerate(dict.fromkeys(row))}
        levels.append(np.array([order[label] for label in row], dtype=np.int64))
        labels.append(tuple(order))
    return Hierarchy(column=column, levels=tuple(levels), labels=tuple(labels))


def from_rows(column: str, domain: Sequence[object], rows: Sequence[Sequence[str]]) -> Hierarchy:
    """The hierarchy of a domain from parsed ARX-style rows: value, label at level 1, ..., label at the last level."""
    widths = {len(row) for row in rows}
    if len(widths) != 1 or min(widths) < 1:
        raise SpecError(
            f"hierarchy of {column!r}: every row needs the same number of levels, found {sorted(widths)}",
            field="hierarchies",
        )
    by_value = {row[0]: row for row in rows}
    if len(by_value) != len(rows):
        raise SpecError(f"hierarchy of {column!r} lists a value twice", field="hierarchies")
    missing = sum(str(value) not in by_value for value in domain)
    if missing:
        raise SpecError(
            f"hierarchy of {column!r} lacks {missing} of the {len(domain)} values of the domain; add a row for each",
            field="hierarchies",
        )
    chosen = [by_value[str(value)] for value in domain]
    return _build(column, [[row[h] for row in chosen] for h in range(widths.pop())])


def suppress(column: str, domain: Sequence[object]) -> Hierarchy:
    """Two levels: the value, or nothing."""
    return _build(column, [[str(v) for v in domain], [ANY] * len(domain)])


def prefixes(column: str, domain: Sequence[object], lengths: Sequence[int]) -> Hierarchy:
    """Keep the first characters only: one level per length, longest first, then nothing."""
    if list(lengths) != sorted(set(lengths), reverse=True) or any(n < 1 for n in lengths):
        raise SpecError(
            f"prefix lengths of {column!r} must fall and stay above 0, got {list(lengths)}", field="hierarchies"
        )
    values = [str(v) for v in domain]
    cut = [[v if len(v) <= n else v[:n] + ANY for v in values] for n in lengths]
    return _build(column, [values, *cut, [ANY] * len(values)])


def intervals(column: str, domain: Sequence[float], widths: Sequence[int], *, origin: int = 0) -> Hierarchy:
    """Half-open intervals [a, a + width) counted from `origin`: one level per width, each a multiple of the last."""
    if any(w < 1 for w in widths) or any(b % a or b == a for a, b in pairwise(widths)):
        raise SpecError(
            f"interval widths of {column!r} must grow, each a multiple of the one before, got {list(widths)}",
            field="hierarchies",
        )
    values = np.asarray(domain, dtype=np.float64)
    rows = [[str(v) for v in domain]]
    for width in widths:
        low = (np.floor((values - origin) / width) * width + origin).astype(np.int64)
        rows.append([f"[{a}, {a + width})" for a in low])
    return _build(column, [*rows, [ANY] * len(values)])


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


# --- cells and classes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CellCounts:
    """The distinct cells of quasi-identifiers, and their counts above 0 by sensitive value. Private.

    Most cells hold few values: a table of cells by values would be mostly zeros.
    """

    codes: Ints  # (cells, columns)
    cell: NDArray[np.int32]
    value: NDArray[np.int32]
    weight: NDArray[np.float64]
    rows: NDArray[np.float64]  # of every cell
    values: int

    @classmethod
    def of_entries(
        cls, codes: Ints, cell: NDArray[np.integer], value: NDArray[np.integer], count: Ints, values: int
    ) -> CellCounts:
        """From the cell, the value and the rows of every entry."""
        weight = count.astype(np.float64)
        return cls(
            codes=codes,
            cell=cell.astype(np.int32),
            value=value.astype(np.int32),
            weight=weight,
            rows=np.bincount(cell, weights=weight, minlength=len(codes)).astype(np.float64),
            values=values,
        )

    def by_class(self, where: Ints, classes: int) -> Ints:
        """(classes, values), where each cell lies in one of the classes."""
        flat = where[self.cell] * self.values + self.value
        table = np.bincount(flat, weights=self.weight, minlength=classes * self.values)
        return table.astype(np.int64).reshape(classes, self.values)

    def of_values(self) -> Ints:
        """Rows of every value."""
        return np.bincount(self.value, weights=self.weight, minlength=self.values).astype(np.int64)


def class_of(codes: Ints, hierarchies: Sequence[Hierarchy], levels: Sequence[int]) -> tuple[Ints, int]:
    """The equivalence class of every row of codes at a node, and the number of classes."""
    key = np.zeros(len(codes), dtype=np.int64)
    span = 1
    for j, (hierarchy, level) in enumerate(zip(hierarchies, levels, strict=True)):
        size = len(hierarchy.labels[level])
        if span > (1 << 40) // size:  # keep the mixed-radix key small
            key = np.unique(key, return_inverse=True)[1].reshape(-1)
            span = int(key.max()) + 1 if len(key) else 1
        key = key * size + hierarchy.levels[level][codes[:, j]]
        span *= size
    if span <= 4 * len(codes):
        used = np.bincount(key, minlength=span) > 0
        return (np.cumsum(used) - 1)[key], int(used.sum())
    classes, inverse = np.unique(key, return_inverse=True)
    return inverse.reshape(-1), len(classes)


# --- lattice ----------------------------------------------------------------------------------------------------------
# l-diversity by full-domain generalisation: the node of the lattice that loses the least.
#
# A node gives every quasi-identifier one level of its hierarchy. It is feasible if the rows in classes that are not
# l-diverse number at most the suppression limit (those rows are left out of the release). Kinds, for a class of n rows:
#
#     frequency   l * max_u n_u <= n        no value above 1/l of the class: the bound it is compared under
#     entropy     H(S in class) >= log l
#     distinct    at least l different values
#
# Loss: the share of the columns' bits that is lost, sum_j H(A_j | class) / sum_j H(A_j) with the table's own
# frequencies, all of them for a suppressed row. It grows along the lattice, so the best feasible node is a minimal one.
# Without suppression all kinds are monotone (a union of diverse classes is diverse) and an infeasible node rules out
# everything below it; with suppression only the weaker test does ("too many rows in classes smaller than l", which
# every kind needs).


Kind = Literal["frequency", "entropy", "distinct"]
KINDS: tuple[Kind, ...] = ("frequency", "entropy", "distinct")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generalisation:
    """The chosen node: a level per quasi-identifier, and what it costs."""

    levels: tuple[int, ...]
    loss: float
    suppressed: int  # true number of rows left out: custodian only
    classes: int
    checked: int  # nodes evaluated
    nodes: int


def diverse(class_counts: NDArray[np.int64], *, l: Fraction, kind: Kind) -> NDArray[np.bool_]:
    """Which classes (rows of counts per sensitive value) satisfy the kind."""
    total = class_counts.sum(axis=1)
    if kind == "frequency":
        return np.asarray(class_counts.max(axis=1) * l.numerator <= total * l.denominator)
    if kind == "distinct":
        return np.asarray((class_counts > 0).sum(axis=1) * l.denominator >= l.numerator)
    # H = log n - (1/n) sum n_u log n_u; a class of exactly l equal shares must pass, hence the last digits
    logs = np.log(class_counts, out=np.zeros(class_counts.shape), where=class_counts > 0)
    entropy = np.log(total) - (class_counts * logs).sum(axis=1) / total
    return np.asarray(entropy >= math.log(l) - 1e-12)


class _LatticeSearch:
    """Feasibility of nodes, with what earlier answers imply."""

    def __init__(
        self,
        cells: CellCounts,
        hierarchies: Sequence[Hierarchy],
        *,
        l: Fraction,
        kind: Kind,
        limit: int,
    ) -> None:
        self.cells, self.hierarchies = cells, hierarchies
        self.l, self.kind, self.limit = l, kind, limit
        self.rows = int(cells.rows.sum())
        self.shape = tuple(h.height + 1 for h in hierarchies)
        shares = [_shares(cells.codes[:, j], cells.rows, len(h.levels[0])) for j, h in enumerate(hierarchies)]
        self.lost = [_level_bits(h, share) for h, share in zip(hierarchies, shares, strict=True)]
        # one value in a column: nothing to lose, and the ratio must not divide by 0
        self.bits = sum(_entropy(share) for share in shares) or 1.0
        self.ruled_out = np.zeros(self.shape, dtype=bool)
        self.checked = 0

    def loss(self, node: Sequence[int]) -> float:
        return sum(float(c[h]) for c, h in zip(self.lost, node, strict=True)) / self.bits

    def check(self, node: tuple[int, ...]) -> tuple[int, int] | None:
        """(rows suppressed, classes kept) if the node is feasible, else None; an infeasible node rules out more."""
        self.checked += 1
        table = self.cells.by_class(*class_of(self.cells.codes, self.hierarchies, node))
        good = diverse(table, l=self.l, kind=self.kind)
        total = table.sum(axis=1)
        suppressed = int(total[~good].sum())
        if suppressed <= self.limit and suppressed < self.rows:
            return suppressed, int(good.sum())
        hopeless = suppressed if self.limit == 0 else int(total[total * self.l.denominator < self.l.numerator].sum())
        if hopeless > self.limit:
            self.ruled_out[tuple(slice(0, h + 1) for h in node)] = True  # nor is any node below it feasible
        return None


def _level_bits(hierarchy: Hierarchy, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per level, H(value | class) in nats: what a reader of the class does not know of the value."""
    bits = []
    for member in hierarchy.levels:
        whole = np.bincount(member, weights=share).astype(np.float64)
        bits.append(_entropy(share) - _entropy(whole))
    return np.array(bits)


def _shares(codes: Ints, rows: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    rows_of = np.bincount(codes, weights=rows, minlength=size)
    return np.asarray(rows_of / rows_of.sum())


def _entropy(share: NDArray[np.float64]) -> float:
    return -float((share * np.log(share, out=np.zeros_like(share), where=share > 0)).sum())


def search_lattice(
    cells: CellCounts,
    hierarchies: Sequence[Hierarchy],
    *,
    l: Fraction,
    kind: Kind = "frequency",
    suppression: Fraction = Fraction(0),
) -> Generalisation:
    """The feasible node of least loss, for distinct cells of the quasi-identifiers."""
    limit = math.floor(suppression * int(cells.rows.sum()))
    search = _LatticeSearch(cells, hierarchies, l=l, kind=kind, limit=limit)
    top = tuple(h - 1 for h in search.shape)
    if search.check(top) is None and limit == 0:
        raise _unreachable(cells.of_values(), l, kind)
    if limit == 0:
        _bisect_chains(search)
    return _best_first(search, cells.of_values())


def _unreachable(whole: Ints, l: Fraction, kind: Kind) -> PlanError:
    share = whole / whole.sum()
    limits = {
        "frequency": 1.0 / float(share.max()),
        "entropy": float(np.exp(-(share[share > 0] * np.log(share[share > 0])).sum())),
        "distinct": float((whole > 0).sum()),
    }
    return PlanError(
        f"{kind} l-diversity with l = {l} cannot be reached even in one class; "
        f"the largest l is {math.floor(limits[kind] * 1000) / 1000:g}",
        limit=limits[kind],
    )


def _bisect_chains(search: _LatticeSearch) -> None:
    """Rule out much of a monotone lattice cheaply: bisect chains from low to high, starting at each column's own."""
    top = tuple(n - 1 for n in search.shape)
    orders = [list(range(len(top)))[i:] + list(range(len(top)))[:i] for i in range(len(top))]
    for order in orders:
        chain = [tuple([0] * len(top))]
        for j in order:
            chain += [(*chain[-1][:j], h, *chain[-1][j + 1 :]) for h in range(1, search.shape[j])]
        low, high = 0, len(chain) - 1  # high is feasible
        while low < high:
            middle = (low + high) // 2
            if search.ruled_out[chain[middle]] or search.check(chain[middle]) is None:
                low = middle + 1
            else:
                high = middle


def _best_first(search: _LatticeSearch, whole: Ints) -> Generalisation:
    """Visit nodes by rising generalisation loss, a lower bound of the loss with suppression; stop when it is beaten."""
    bottom = tuple([0] * len(search.shape))
    heap: list[tuple[float, tuple[int, ...]]] = [(search.loss(bottom), bottom)]
    seen = {bottom}
    best: Generalisation | None = None
    while heap:
        bound, node = heapq.heappop(heap)
        if best is not None and bound >= best.loss:
            break
        outcome = None if search.ruled_out[node] else search.check(node)
        if outcome is not None:
            suppressed, classes = outcome
            share = suppressed / search.rows
            loss = bound * (1.0 - share) + share if suppressed else bound
            if best is None or loss < best.loss:
                best = Generalisation(
                    levels=node,
                    loss=loss,
                    suppressed=suppressed,
                    classes=classes,
                    checked=search.checked,
                    nodes=math.prod(search.shape),
                )
            if suppressed == 0:
                continue  # everything above loses more
        for j in range(len(node)):
            if node[j] + 1 < search.shape[j]:
                above = (*node[:j], node[j] + 1, *node[j + 1 :])
                if above not in seen:
                    seen.add(above)
                    heapq.heappush(heap, (search.loss(above), above))
    if best is None:
        raise _unreachable(whole, search.l, search.kind)
    return best


# --- specification ----------------------------------------------------------------------------------------------------
# What a publisher asks of l-diversity: l, its kind, hierarchies, rows that may be left out.


@dataclass(frozen=True, slots=True, kw_only=True)
class LDiversity(Specification):
    """Generalise until every class is l-diverse; rows of at most a share `suppression` may be left out.

    `hierarchies` maps a column to ARX-style rows (value, then one label per level), or to "interval:5/10/20",
    "prefix:3/1" or "suppress"; a column without one is kept or suppressed as a whole.
    """

    method: ClassVar[str] = "l-diversity"

    l: Ratio = field(metadata=told("diversity of every class", "3"))
    kind: str = field(default="frequency", metadata=told("of diversity: frequency, entropy or distinct", "entropy"))
    hierarchies: Mapping[str, Any] | str | None = field(
        default=None,
        metadata=told("column=FILE.csv|interval:5/10|prefix:3/1|suppress, ...", "age=interval:5/10"),
    )
    suppression: Ratio = field(
        default=Fraction(0), metadata=told("share of the rows that may be left out instead", "1/50")
    )

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
        found = parts(self.hierarchies, "hierarchies")
        if any(what is None for _, what in found):
            raise SpecError(
                f'hierarchies are written column=WHAT,column=WHAT, got "{self.hierarchies}"', field="hierarchies"
            )
        return dict(found)


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
