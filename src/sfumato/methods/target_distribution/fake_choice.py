"""How many fakes each group gets, and which: the best of 0 .. t by a rule, within a limit on the work.

Rules: `width` takes the narrowest bounds on the whole group's total (ties: fewer fakes), because fakes also add width;
`paper` takes the least sum of spans. Beyond the limit every group keeps its exact optimum for the k it may still use,
and t is capped at the largest number that fits: large groups lose first, small ones stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import SpecError
from .blocktree import BlockTree
from .fakes import Costs, FakeTable
from .transform import Counts, bound_width, plan

Rule = Literal["width", "paper"]

WORK_LIMIT = 120_000_000  # cell updates over all groups: half a second
MAX_CELLS = 2**25  # float64 cells kept at a time by each of the workers
WORKERS = 2
FEW_BATCHES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FakeChoice:
    """The fakes of every group, how many were allowed, and how many could be tried within the work limit."""

    fakes: Counts  # groups x leaves
    allowed: Counts
    tried: Counts

    @property
    def notice(self) -> str | None:
        """One line for the custodian when the work limit lowered the number of fakes, else None."""
        lowered = self.tried < self.allowed
        if not lowered.any():
            return None
        return (
            f"fakes were planned up to {int(self.tried[lowered].max())} instead of up to "
            f"{int(self.allowed[lowered].max())} in {int(lowered.sum())} groups, to stay within the work limit"
        )


def allowed_fakes(rows: Counts, share: Fraction | float) -> Counts:
    """t = floor(share x n) for a share below 1, or the same whole number for every group with rows."""
    try:
        exact = Fraction(str(share))  # a float as it is written: 0.29 of 100 rows is 29
    except ValueError:
        exact = Fraction(-1)
    if exact < 0 or (exact >= 1 and exact.denominator != 1):
        raise SpecError(f"fakes must be a share from 0 to 1 or a whole number of values, got {share}", field="fakes")
    if exact >= 1:
        return np.where(rows > 0, int(exact), 0).astype(np.int64)
    return rows * exact.numerator // exact.denominator


def choose_fakes(
    tree: BlockTree,
    weights: Counts,
    true_counts: Counts,
    *,
    spans: Costs,
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    allowed: Counts,
    rule: Rule = "width",
    work_limit: int = WORK_LIMIT,
) -> FakeChoice:
    """The best fakes of every group under the rule; `ends` are the lowest and highest value of every node."""
    if rule not in ("width", "paper"):
        raise SpecError(f"rule must be 'width' or 'paper', got {rule!r}", field="rule")
    fakes = np.zeros_like(true_counts)
    allowed = allowed if tree.leaves > 1 else np.zeros_like(allowed)
    tried = np.minimum(allowed, _cap(tree, weights, true_counts, allowed, work_limit))

    def choose(batch: NDArray[np.int64]) -> None:
        most = int(tried[batch].max())
        table = FakeTable(tree, weights, spans, true_counts[batch], most)
        score = table.solve()
        options = table.fakes()
        if rule == "width":
            score = _widths(tree, weights, ends, true_counts[batch], options)
        score[np.arange(most + 1) > tried[batch][:, None]] = np.inf
        best = score.argmin(axis=1)  # the first of equals: fewer fakes
        fakes[batch] = options[np.arange(len(batch)), best]

    with ThreadPoolExecutor(max_workers=WORKERS) as workers:
        for _ in workers.map(choose, _batches(tried, tree.nodes)):
            pass
    return FakeChoice(fakes=fakes, allowed=allowed, tried=tried)


def _widths(
    tree: BlockTree,
    weights: Counts,
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    true_counts: Counts,
    options: Counts,
) -> Costs:
    """The width of the bounds on each group's total for every k (groups x k)."""
    groups, ks, leaves = options.shape
    plans = plan(tree, weights, (true_counts[:, None, :] + options).reshape(-1, leaves))
    rows = np.repeat(true_counts.sum(axis=1), ks)
    return bound_width(plans, *ends, rows).reshape(groups, ks)


def _batches(most: Counts, nodes: int) -> Iterator[NDArray[np.int64]]:
    """Groups with a similar number of fakes, few enough at a time to bound the memory."""
    order = np.argsort(most, kind="stable")
    order = order[most[order] > 0]
    at = 0
    while at < len(order):
        least = int(most[order[at]])
        top = least + least // 4
        size = max(1, MAX_CELLS // (nodes * (top + 1) * (top + 3)))
        end = min(at + size, int(np.searchsorted(most[order], top, side="right")))
        yield order[at:end]
        at = end


def _cap(tree: BlockTree, weights: Counts, true_counts: Counts, allowed: Counts, work_limit: int) -> int:
    """The largest number of fakes that all groups together may try within the work limit."""

    def work(cap: int) -> int:
        capped = np.minimum(allowed, cap)
        return sum(
            FakeTable(tree, weights, spans, true_counts[batch], int(capped[batch].max())).work
            for batch in _batches(capped, tree.nodes)
        )

    spans = np.zeros(tree.nodes)  # costs do not change the work
    low, most = 0, int(allowed.max(initial=0))
    # To foresee the work of many fakes in many batches is work itself: those are doubled from below.
    high = most if len(list(_batches(allowed, tree.nodes))) <= FEW_BATCHES else 1
    while work(high) <= work_limit:
        if high == most:
            return most
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if work(middle) <= work_limit else (low, middle)
    return low
