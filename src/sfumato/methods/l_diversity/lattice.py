"""l-diversity by full-domain generalisation: the node of the lattice that loses the least.

A node gives every quasi-identifier one level of its hierarchy. It is feasible if the rows in classes that are not
l-diverse number at most the suppression limit (those rows are left out of the release). Kinds, for a class of n rows:

    frequency   l * max_u n_u <= n        no value above 1/l of the class: the bound it is compared under
    entropy     H(S in class) >= log l
    distinct    at least l different values

Loss: the share of the columns' bits that is lost, sum_j H(A_j | class) / sum_j H(A_j) with the table's own
frequencies, all of them for a suppressed row. It grows along the lattice, so the best feasible node is a minimal one.
Without suppression all kinds are monotone (a union of diverse classes is diverse) and an infeasible node rules out
everything below it; with suppression only the weaker test does ("too many rows in classes smaller than l", which
every kind needs).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import PlanError, SpecError
from .class_tables import CellCounts, ClassTables
from .hierarchy import Hierarchy, Ints

Kind = Literal["frequency", "entropy", "distinct"]
MOST_AROUND = 1 << 22  # counts of one class at all nodes, by value
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
        self.tables = ClassTables(cells, hierarchies)
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
        classes = self.tables.classes(node)
        cheaper = self.limit == 0 and not classes.worth_keeping
        if cheaper and classes.smallest() * self.l.denominator < self.l.numerator:
            self._rule_out(node)  # fewer rows than l: no kind holds, whatever the values
            return None
        table = self.tables.counted(classes)
        good = diverse(table, l=self.l, kind=self.kind)
        total = table.sum(axis=1)
        suppressed = int(total[~good].sum())
        if suppressed <= self.limit and suppressed < self.rows:
            return suppressed, int(good.sum())
        hopeless = suppressed if self.limit == 0 else int(total[total * self.l.denominator < self.l.numerator].sum())
        if hopeless > self.limit:
            self._rule_out(node)
        if self.limit == 0 and self.ruled_out.size * self.cells.values <= MOST_AROUND:
            worst = int(np.argmin(np.where(good, self.rows + 1, total)))
            self._rule_out_around(classes.source.codes[int(np.argmax(classes.where == worst))])
        return None

    def _rule_out_around(self, codes: Ints) -> None:
        """Nor is any node feasible at which the class that holds these codes is not diverse."""
        found = self.cells.around(codes, self.hierarchies)
        self.ruled_out |= ~diverse(found.reshape(-1, self.cells.values), l=self.l, kind=self.kind).reshape(self.shape)

    def _rule_out(self, node: tuple[int, ...]) -> None:
        """Nor is any node below it feasible."""
        self.ruled_out[tuple(slice(0, h + 1) for h in node)] = True


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
