"""What a publisher asks of l-diversity, and the node of the lattice of generalisations that loses the least."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import PlanError, SpecError
from ...model.names import Ratio, exact, parts
from ...model.public import Domain
from ..contract import Specification
from ..shared.options import told

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
    if kind not in KINDS:
        raise SpecError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}", field="kind")
    if l < 1:
        raise SpecError(f"l must be at least 1, got {l}", field="l")
    if not 0 <= suppression < 1:
        raise SpecError(
            f"suppression is a share of the rows, at least 0 and below 1, got {suppression}", field="suppression"
        )
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
