"""Answers from published blocks: the linear functionals of a question, ratios and order statistics, as bounds.

A question's strata select rows of groups; patterns of the untouched leaves may give different rows different functions
of the sensitive value. Rows of one pattern are bounded exactly; several patterns are bounded one by one and added,
which is never too narrow. Bounds leave as floats rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import PlanError, ReleaseError
from ...model.public import Asked, Estimated, Floats, Observed
from ...stats.joint_codes import sum_by_group
from .block_bounds import Blocks, Bounder, Selection, WholeNumbers, exact_numbers
from .blocktree import BlockTree
from .picked_rows import Picked, may_be_empty, picked, ratio_bounds, sum_bounds
from .transform import check_plan

OUTER = "bounds may be wider than needed: conditions on other columns give rows of a group different questions"
SOMETIMES_NULL = "an average may be NULL: in some possible tables no row has the value asked for"
ROW_BY_ROW = "bounds of a sum are wide: each row is bounded by itself"
CELLS = 2**24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenBlocks:
    """Published blocks, ready to answer."""

    bounder: Bounder
    order: NDArray[np.int64]  # leaf position -> place in the domain
    rows: NDArray[np.int64]  # of every group
    _numbers: dict[bytes, WholeNumbers] = field(default_factory=dict)

    def numbers(self, of_value: Floats) -> WholeNumbers:
        """A function of the value, given over the domain, as exact numbers over the leaves."""
        key = of_value.tobytes()
        if key not in self._numbers:
            if len(self._numbers) > 256:
                self._numbers.clear()
            self._numbers[key] = exact_numbers(of_value[self.order], self.bounder.copies)
        return self._numbers[key]

    def check(self, weights: Sequence[NDArray[np.int64]], group_part: NDArray[np.int64]) -> None:
        """Nothing; raises unless every group's blocks are P-private for its weights and cover its rows."""
        blocks = self.bounder.blocks
        if (blocks.sizes < self.rows).any():
            raise PlanError("a group has fewer blocks than rows")
        step = max(1, CELLS // blocks.tree.nodes)
        for first in range(0, blocks.groups, step):
            last = min(first + step, blocks.groups)
            inside = slice(*np.searchsorted(blocks.group, [first, last]))
            plans = sum_by_group(
                blocks.count[inside],
                (blocks.group[inside] - first, blocks.node[inside]),
                (last - first, blocks.tree.nodes),
            )
            for part, w in enumerate(weights):
                mine = plans[group_part[first:last] == part]
                plenty = np.full((len(mine), blocks.tree.leaves), int(mine.sum()) + 1)
                check_plan(blocks.tree, w, mine, plenty, sizes=mine.sum(axis=1))


def open_blocks(
    tree: BlockTree, order: NDArray[np.int64], side: Mapping[str, NDArray[Any]], rows: NDArray[np.int64]
) -> OpenBlocks:
    """The release whose sensitive.parquet is `side`; refuses groups, blocks and counts that cannot be."""
    columns = [np.asarray(side.get(name)) for name in ("group_id", "block", "count")]
    if any(not np.issubdtype(column.dtype, np.integer) for column in columns):  # a missing cell makes them floats
        raise ReleaseError("sensitive.parquet needs whole numbers in group_id, block and count")
    group, node, count = (column.astype(np.int64) for column in columns)
    groups = len(rows)
    if sorted(order.tolist()) != list(range(tree.leaves)):
        raise ReleaseError("release.json orders the values of the domain in a way that does not fit the hierarchy")
    for column, limit in ((group, groups), (node, tree.nodes)):
        if len(column) and (column.min() < 0 or column.max() >= limit):
            raise ReleaseError("sensitive.parquet names a group or a block that release.json does not describe")
    if (count < 1).any() or (rows < 0).any():
        raise ReleaseError("sensitive.parquet or release.json holds a count below 1")
    at = np.argsort(group, kind="stable")
    blocks = Blocks(tree=tree, group=group[at], node=node[at], count=count[at], groups=groups)
    if (blocks.sizes < rows).any():
        raise ReleaseError("a group of sensitive.parquet has fewer blocks than rows")
    return OpenBlocks(bounder=Bounder(blocks), order=order, rows=rows)


def estimate(release: OpenBlocks, observed: Observed, asked: Asked) -> Estimated:
    """Bounds on every functional; no estimate. Where only the trivial limits hold there are none (NaN)."""
    shape = (observed.keys, asked.functionals)
    low, high = np.zeros(shape), np.zeros(shape)
    several = loose = False
    selections = [_selection(observed, b) for b in range(len(asked.coefficients))]
    for f in range(asked.functionals):
        if asked.measure[f] != 0:
            low[:, f], high[:, f], unknown, competing = _numbers_of_rows(release, observed, asked, f)
            loose |= unknown
            several |= competing
            continue
        uncertain, parts = 0, []
        for b, selection in enumerate(selections):
            h = _over_domain(asked, b, f)
            if len(selection.group) and h.any():
                uncertain += bool(np.ptp(h))
                parts.append((selection, h))
        low[:, f], high[:, f] = _sums(release, parts, np.ones(observed.keys, dtype=np.int64))
        several |= uncertain > 1
    nothing = np.full(shape, np.nan)
    return Estimated(
        value=nothing,
        variance=nothing,
        low=nothing,
        high=nothing,
        covariance=np.zeros((observed.keys, len(asked.pairs))),
        minimum=low,
        maximum=high,
        caveats=(*((OUTER,) if several else ()), *((ROW_BY_ROW,) if loose else ())),
    )


def ratios(
    release: OpenBlocks, observed: Observed, asked: Asked, top: Sequence[int], bottom: Sequence[int]
) -> tuple[Floats, Floats, tuple[str, ...]] | None:
    """Bounds on top / bottom, (output rows, groups of unit keys); None where none are known."""
    combos, per_group = asked.groups, asked.functionals // asked.groups
    if len(top) != 1 or len(bottom) != 1 or asked.measure[bottom[0]]:
        return None
    if asked.measure[top[0]]:
        return _averages(release, observed, asked, top[0], bottom[0])
    low, high = np.full((observed.keys, combos), np.nan), np.full((observed.keys, combos), np.nan)
    selections = [_selection(observed, b) for b in range(len(asked.coefficients))]
    sometimes = several = False
    for c in range(combos):
        functions = [
            (_over_domain(asked, b, c * per_group + top[0]), _over_domain(asked, b, c * per_group + bottom[0]))
            for b in range(len(selections))
        ]
        used = [b for b, (a, d) in enumerate(functions) if len(selections[b].group) and (a.any() or d.any())]
        several |= sum(bool(np.ptp(functions[b][0]) or np.ptp(functions[b][1])) for b in used) > 1
        if all((functions[b][1] == 1).all() for b in used):  # a known number of rows: bounds on the total, divided
            rows = sum((selections[b].per_key(selections[b].rows) for b in used), np.zeros(observed.keys, np.int64))
            low[:, c], high[:, c] = _sums(release, [(selections[b], functions[b][0]) for b in used], rows)
            continue
        for k in range(observed.keys):
            parts = [
                (mine, release.numbers(functions[b][0]), release.numbers(functions[b][1]))
                for b in used
                if len((mine := selections[b].of(k)).group)
            ]
            found = release.bounder.ratio(parts) if parts else None
            if found is not None:
                low[k, c], high[k, c] = _down(found[0]), _up(found[1])
            sometimes |= any((n.whole == 0).any() for _, _, n in parts)
    return low, high, (*((SOMETIMES_NULL,) if sometimes else ()), *((OUTER,) if several else ()))


def _numbers_of_rows(
    release: OpenBlocks, observed: Observed, asked: Asked, functional: int
) -> tuple[Floats, Floats, bool, bool]:
    """Bounds on a sum of another column by the value of this one, for every output row (`picked_rows`).

    And whether only the trivial limits are known, and whether rows compete for blocks.
    """
    parts = _parts(release, observed, asked, functional, None)
    if parts is None:
        nothing = np.full(observed.keys, np.nan)
        return nothing, nothing, True, False
    low, high = sum_bounds(parts, observed.keys)
    return _all(low, _down), _all(high, _up), False, sum(not part.certain for part in parts) > 1


def _averages(
    release: OpenBlocks, observed: Observed, asked: Asked, top: int, bottom: int
) -> tuple[Floats, Floats, tuple[str, ...]] | None:
    """Bounds on an average of another column over the rows that a condition on this one picks."""
    shape, per_group = (observed.keys, asked.groups), asked.functionals // asked.groups
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    sometimes = several = False
    for c in range(asked.groups):
        parts = _parts(release, observed, asked, c * per_group + top, c * per_group + bottom)
        if parts is None:
            return None
        several |= sum(not part.certain for part in parts) > 1
        for k in range(observed.keys):
            mine = [part.of(k) for part in parts]
            found = ratio_bounds(mine)
            if found is not None:
                low[k, c], high[k, c] = _down(found[0]), _up(found[1])
                sometimes |= may_be_empty(mine)
    return low, high, (*((SOMETIMES_NULL,) if sometimes else ()), *((OUTER,) if several else ()))


def _parts(release: OpenBlocks, observed: Observed, asked: Asked, top: int, bottom: int | None) -> list[Picked] | None:
    """The rows of every pattern that adds something; None where the values tell more than two kinds of rows apart."""
    parts = []
    for b in np.unique(observed.pattern).tolist():
        above = _over_domain(asked, b, top)[release.order]
        below = np.zeros_like(above) if bottom is None else _over_domain(asked, b, bottom)[release.order]
        if above.any() or below.any():
            part = picked(release.bounder, observed, b, int(asked.measure[top]), above, below)
            if part is None:
                return None
            parts.append(part)
    return parts


def _all(numbers: Sequence[Fraction], rounded: Callable[[Fraction], float]) -> Floats:
    return np.array([rounded(x) for x in numbers], dtype=np.float64)


def _sums(
    release: OpenBlocks, parts: Sequence[tuple[Selection, Floats]], over: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Bounds on the added totals of the parts, divided by `over` and rounded outward; NaN where that is 0."""
    numbers = [release.numbers(h) for _, h in parts]
    denominator = math.lcm(*(n.denominator for n in numbers))
    low, high = np.zeros(len(over), dtype=object), np.zeros(len(over), dtype=object)
    for (selection, _), n in zip(parts, numbers, strict=True):
        least, most = release.bounder.whole_totals(selection, n)
        scale = denominator // n.denominator
        low, high = low + least.astype(object) * scale, high + most.astype(object) * scale
    divisor = over.astype(object) * denominator  # beyond int64 for values such as 0.1
    return _rounded(low, divisor, -math.inf), _rounded(high, divisor, math.inf)


def _rounded(whole: NDArray[Any], over: NDArray[Any], towards: float) -> Floats:
    """whole / over as floats that do not lie on the wrong side of the number."""
    out = np.full(len(over), np.nan)
    for i in np.flatnonzero(over).tolist():
        a, b = int(whole[i]), int(over[i])
        near = a / b  # correctly rounded for Python integers
        out[i] = near if a % b == 0 and near == a // b else _step(near, Fraction(a, b), towards)
    return out


def _step(near: float, x: Fraction, towards: float) -> float:
    """`near`, or its neighbour if it lies on the wrong side of x."""
    wrong = Fraction(near) > x if towards < 0 else Fraction(near) < x
    return math.nextafter(near, towards) if wrong else near


def order_statistics(
    release: OpenBlocks, observed: Observed, asked: Asked, functional: int, kind: str, share: float | None
) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Bounds on MIN, MAX or a quantile of one expression over all selected rows, (output rows, 1)."""
    low, high = np.full((observed.keys, 1), np.nan), np.full((observed.keys, 1), np.nan)
    used = [b for b in range(len(asked.coefficients)) if len(_selection(observed, b).group)]
    if not used:
        return low, high, ()
    h = release.numbers(_over_domain(asked, used[0], functional))
    everything = _selection(observed, None)
    for k in range(observed.keys):
        mine = everything.of(k)
        rows = int(mine.rows.sum())
        if not rows:
            continue
        if kind in ("min", "max"):
            found = release.bounder.order_statistic(mine, h, 1 if kind == "min" else rows)
        else:
            found = release.bounder.quantile(mine, h, Fraction(str(share)), continuous=kind != "quantile_disc")
        assert found is not None
        low[k, 0], high[k, 0] = _down(found[0]), _up(found[1])
    return low, high, ()


def _over_domain(asked: Asked, pattern: int, functional: int) -> Floats:
    """The coefficients of a functional for every value of the domain."""
    row = asked.coefficients[pattern][[functional], :].toarray()[0]
    return np.asarray(row[asked.classes[0]], dtype=np.float64)


def _selection(observed: Observed, pattern: int | None) -> Selection:
    """The rows that the question selects (of one pattern), added up by output row and group."""
    mine = np.arange(len(observed.stratum))
    if pattern is not None:
        mine = np.flatnonzero(observed.pattern[observed.stratum] == pattern)
    key, group = observed.key[observed.stratum[mine]], observed.part[mine]
    rows = np.rint(observed.moments[mine, 0]).astype(np.int64)
    stride = int(group.max(initial=0)) + 1
    pairs, place = np.unique(key.astype(np.int64) * stride + group, return_inverse=True)
    total = sum_by_group(rows, place, len(pairs))
    some = total > 0
    return Selection(key=pairs[some] // stride, group=pairs[some] % stride, rows=total[some], keys=observed.keys)


def _down(x: Fraction) -> float:
    """The nearest float that is not above x."""
    return _step(float(x), x, -math.inf)


def _up(x: Fraction) -> float:
    """The nearest float that is not below x."""
    return _step(float(x), x, math.inf)
