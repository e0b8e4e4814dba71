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
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from ...stats.ties import as_printed, settled
from .block_search import NOTHING, BlockSearch, difference_set
from .set_channel import SetChannel, channel_of_blocks, channel_of_sets
from .set_tables import MOST_CELLS

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
