"""Groups of records with distinct sensitive values, planned on counts alone.

A grouping is a 0/1 table, groups by values; its row sums are the group size, its column sums the true counts.
Every table with these margins comes from equally many assignments of records, so a uniform table is a uniform grouping.
Derivation: docs/explanation/splu.md, section 3.1. Value codes are positions in `true_counts`.

A `Grouping` is private: it holds the true histogram. It dies with the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError, SpecError

Codes = NDArray[np.int32]
Counts = NDArray[np.int64]

SWEEPS = 10  # 5 still show in the channel at 50 values and 59,000 groups, 10 do not
TEMPLATE_GROUPS = 200_000  # above this many groups a template is planned and copied
REMAINDER_GROUPS = 1_000  # least size of the block that is planned on its own beside the template
SHIFT, FREE, RIGHT, VALUE = (np.uint64(n) for n in (30, 1 << 62, 1 << 63, 2**30 - 1))  # fields of a card
SMALL_TABLE = 100  # below this many groups extra sweeps leave no trace of the start


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Distinct rows of a grouping and how often the whole block is repeated."""

    rows: Codes  # (groups, size)
    copies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Groups of `size` distinct value codes, and the leftovers attached to some of them.

    `leftover_groups[i]` is the row of `members` that also holds the value `leftover_values[i]`.
    """

    size: int
    values: int
    blocks: tuple[Block, ...]
    leftover_groups: NDArray[np.int64]
    leftover_values: Codes

    @property
    def groups(self) -> int:
        """Number of groups."""
        return sum(block.copies * len(block.rows) for block in self.blocks)

    @property
    def members(self) -> Codes:
        """All groups as one (groups, size) array: the blocks in order, each repeated `copies` times (built on call)."""
        parts = [np.broadcast_to(b.rows, (b.copies, *b.rows.shape)).reshape(-1, self.size) for b in self.blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def counts(self) -> Counts:
        """Column sums with the leftovers: the true counts."""
        total = np.bincount(self.leftover_values, minlength=self.values).astype(np.int64)
        for block in self.blocks:
            total += block.copies * np.bincount(block.rows.ravel(), minlength=self.values)
        return total

    def rows(self, index: NDArray[np.int64]) -> Codes:
        """The groups at the given rows of `members`, without building all of it."""
        found = np.empty((len(index), self.size), np.int32)
        start = 0
        for block in self.blocks:
            stop = start + block.copies * len(block.rows)
            inside = (index >= start) & (index < stop)
            found[inside] = block.rows[(index[inside] - start) % len(block.rows)]
            start = stop
        return found


def largest_size(true_counts: Counts) -> int:
    """The largest group size these counts allow: floor(N / max f)."""
    return int(true_counts.sum()) // int(true_counts.max())


def check_size(true_counts: Counts, size: int) -> None:
    """Refuse a group size below 2 or above what the most frequent value allows."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 2:
        raise SpecError(f"group size must be an integer of at least 2, got {size!r}", field="size")
    if true_counts.ndim != 1 or (true_counts < 0).any():
        raise SpecError("counts must be a vector of non-negative integers", field="true_counts")
    if int(true_counts.sum()) < size:
        raise PlanError(f"group size {size} needs at least {size} rows; take a smaller size or more rows", limit=0)
    limit = largest_size(true_counts)
    if size > limit:
        raise PlanError(
            f"group size {size} is too large: the most frequent value allows at most {limit}; take {limit} or less",
            limit=limit,
        )


def random_margins(true_counts: Counts, size: int, rng: np.random.Generator, *, sweeps: int = SWEEPS) -> Grouping:
    """A grouping drawn uniformly among all with these counts and this size (docs/explanation/splu.md, 3.1).

    Cost: O(sweeps * min(N, 200,000 * size)) time; the distinct groups plus some copies of them in memory.
    """
    true_counts = np.asarray(true_counts, dtype=np.int64)
    check_size(true_counts, size)
    inside, leftovers = _set_aside(true_counts, size, rng)
    groups = int(inside.sum()) // size
    blocks = tuple(
        Block(rows=_swept(_laid_out(counts, size), sweeps, rng), copies=copies)
        for counts, copies in template_counts(inside, size, groups)
    )
    return _attach(blocks, size, len(true_counts), leftovers, rng)


def random_margins_chain(
    true_counts: Counts, size: int, rng: np.random.Generator, *, samples: int, sweeps: int = SWEEPS, between: int = 2
) -> Iterator[Grouping]:
    """`samples` groupings of one chain, for averages: uniform each, weakly dependent, `between` sweeps apart."""
    true_counts = np.asarray(true_counts, dtype=np.int64)
    check_size(true_counts, size)
    inside, leftovers = _set_aside(true_counts, size, rng)
    rows = _swept(_laid_out(inside, size), sweeps, rng)
    for _ in range(samples):
        for _ in range(between):
            rows = _sweep(rows, rng)
        yield _attach((Block(rows=rows, copies=1),), size, len(true_counts), leftovers, rng)


def largest_buckets(true_counts: Counts, size: int, rng: np.random.Generator | None) -> Grouping:
    """The published rule, for comparison only: each group takes the `size` largest buckets that remain.

    Ties are random; without a generator they go to the smallest code (test mode, the rule's deterministic form).
    A small change of the counts changes who meets whom, so no reader can rebuild its channel.
    """
    true_counts = np.asarray(true_counts, dtype=np.int64)
    check_size(true_counts, size)
    remaining, leftovers = _set_aside(true_counts, size, rng)
    rows = np.empty((int(remaining.sum()) // size, size), np.int32)
    for row in rows:
        ties = np.zeros(len(remaining)) if rng is None else rng.random(len(remaining))
        row[:] = np.lexsort((ties, -remaining))[:size]
        remaining[row] -= 1
    return _attach((Block(rows=rows, copies=1),), size, len(true_counts), leftovers, rng)


def template_counts(inside: Counts, size: int, groups: int) -> tuple[tuple[Counts, int], ...]:
    """The blocks to plan, each as (counts, copies): one, or a template to copy and a remainder.

    With T template groups, c copies and R = G - c T, any template counts t with
    ceil((f - R) / c) <= t <= min(T, floor(f / c)) and sum size * T leave both blocks eligible.
    """
    whole = ((inside, 1),)
    if groups <= TEMPLATE_GROUPS:
        return whole
    copies = -(-groups // TEMPLATE_GROUPS)
    template = (groups - max(REMAINDER_GROUPS, copies * len(inside))) // copies
    if template < 1:
        return whole
    remainder = groups - copies * template
    low = np.maximum(0, -((remainder - inside) // copies))
    high = np.minimum(template, inside // copies)
    share, fraction = np.divmod(inside * template, groups)
    counts = np.clip(share, low, high)
    missing = size * template - int(counts.sum())
    sign = 1 if missing > 0 else -1
    order = np.argsort(-sign * fraction, kind="stable")
    for most in (1, template):  # first one each, by largest fraction; then whatever room is left
        room = np.minimum(most, (high - counts if sign > 0 else counts - low)[order])
        taken = np.clip(abs(missing) - (np.cumsum(room) - room), 0, room)
        counts[order] += sign * taken
        missing -= sign * int(taken.sum())
    if missing != 0:
        return whole
    return ((counts, copies), (inside - copies * counts, 1))


def _set_aside(true_counts: Counts, size: int, rng: np.random.Generator | None) -> tuple[Counts, NDArray[np.int64]]:
    """The counts of the full groups, and the N mod size most frequent values, one record each, left over."""
    ties = np.zeros(len(true_counts)) if rng is None else rng.random(len(true_counts))
    leftovers = np.lexsort((ties, -true_counts))[: int(true_counts.sum()) % size]
    inside = true_counts.copy()
    inside[leftovers] -= 1
    return inside, leftovers


def _laid_out(counts: Counts, size: int) -> Codes:
    """(groups, size): record i joins group i mod G. No run of equal values is longer than G, so a group's differ."""
    laid = np.repeat(np.arange(len(counts), dtype=np.int32), counts).reshape(size, -1).T
    return np.ascontiguousarray(laid)


def _swept(rows: Codes, sweeps: int, rng: np.random.Generator) -> Codes:
    """The groups after so many random pairings that re-deal what two groups do not share; more for a small table."""
    for _ in range(sweeps if len(rows) >= SMALL_TABLE else 5 * sweeps):
        rows = _sweep(rows, rng)
    return rows


def _sweep(rows: Codes, rng: np.random.Generator) -> Codes:
    """The groups paired at random and every pair dealt anew; with an odd number one group sits out."""
    groups, size = rows.shape
    rows = rows[rng.permutation(groups)]  # the order of groups means nothing: neighbours are the pairs
    pairs = rows[: groups // 2 * 2].reshape(-1, 2 * size)
    pairs.sort(axis=1)
    keys = rng.integers(0, 2**32, size=pairs.shape, dtype=np.uint32)
    # 2 bits of side (0 left, 1 free, 2 right), 32 random bits, 30 bits of value: one sort deals the row
    cards = keys.astype(np.uint64) << SHIFT | FREE | pairs.view(np.uint32)
    pair, first = np.nonzero(pairs[:, 1:] == pairs[:, :-1])  # a value that both groups hold stays in both
    cards[pair, first] = pairs[pair, first]
    cards[pair, first + 1] = pairs[pair, first].astype(np.uint64) | RIGHT
    cards.sort(axis=1)
    pairs[:] = cards & VALUE
    return rows


def _attach(
    blocks: tuple[Block, ...], size: int, values: int, leftovers: NDArray[np.int64], rng: np.random.Generator | None
) -> Grouping:
    """The grouping with each left over value in a random group that lacks it, one per group where possible."""
    bare = Grouping(
        size=size,
        values=values,
        blocks=blocks,
        leftover_groups=np.empty(0, np.int64),
        leftover_values=np.empty(0, np.int32),
    )
    taken: list[int] = []
    for value in leftovers:
        taken.append(_host(bare, int(value), taken, rng))
    return replace(bare, leftover_groups=np.array(taken, np.int64), leftover_values=leftovers.astype(np.int32))


def _host(grouping: Grouping, value: int, taken: list[int], rng: np.random.Generator | None) -> int:
    """A random group without `value`, and without another leftover unless there is no such group."""
    if rng is not None:
        for _ in range(8):  # almost always the first batch has one; rejection keeps the choice uniform
            tries = rng.integers(0, grouping.groups, size=64)
            good = ~(grouping.rows(tries) == value).any(axis=1) & ~np.isin(tries, taken)
            if good.any():
                return int(tries[np.argmax(good)])
    lacking = np.flatnonzero(~(grouping.members == value).any(axis=1))
    free = np.setdiff1d(lacking, taken)
    choices = free if len(free) else lacking
    return int(choices[0] if rng is None else rng.choice(choices))


def host_values(grouping: Grouping, group: int) -> Codes:
    """All values of a group that hosts leftovers."""
    extra = grouping.leftover_values[grouping.leftover_groups == group]
    return np.concatenate((grouping.rows(np.array([group]))[0], extra))


def slot_table(grouping: Grouping) -> NDArray[np.float64]:
    """E K: for each pair of values the sum of 1 / |g| over the groups that hold both; row u over f_u is the channel.

    A table of values by values, so for few values: tests, and the replay of small tables.
    """
    values = grouping.values
    found = np.zeros((values, values))
    for block in grouping.blocks:
        rows = block.rows.astype(np.int64)
        for i in range(grouping.size):
            key = (rows[:, i : i + 1] * values + rows).ravel()
            found += np.bincount(key, minlength=values * values).reshape(values, values) * (
                block.copies / grouping.size
            )
    for group in np.unique(grouping.leftover_groups):
        plain, decoys = grouping.rows(np.array([group]))[0], host_values(grouping, int(group))
        found[np.ix_(plain, plain)] -= 1 / len(plain)
        found[np.ix_(decoys, decoys)] += 1 / len(decoys)
    return found
