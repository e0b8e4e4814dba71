"""Base blocks whose cyclic shifts cover all pairs of values as evenly as a short search can make them.

A cyclic list with blocks of one size has total variance c + c' * sum over frequencies j of 1 / S_j, where S is the sum
of the blocks' power spectra (docs/explanation/set-channels.md, section 4). The sum of S is fixed by the sizes, so a
flat spectrum is best: every difference of positions occurs alike often. Everything here is deterministic, and the same
on every processor: many swaps are alike by symmetry, and costs are compared without their last bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ...stats.ties import NEAR, first_least, settled, to_digits

Floats = NDArray[np.float64]
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
