"""Certain bounds on sums and averages of an untouched column over the rows that a condition on the blocks picks.

Of the s rows of a group that a question selects, the condition picks some c: COUNT's own bounds say how few and how
many, and the blocks do not tell which, so every choice of so many rows is a world. A row has a number g of its own, and
adds g a1 where it is picked and g a0 where it is not. So the least sum takes the rows with the smallest g (a1 - a0):
all that are below 0, but not fewer and not more than may be picked. Exact, in whole numbers over one denominator.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ...model.public import Floats, Observed
from ...stats.joint_codes import sum_by_group
from .block_bounds import Bounder, Exact, Ints, Selection, WholeNumbers, exact_numbers

# what a row adds to the sum above (times its number) and to the count below: where it is picked and where it is not
Outcome = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picked:
    """Rows of one pattern, pair by pair (of output row and group), each pair sorted by number.

    `rank` is the place of an entry's number among `numbers`, `count` how many rows have it.
    """

    numbers: WholeNumbers  # different ones, ascending
    rank: Ints
    count: Ints
    pair: Ints
    selection: Selection  # output row, group and rows of every pair
    fewest: Ints  # rows of every pair that are picked at least, and at most
    most: Ints
    yes: Outcome
    no: Outcome

    @property
    def gain(self) -> Outcome:
        """What a row adds by being picked, above and below."""
        return self.yes[0] - self.no[0], self.yes[1] - self.no[1]

    def of(self, key: int) -> Picked:
        """The part that belongs to one output row."""
        pairs = np.flatnonzero(self.selection.key == key)
        first, last = np.searchsorted(self.pair, [pairs[0], pairs[-1] + 1]) if len(pairs) else (0, 0)
        return replace(
            self,
            rank=self.rank[first:last],
            count=self.count[first:last],
            pair=self.pair[first:last] - (pairs[0] if len(pairs) else 0),
            selection=self.selection.of(key),
            fewest=self.fewest[pairs],
            most=self.most[pairs],
        )

    def totals(self) -> Exact:
        """The sum of the numbers of every pair's rows."""
        return _per_pair(self.numbers.whole[self.rank] * self.count, self.pair, len(self.fewest))

    def sums(self, wanted: Ints, *, largest: bool) -> Exact:
        """The sum of the `wanted` smallest numbers of every pair, or of the largest."""
        if largest:
            return self.totals() - self.sums(self.selection.rows - wanted, largest=False)
        reached = np.cumsum(self.count)
        before = (reached - self.count) - (np.cumsum(self.selection.rows) - self.selection.rows)[self.pair]
        taken = np.clip(wanted[self.pair] - before, 0, self.count)
        return _per_pair(self.numbers.whole[self.rank] * taken, self.pair, len(self.fewest))

    def least(self, trial: Fraction | None) -> tuple[Exact, Ints]:
        """(sum of the picked numbers, how many are picked) of every pair, where above - trial x below is least.

        None: where below is largest.
        """
        above, below = self.gain
        if trial is None:
            wanted = self.most if below > 0 else self.fewest
        else:
            ranks = range(len(self.numbers.whole))
            value = self.numbers.denominator

            def score(rank: int) -> Fraction:
                return Fraction(int(self.numbers.whole[rank]), value) * above - trial * below

            if above >= 0:  # scores ascend with the numbers
                helpful = self.rank < bisect_left(ranks, Fraction(0), key=score)
            else:
                helpful = self.rank >= bisect_left(ranks, True, key=lambda rank: score(rank) < 0)
            wanted = sum_by_group(self.count[helpful], self.pair[helpful], len(self.fewest))
            wanted = np.clip(wanted, self.fewest, self.most)
        return self.sums(wanted, largest=above < 0), wanted

    def flipped(self) -> Picked:
        """The same with everything above negated: its least is the largest."""
        return replace(self, yes=(-self.yes[0], self.yes[1]), no=(-self.no[0], self.no[1]))

    @property
    def certain(self) -> bool:
        """Whether it does not matter which rows are picked."""
        above, below = self.gain
        return below == 0 and (above == 0 or not self.numbers.whole.any())


def picked(
    bounder: Bounder, observed: Observed, pattern: int, measure: int, above: Floats, below: Floats
) -> Picked | None:
    """The rows of a pattern, of which a row adds number x `above` and `below` by its value; None: more than two ways.

    `above` and `below` are over the leaves.
    """
    ways = list(dict.fromkeys(zip(above.tolist(), below.tolist(), strict=True)))
    if len(ways) > 2 or observed.numbers is None or min(below.min(), 0) < 0:
        return None
    no, yes = (ways[0], ways[-1])
    inside = (above == yes[0]) & (below == yes[1])
    mine = np.flatnonzero((observed.pattern[observed.stratum] == pattern) & (np.rint(observed.moments[:, 0]) > 0))
    key, group = observed.key[observed.stratum[mine]].astype(np.int64), observed.part[mine]
    stride = int(group.max(initial=0)) + 1
    pairs, pair = np.unique(key * stride + group, return_inverse=True)
    different, rank = np.unique(observed.numbers[mine, measure], return_inverse=True)
    order = np.lexsort((rank, pair))
    count = np.rint(observed.moments[mine, 0]).astype(np.int64)[order]
    rows = sum_by_group(count, pair[order], len(pairs))
    selection = Selection(key=pairs // stride, group=pairs % stride, rows=rows, keys=observed.keys)
    fewest, most = bounder.picks(selection, inside)
    return Picked(
        numbers=exact_numbers(different, int(rows.sum())),
        rank=rank[order],
        count=count,
        pair=pair[order],
        selection=selection,
        fewest=fewest,
        most=most,
        yes=(Fraction(yes[0]), Fraction(yes[1])),
        no=(Fraction(no[0]), Fraction(no[1])),
    )


def sum_bounds(parts: Sequence[Picked], keys: int) -> tuple[list[Fraction], list[Fraction]]:
    """Bounds on the sum above, for every output row; parts are added as if they did not compete for blocks."""
    return _least_sums(parts, keys), [-x for x in _least_sums([part.flipped() for part in parts], keys)]


def _least_sums(parts: Sequence[Picked], keys: int) -> list[Fraction]:
    out = [Fraction(0)] * keys
    for part in parts:
        found = part.selection.per_key(part.least(Fraction(0))[0])
        unpicked = part.selection.per_key(part.totals())
        for k in np.unique(part.selection.key).tolist():
            whole = part.gain[0] * int(found[k]) + part.no[0] * int(unpicked[k])
            out[k] += whole / part.numbers.denominator
    return out


def ratio_bounds(parts: Sequence[Picked]) -> tuple[Fraction, Fraction] | None:
    """Bounds on above / below in the worlds where that is not 0, of parts of one output row; None if there is none."""
    low, high = _least_ratio(parts), _least_ratio([part.flipped() for part in parts])
    return None if low is None or high is None else (low, -high)


def may_be_empty(parts: Sequence[Picked]) -> bool:
    """Whether the count below may be 0."""
    least = Fraction(0)
    for part in parts:
        gain = part.gain[1]
        least += part.no[1] * int(part.selection.rows.sum())
        least += gain * int((part.fewest if gain > 0 else part.most).sum())
    return least <= 0


def _least_ratio(parts: Sequence[Picked]) -> Fraction | None:
    """By Dinkelbach's search, as `Bounder` does it for the column that is published as blocks."""
    top, bottom = _world(parts, None)
    if bottom == 0:
        return None
    while True:
        trial = top / bottom
        top, bottom = _world(parts, trial)
        if top - trial * bottom >= 0:
            return trial


def _world(parts: Sequence[Picked], trial: Fraction | None) -> tuple[Fraction, Fraction]:
    """Sums above and below in a world with the least above - trial x below (None: the largest below)."""
    top, bottom = Fraction(0), Fraction(0)
    for part in parts:
        found, wanted = part.least(trial)
        whole = part.gain[0] * int(found.sum()) + part.no[0] * int(part.totals().sum())
        top += whole / part.numbers.denominator
        bottom += part.gain[1] * int(wanted.sum()) + part.no[1] * int(part.selection.rows.sum())
    return top, bottom


def _per_pair(amounts: Exact, pair: Ints, pairs: int) -> Exact:
    return sum_by_group(amounts, pair, pairs)
