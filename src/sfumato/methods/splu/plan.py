"""What a publisher asks of splu, the decoys that are drawn for it, and what groups of a size promise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...errors import SpecError
from ...laws.decoys import MOST_GAMMA, RULES
from ...laws.grouping import Codes, Counts, Grouping, host_values
from ...model.names import Ratio, exact, parts
from ..contract import Specification
from ..shared.options import told

# --- specification ----------------------------------------------------------------------------------------------------
# What a publisher asks of splu: group sizes, thresholds, the grouping rule.


LEAST_EPSILON, MOST_ALPHA = Fraction(1, 1000), 10_000
T_E = Fraction(1, 20)  # how seldom a total of T_f or more may be missed by epsilon


def parse_gamma(gamma: int | str | Mapping[str, int], columns: tuple[str, ...] | None = None) -> tuple[int, ...]:
    """gamma of every sensitive column: one number for all, or "occupation=5,age=8"."""
    if isinstance(gamma, str) and "=" in gamma:
        gamma = {name: _whole(text) for name, text in parts(gamma, "gamma")}
    if not isinstance(gamma, Mapping):
        return (_whole(gamma),) * (1 if columns is None else len(columns))
    found = {name: _whole(value) for name, value in gamma.items()}
    if columns is None:
        return tuple(found.values())
    for name in (*columns, *found):
        if name not in found or name not in columns:
            where = "has no gamma" if name in columns else "is not a sensitive column"
            raise SpecError(f'"{name}" {where}; give one for each of: {", ".join(columns)}', field="gamma")
    return tuple(found[name] for name in columns)


def _whole(value: object) -> int:
    try:
        number = int(value) if isinstance(value, str | int) and not isinstance(value, bool) else 0
    except ValueError:
        number = 0
    if not 2 <= number <= MOST_GAMMA:
        raise SpecError(f"gamma must be a whole number from 2 to {MOST_GAMMA}, got {value!r}", field="gamma")
    return number


def check_thresholds(epsilon: Fraction, alpha: int, t_e: Fraction) -> None:
    if not LEAST_EPSILON <= epsilon < 1:
        raise SpecError(f"epsilon must lie between {LEAST_EPSILON} and 1, got {epsilon}", field="epsilon")
    if isinstance(alpha, bool) or not isinstance(alpha, int) or not 1 <= alpha <= MOST_ALPHA:
        raise SpecError(f"alpha must be a whole number from 1 to {MOST_ALPHA}, got {alpha!r}", field="alpha")
    if not 0 < t_e < 1:
        raise SpecError(f"t_e must lie strictly between 0 and 1, got {t_e}", field="t_e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Splu(Specification):
    """Decoy groups of gamma; epsilon and alpha say what T_p and T_f are computed for.

    `silent` allows a value that is in every group: the release then says nothing about who has it.
    """

    method: ClassVar[str] = "splu"

    gamma: int | str | Mapping[str, int] = field(
        metadata=told("values in a decoy group, or one number a column; 1/gamma bounds a guess", "5")
    )
    epsilon: Ratio = field(default="3/10", metadata=told("relative error that T_p and T_f speak of", "1/10"))
    alpha: int = field(default=3, metadata=told("totals up to this one are small: hidden", "5"))
    grouping: str = field(
        default="random", metadata=told("random: by random margins; largest: from the largest buckets", "largest")
    )
    silent: bool = field(default=False, metadata={"help": "allow a value that is in every group"})

    def __post_init__(self) -> None:
        parse_gamma(self.gamma)
        check_thresholds(exact(self.epsilon, "epsilon"), self.alpha, T_E)
        if self.grouping not in RULES:
            raise SpecError(f'grouping must be one of {", ".join(RULES)}, got "{self.grouping}"', field="grouping")


# --- decoys -----------------------------------------------------------------------------------------------------------
# What the slots of a grouping publish: the counts K that a streaming pass needs, and the channel they come from.
#
# Every slot draws uniformly from the values of its group, its own included [docs/explanation/splu.md, 3.2]. Only
# K[u, s], the number of slots of value u that publish s, matters to the rows: records of u take the K[u, .] values in
# random order, which has the law of seating records first and drawing afterwards. K is private and dies with the run.


DENSE_CELLS = 4_000_000  # up to this many (true, published) cells are counted in a table, above by sorting
WAITING_KEYS = 12_000_000  # drawn slots held before they are sorted (8 bytes each)
CHUNK_ROWS = 500_000  # groups drawn at once


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounts:
    """K by true value: value u publishes `published[k]` exactly `counts[k]` times, k in offsets[u]:offsets[u + 1]."""

    values: int
    offsets: NDArray[np.int64]
    published: Codes
    counts: Counts

    def of(self, value: int) -> tuple[Codes, Counts]:
        """The values that the records of `value` publish, and how many records publish each."""
        part = slice(self.offsets[value], self.offsets[value + 1])
        return self.published[part], self.counts[part]

    def true_counts(self) -> Counts:
        """Records of each true value."""
        return np.add.reduceat(np.append(self.counts, 0), self.offsets[:-1]) * (np.diff(self.offsets) > 0)

    def published_counts(self) -> Counts:
        """Rows that will be published with each value: f'."""
        return np.bincount(self.published, weights=self.counts, minlength=self.values).astype(np.int64)

    def table(self) -> Counts:
        """K as a dense table, for few values."""
        found = np.zeros((self.values, self.values), np.int64)
        found[np.repeat(np.arange(self.values), np.diff(self.offsets)), self.published] = self.counts
        return found


def draw_slots(grouping: Grouping, rng: np.random.Generator) -> SlotCounts:
    """K for one random draw of every slot. O(N) time; memory for a chunk of groups and the cells of K that occur."""
    cells, counts = _Tally(grouping.values), grouping.values
    special = np.unique(grouping.leftover_groups)
    start = 0
    for block in grouping.blocks:
        for _ in range(block.copies):
            inside = special[(special >= start) & (special < start + len(block.rows))] - start
            plain = np.delete(block.rows, inside, axis=0) if len(inside) else block.rows
            for first in range(0, len(plain), CHUNK_ROWS):
                rows = plain[first : first + CHUNK_ROWS]
                choice = rng.integers(0, grouping.size, size=rows.shape, dtype=np.uint8)
                cells.add(rows, np.take_along_axis(rows, choice.astype(np.intp), axis=1))
            start += len(block.rows)
    for group in special:
        decoys = host_values(grouping, int(group))
        cells.add(decoys, rng.choice(decoys, size=len(decoys)))
    key, count = cells.total()
    true, published = np.divmod(key, counts)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(true, minlength=counts)))).astype(np.int64)
    return SlotCounts(values=counts, offsets=offsets, published=published.astype(np.int32), counts=count)


class _Tally:
    """Counts of (true, published) cells: a table while it is small, else keys sorted and merged in large batches."""

    def __init__(self, values: int) -> None:
        self.values = values
        self.dense = np.zeros(values * values, np.int64) if values * values <= DENSE_CELLS else None
        self.keys, self.counts = np.empty(0, np.int64), np.empty(0, np.int64)
        self.waiting: list[NDArray[np.int64]] = []

    def add(self, true: Codes, published: Codes) -> None:
        key = true.ravel().astype(np.int64) * self.values + published.ravel()
        if self.dense is not None:
            self.dense += np.bincount(key, minlength=len(self.dense))
            return
        self.waiting.append(key)
        if sum(map(len, self.waiting)) > WAITING_KEYS:
            self._merge()

    def _merge(self) -> None:
        new, count = np.unique(np.concatenate((*self.waiting, self.keys)), return_counts=True)
        count[np.searchsorted(new, self.keys)] += self.counts - 1
        self.keys, self.counts, self.waiting = new, count, []

    def total(self) -> tuple[NDArray[np.int64], Counts]:
        if self.dense is None:
            self._merge()
            return self.keys, self.counts
        keys = np.flatnonzero(self.dense)
        return keys, self.dense[keys]


# --- decoy guarantee --------------------------------------------------------------------------------------------------
# What decoy groups of a given size promise about totals: small sums hidden, large sums kept.
#
# A value with f records is in f groups, so its published count X is Binomial(size * f, 1 / size) whatever the grouping:
# mean f, variance f (1 - 1 / size) [docs/explanation/splu.md, 4]. Interval ends are exact: epsilon is a fraction.


CHUNK = 65_536


def _check(size: int, epsilon: Fraction) -> None:
    if size < 2:
        raise SpecError(f"group size must be an integer of at least 2, got {size!r}", field="gamma")
    if not 0 < epsilon < 1:
        raise SpecError(f"epsilon must lie strictly between 0 and 1, got {epsilon}", field="epsilon")


def _outside(low: Counts, high: Counts, n: Counts, p: float) -> NDArray[np.float64]:
    """Pr[X <= low] + Pr[X > high] for X ~ Binomial(n, p)."""
    below = np.where(low < 0, 0.0, special.bdtr(np.clip(low, 0, n), n, p))
    above = np.where(high < 0, 1.0, np.where(high >= n, 0.0, special.bdtrc(np.clip(high, 0, n), n, p)))
    return np.asarray(below + above)


def error_probability(true_counts: Counts, size: int, epsilon: Fraction) -> NDArray[np.float64]:
    """Pr[|X - f| > epsilon f] for each f: the chance that a total is published with more relative error than epsilon.

    Equality counts as inside, which is conservative for privacy. The lower end is a ceiling: the SPLU paper's
    Theorem 4 prints a floor, which gives 0.264 instead of 0.613 at f = 1, size 10, epsilon 0.3.
    """
    _check(size, epsilon)
    f = np.asarray(true_counts, np.int64)
    a, b = epsilon.numerator, epsilon.denominator
    low = -((a - b) * f // b)  # ceil((1 - eps) f)
    high = (b + a) * f // b  # floor((1 + eps) f)
    return _outside(low - 1, high, size * f, 1 / size)


def small_sum_privacy(size: int, epsilon: Fraction, alpha: int) -> float:
    """T_p: every total of at most `alpha` records is published wrong by more than epsilon with at least this chance."""
    if alpha < 1:
        raise SpecError(f"alpha must be an integer of at least 1, got {alpha!r}", field="alpha")
    return float(error_probability(np.arange(1, alpha + 1), size, epsilon).min())


def tail_probability(true_counts: Counts, size: int, epsilon: Fraction) -> NDArray[np.float64]:
    """Pr[|X - f| >= epsilon f] for each f, equality included, which is conservative for utility."""
    _check(size, epsilon)
    f = np.asarray(true_counts, np.int64)
    a, b = epsilon.numerator, epsilon.denominator
    low = (b - a) * f // b
    high = -(-(b + a) * f // b)
    return _outside(low, high - 1, size * f, 1 / size)


def large_sum_utility(size: int, epsilon: Fraction, miss: Fraction) -> int:
    """T_f: the least f from which on every total errs by epsilon or more with chance at most `miss` (T_E).

    The tail is a sawtooth in f. Bernstein certifies f >= 2 (1 - 1/size + eps/3) ln(2/T_E) / eps^2; from there we walk
    down to the last failure. The SPLU paper's (1 / (size eps^2 T_E))^(1/2) divides the variance by n twice: false.
    """
    _check(size, epsilon)
    if not 0 < miss < 1:
        raise SpecError(f"T_E must lie strictly between 0 and 1, got {miss}", field="miss")
    certified = math.ceil(2 * (1 - 1 / size + epsilon / 3) * math.log(2 / miss) / epsilon**2) + 1
    for top in range(certified, 0, -CHUNK):
        f = np.arange(max(1, top - CHUNK + 1), top + 1)
        failures = np.flatnonzero(tail_probability(f, size, epsilon) > float(miss))
        if len(failures):
            return int(f[failures[-1]]) + 1
    return 1


def amplification(counts: Counts, size: int) -> NDArray[np.float64]:
    """A_s = size (N - f) / (N - size f): growth of the noise of conditioned counts of s; infinite at f = N / size.

    From the true counts it is for the publisher only; a reader has it from the published ones.
    """
    counts = np.asarray(counts, np.int64)
    total = int(counts.sum())
    room = (total - size * counts).astype(np.float64)
    return np.divide(size * (total - counts), room, out=np.full(len(counts), np.inf), where=room > 0)
