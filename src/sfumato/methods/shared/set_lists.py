"""Lists of sets of one size: which size is best, what it costs, and a short list that loses next to nothing.

All w-subsets of m values reach the least possible error (docs/explanation/set-channels.md, sections 3 and 4) but are
too many to list. A few base blocks with all their cyclic shifts cover every value alike and, after a search, every
pair of values nearly alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from ...laws.set_channel import MOST_CELLS, SetChannel, channel_of_blocks, channel_of_sets
from ...model.public import Floats
from ...stats.ties import NEAR, as_printed, first_least, settled, to_digits

# --- block search -----------------------------------------------------------------------------------------------------
# Base blocks whose cyclic shifts cover all pairs of values as evenly as a short search can make them.
#
# A cyclic list with blocks of one size has total variance c + c' * sum over frequencies j of 1 / S_j, where S is the
# sum of the blocks' power spectra (docs/explanation/set-channels.md, section 4). The sum of S is fixed by the sizes,
# so a flat spectrum is best: every difference of positions occurs alike often. Everything here is deterministic, and
# the same on every processor: many swaps are alike by symmetry, and costs are compared without their last bits.


Block = tuple[int, ...]

SEED = 4_2016
NODES = 4_000  # of the backtracking search for a perfect difference set
STARTS = ((64, 24), (128, 12), (512, 8))  # (values up to, restarts of the swap search)
MORE_STARTS = 40  # where the blocks of all starts have equal shifts
FULL_TABLE = 128  # up to this many values every swap of a block is weighed
BEST_EACH = 16  # beyond, only swaps between the positions whose first-order gain is best
STEPS = 200  # swaps of one block at most; a domain beyond a thousand values may end there, not at a minimum
NOTHING = 1e-9  # keeps 1 / S finite for a frequency that no block shows


def difference_set(size: int, width: int) -> Block | None:
    """A perfect difference set: every difference modulo `size` occurs alike often; None where none is soon found."""
    if width in {1, size - 1}:
        return tuple(range(width))
    if 2 * width > size:
        mirror = difference_set(size, size - width)
        return None if mirror is None else tuple(x for x in range(size) if x not in mirror)
    times, rest = divmod(width * (width - 1), size - 1)
    if rest or not times:
        return None
    return _Differences(size, width, times).search()


@dataclass(slots=True)
class _Differences:
    """Backtracking over ascending positions; difference 1 must occur, so 0 and 1 may be taken to be in the block."""

    size: int
    width: int
    times: int
    nodes: int = 0

    def search(self) -> Block | None:
        seen = [0] * self.size
        seen[1] = seen[self.size - 1] = 1
        return self._extend([0, 1], seen)

    def _extend(self, block: list[int], seen: list[int]) -> Block | None:
        if len(block) == self.width:
            return tuple(block)
        missing = self.width - len(block)
        for x in range(block[-1] + 1, self.size - missing + 1):
            self.nodes += 1
            if self.nodes > NODES:
                return None
            new = [d for y in block for d in ((x - y) % self.size, (y - x) % self.size)]
            for d in new:
                seen[d] += 1
            if all(seen[d] <= self.times for d in new):
                found = self._extend([*block, x], seen)
                if found is not None:
                    return found
            for d in new:
                seen[d] -= 1
        return None


def _shifts_differ(blocks: NDArray[np.bool_]) -> bool:
    """Whether no block is a shift of itself or of another: else a set would be listed twice."""
    rows = [row.tobytes() for row in blocks]
    around = [row + row for row in rows]  # every shift of a row is a part of it
    alone = all(twice.find(row, 1) == len(row) for row, twice in zip(rows, around, strict=True))
    return alone and not any(row in twice for k, row in enumerate(rows) for twice in around[:k])


class BlockSearch:
    """The search among so many values: a swap takes one position out of a block and another in."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.frequencies = np.arange(1, size // 2 + 1)
        self.times = np.where(2 * self.frequencies == size, 1.0, 2.0)  # j and m - j show the same power
        self.roots = np.exp(-2j * np.pi * np.arange(size) / size)
        self.apart = 2 - 2 * self.waves(np.arange(size)).real  # |e_o - e_i|^2 by o - i

    def spread(self, width: int, count: int) -> tuple[Block, ...]:
        """`count` blocks of `width` positions whose shifts cover pairs evenly: swap search from seeded starts."""
        starts = next((n for limit, n in STARTS if self.size <= limit), 1)
        found = sorted((self.run(width, count, start) for start in range(starts)), key=lambda made: settled(made[0]))
        later = (self.run(width, count, start) for start in range(starts, starts + MORE_STARTS))
        best = next((blocks for _, blocks in chain(found, later) if _shifts_differ(blocks)), None)
        if best is None:
            raise AssertionError(f"no {count} blocks of {width} among {self.size} values with different shifts")
        return tuple(sorted(tuple(np.flatnonzero(row).tolist()) for row in best))

    def run(self, width: int, count: int, start: int) -> tuple[float, NDArray[np.bool_]]:
        """(sum of 1 / S, blocks) where no swap weighed makes it smaller, or after the allowed steps."""
        rng = np.random.default_rng((SEED, self.size, width, start))
        blocks = np.zeros((count, self.size), dtype=bool)
        for row in blocks:
            row[rng.choice(self.size, width, replace=False)] = True
        spectra = self.spectrum(blocks)
        powers = np.abs(spectra) ** 2
        power = powers.sum(axis=0)
        cost, still = float(self.times @ (1 / (power + NOTHING))), 0
        for step in range(STEPS * count):
            b = step % count
            found, out, into = self.best_swap(blocks[b], spectra[b], power)
            still = still + 1 if found >= cost * (1 - NEAR) else 0
            if still == count:
                break
            if not still:
                blocks[b, out], blocks[b, into] = False, True
                spectra[b] = self.spectrum(blocks[b])
                powers[b] = np.abs(spectra[b]) ** 2
                power, cost = powers.sum(axis=0), found
        return cost, blocks

    def spectrum(self, blocks: NDArray[np.bool_]) -> NDArray[np.complex128]:
        """F at the frequencies 1..m/2."""
        return np.fft.fft(blocks, axis=-1)[..., self.frequencies]

    def waves(self, positions: NDArray[np.intp]) -> NDArray[np.complex128]:
        """e_x at every frequency, a row per position."""
        turns = np.outer(positions, self.frequencies)
        turns -= turns // self.size * self.size  # as the remainder, in half the time
        return self.roots.take(turns)

    def gains(self, spectrum: NDArray[np.complex128], power: Floats) -> Floats:
        """How much the cost falls, to first order, for P_x added: a number per position x."""
        slope = np.zeros(self.size, dtype=np.complex128)
        slope[self.frequencies] = np.conj(spectrum) * self.times / (power + NOTHING) ** 2
        return 2 * np.fft.fft(slope).real

    def best_swap(
        self, block: NDArray[np.bool_], spectrum: NDArray[np.complex128], power: Floats
    ) -> tuple[float, int, int]:
        """(cost after it, position out, position in) of the best swap weighed."""
        inside, outside = np.flatnonzero(block), np.flatnonzero(~block)
        if self.size > FULL_TABLE:
            gain = to_digits(self.gains(spectrum, power), 10)
            inside = inside[np.argsort(gain[inside], kind="stable")[:BEST_EACH]]
            outside = outside[np.argsort(-gain[outside], kind="stable")[:BEST_EACH]]
        # |F + e_o - e_i|^2 = |F|^2 + P_o - P_i + |e_o - e_i|^2 with P_x = 2 Re(conj(F) e_x)
        new = self.apart[(outside[None, :] - inside[:, None]) % self.size]
        new += (power + NOTHING) - 2 * (np.conj(spectrum) * self.waves(inside)).real[:, None]
        new += 2 * (np.conj(spectrum) * self.waves(outside)).real[None, :]
        np.maximum(new, NOTHING, out=new)
        costs = np.reciprocal(new, out=new) @ self.times
        i, o = divmod(first_least(costs), len(outside))
        return float(costs[i, o]), int(inside[i]), int(outside[o])


# --- set lists --------------------------------------------------------------------------------------------------------


BASE_BLOCKS = 4  # r: one block loses 19 to 60 % of the variance, two 4 to 16 %, four about 1 % unless sets are small;
MOST_BLOCKS = 16  # then more are taken,
EVEN = 0.015  # until less than this fraction of the variance is lost
FEW_VALUES = 12  # up to here all subsets are listed, where they are few enough
FEW_SETS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SetList:
    """A list of sets, every one of weight 1: blocks with all their cyclic shifts, or all subsets of `width` values."""

    size: int
    width: int  # w, values in each set
    blocks: tuple[tuple[int, ...], ...]
    cyclic: bool  # the blocks stand for all their shifts

    def __len__(self) -> int:
        return len(self.blocks) * (self.size if self.cyclic else 1)

    def channel(self, gamma: Fraction) -> SetChannel:
        """The set channel over this list."""
        make = channel_of_blocks if self.cyclic else channel_of_sets
        return make(self.size, gamma, self.blocks)


def hit_rates(size: int, gamma: Fraction, width: int) -> tuple[Fraction, Fraction]:
    """(a, b): the chance that the published set holds the true value, and that it holds one given other value.

    For all subsets of `width` values listed alike.
    """
    a = gamma * width / (gamma * width + size - width)
    return a, (a * (width - 1) + (1 - a) * width) / (size - 1)


def total_variance(size: int, gamma: Fraction, width: int) -> Fraction:
    """V(m, gamma, w): variance of the m counts added up, for one record, whatever its value. All w-subsets alike."""
    a, b = hit_rates(size, gamma, width)
    return (a * (1 - a) + (size - 1) * b * (1 - b)) / (a - b) ** 2


def best_width(size: int, gamma: Fraction) -> int:
    """w: the least number of values a set should hold to make `total_variance` smallest, in exact fractions."""
    if size < 2:
        raise ValueError(f"a domain needs at least two values, got {size}")
    # V falls as w (m - w) / (m + (gamma - 1) w)^2 rises, which has one peak, at w = m / (gamma + 1).
    below = int(size / (gamma + 1))
    near = sorted({min(max(w, 1), size - 1) for w in (below, below + 1)})
    return min(near, key=lambda w: (total_variance(size, gamma, w), w))


def least_variance(size: int, gamma: Fraction) -> Fraction:
    """V at the best width: the least total variance per record that amplification gamma allows."""
    return total_variance(size, gamma, best_width(size, gamma))


@lru_cache(maxsize=256)
def best_list(size: int, width: int) -> SetList:
    """A list of sets of `width` values, as short and as even as we find; the same one every time.

    A perfect difference set (m sets, no loss) where a short search finds one, all subsets of a small domain, else four
    base blocks with their shifts, or more where sets are too small for four of them to cover all pairs. Where these
    would be more than a reader takes, single values.
    """
    if not 1 <= width < size:
        raise ValueError(f"a set holds 1 to {size - 1} of {size} values, not {width}")
    perfect = difference_set(size, width)
    if perfect is not None:
        return SetList(size=size, width=width, blocks=(perfect,), cyclic=True)
    every, most = comb(size, width), MOST_CELLS // size**2  # blocks of a list that can be read
    if most < BASE_BLOCKS:
        return best_list(size, 1)
    search = BlockSearch(size)
    blocks = () if size <= FEW_VALUES and every <= FEW_SETS else search.spread(width, BASE_BLOCKS)
    if most < MOST_BLOCKS and all(_unevenness(size, found) > EVEN for found in (blocks, search.spread(width, most))):
        return best_list(size, 1)
    for count in range(BASE_BLOCKS + 1, MOST_BLOCKS + 1):
        if not blocks or _unevenness(size, blocks) <= EVEN:
            break
        more = () if every <= count * size else search.spread(width, count)
        blocks = min((blocks, more), key=lambda found: _unevenness(size, found))
    if not blocks:  # all subsets are no more than those, and lose nothing
        return SetList(size=size, width=width, blocks=tuple(combinations(range(size), width)), cyclic=False)
    return SetList(size=size, width=width, blocks=blocks, cyclic=True)


def _unevenness(size: int, blocks: Sequence[Sequence[int]]) -> float:
    """How much larger the sum of 1 / S is than that of a flat spectrum: about the loss, whatever gamma is.

    No blocks stand for all subsets, whose spectrum is flat.
    """
    if not blocks:
        return 0.0
    power = _power(size, blocks)
    return as_printed(float((1 / power).sum() * power.sum()) / (size - 1) ** 2 - 1, 10).item()


def list_for(size: int, gamma: Fraction) -> SetList:
    """The list to publish: that of the best width, or singletons where a short list would lose what sets gain."""
    listed = best_list(size, best_width(size, gamma))
    sets, single = (float(total_variance(size, gamma, width)) for width in (listed.width, 1))
    if listed.width > 1 and settled(sets * (1 + loss(listed, gamma))) >= settled(single):
        return best_list(size, 1)
    return listed


def loss(listed: SetList, gamma: Fraction) -> float:
    """By what fraction the list's total variance (mean over true values, flat prior) exceeds that of all subsets."""
    if not listed.cyclic:
        return 0.0
    return (
        cyclic_variance(listed.size, gamma, listed.blocks) / float(total_variance(listed.size, gamma, listed.width))
        - 1.0
    )


def cyclic_variance(size: int, gamma: Fraction, blocks: Sequence[Sequence[int]]) -> float:
    """Total variance per record of a cyclic list with blocks of one size, flat prior, before keep is rounded."""
    # M is circulant. Its eigenvalues: m once, and for frequency j = 1..m-1, with S the blocks' power spectrum,
    # (gamma - 1)^2 m S_j / (r (m + (gamma - 1) w)^2). Total variance = trace of M^-1, less 1.
    power = _power(size, blocks)
    excess = float(gamma - 1)
    eigenvalues = excess**2 * size * power / (len(blocks) * (size + excess * len(blocks[0])) ** 2)
    return float(1 / size + (1 / eigenvalues).sum() - 1)


def _power(size: int, blocks: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """S: the blocks' power spectra added up, at the frequencies 1..m-1; never quite 0."""
    table = np.zeros((len(blocks), size))
    for row, block in zip(table, blocks, strict=True):
        row[list(block)] = 1.0
    return np.maximum((np.abs(np.fft.fft(table, axis=1)[:, 1:]) ** 2).sum(axis=0), NOTHING)


# The least error that amplification gamma allows: no channel and no unbiased weights do better.
#
# Statement and proof: docs/explanation/set-channels.md, section 3.


def reach(gamma: Fraction) -> Fraction:
    """tau = (gamma - 1)^2 / (4 gamma): what a channel of amplification gamma can show of a record, for any prior."""
    return (gamma - 1) ** 2 / (4 * gamma)


def flat_reach(size: int, gamma: Fraction) -> Fraction:
    """tau_m = max over w of (gamma - 1)^2 w (m - w) / (m + (gamma - 1) w)^2: the sharper number for a flat prior."""
    w = best_width(size, gamma)  # the same w makes the variance least
    return (gamma - 1) ** 2 * w * (size - w) / (size + (gamma - 1) * w) ** 2


def least_histogram(size: int, gamma: Fraction) -> Fraction:
    """The least total variance per record of all m counts, flat prior, exactly: all best subsets reach it."""
    return Fraction((size - 1) ** 2, size) / flat_reach(size, gamma) - Fraction(size - 1, size)


def least_total(gram: Floats, gamma: Fraction, prior: Floats | None = None) -> float:
    """A bound from below on the total variance per record of the questions W, G = W'W, over all channels.

    Mean over true values by `prior` (flat where None). 0 where the bound says nothing.
    """
    size = len(gram)
    pi = np.full(size, 1 / size) if prior is None else prior
    tau = float(flat_reach(size, gamma) if _flat(pi) else reach(gamma))
    return spread_bound(singular_values(gram, pi), tau)


def singular_values(gram: Floats, prior: Floats) -> Floats:
    """s: the singular values of W diag(pi)^1/2 (I - r r'), r = sqrt(pi), largest first; m - 1 of them."""
    r = np.sqrt(prior)
    inner = r[:, None] * gram * r
    inner = inner - np.outer(r, r @ inner)
    inner = inner - np.outer(inner @ r, r)
    found = np.linalg.eigvalsh((inner + inner.T) / 2)[::-1][: len(prior) - 1]
    return np.sqrt(np.maximum(found, 0.0))


def spread_bound(s: Floats, tau: float) -> float:
    """The least of sum s^2 / lam - s^2 over 0 < lam <= 1 with sum of lam at most tau; `s` descending.

    Without the cap lam is proportional to s: (sum s)^2 / tau - sum s^2. Where one would pass 1 it stays at 1 and adds
    nothing; the rest of tau spreads over the others.
    """
    s = s[s > s[0] * 1e-12] if len(s) and s[0] > 0 else s[:0]
    for capped in range(len(s)):
        rest, left = s[capped:], tau - capped
        if left > 0 and left * rest[0] <= rest.sum():  # lam of the largest = left * s / sum
            return float(rest.sum() ** 2 / left - (rest**2).sum())
    return 0.0


def times_least(total: float, least: float) -> float:
    """Standard error of a release over that of the bound: 1 is the best possible; infinite where the bound is 0."""
    return float(np.sqrt(total / least)) if least > 0 else float("inf")


def least_partition(rho1: Fraction, rho2: Fraction, cap: Fraction) -> Fraction:
    """The least total variance per record for any partition into sub-tables that strict `small-domain` may choose.

    In a sub-table of m protected values the most frequent holds at least 1/m of the records, so its gamma is at
    most rho2 (m - 1) / (1 - rho2), and at most `cap`, gamma(rho1, rho2). Beyond ceil(1 / rho1) values gamma stays at
    the cap and the variance only grows: the least is found among 2..ceil(1 / rho1).
    """
    largest = max(2, -int(-1 / rho1 // 1))
    own = ((m, rho2 * (m - 1) / (1 - rho2)) for m in range(2, largest + 1))
    return min(least_variance(m, min(cap, gamma)) for m, gamma in own if gamma > 1)


def least_sized_partition(
    rho1: Fraction,
    rho2: Fraction,
    cap: Fraction,
    *,
    values: int,
    rows: int,
    min_size: int,
) -> Fraction:
    """The same where all of `values` occur and sub-tables hold at least `min_size` of the `rows` records.

    U(m) = (m - 2 + 1/m) / tau - 1 + 1/m is convex, at most V(m) and rising where it is above 0, and sum n_i m_i >=
    min_size * values, so that there sum n_i U(m_i) >= n U(min_size * values / n) (docs/explanation/set-channels.md, 6).
    """
    least = least_partition(rho1, rho2, cap)
    mean = Fraction(min(min_size, rows) * values, rows)
    if mean <= 1:
        return least
    return max(least, (mean - 2 + 1 / mean) / reach(cap) - 1 + 1 / mean)


def _flat(prior: Floats) -> bool:
    return bool(np.ptp(prior) <= 1e-12 * prior.max())
