"""splu: every record publishes one value drawn from its own and those of its decoys; small sums drown, large ones stay.

Random groups of gamma records with distinct values; each record draws from its group. docs/explanation/splu.md.

Guarantee: totals of at most alpha records are wrong by more than epsilon with probability at least T_p; totals of at
least T_f records err by epsilon or more with probability at most T_E; posterior at most 1/gamma.
Assumes: a reader who knows nothing else about a record, and who estimates a total by the published one.
Cost: one pass to count, a plan of at most 200,000 distinct groups, one pass to publish.
Error: a total has variance f (1 - 1/gamma); counts inside a condition grow with gamma, most for frequent values.
Does not protect against: readers who know many records; conditions that single people out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..errors import PlanError, SpecError
from ..laws.decoy_channel import rebuild_channel
from ..laws.decoys import MOST_GAMMA, RULE_VERSION, RULES, Decoys
from ..laws.grouping import Codes, Counts, Grouping, host_values, largest_buckets, random_margins
from ..model.names import Ratio, exact, parts
from ..model.private import Deal, Facts, Known, Needs, Profile, Work
from ..model.public import Candidate, Claim, Curve, Guarantee, Integers, ReaderBound, Roles, Trust, value_label
from .contract import Example, Method, Planned, Specification
from .shared.readers import Found, ladder, linked
from .shared.restricted import group_size, told

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


# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of decoy groups get: a record shows one of the values of its group, which is not published.


NO_BOUND = "no bound is known for a reader who knows other records: they narrow the decoys of this one"


def readers(sizes: tuple[int, ...], claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder.

    Of the n_s groups that hold s, each shows s once on average, and the record of s itself does so with chance 1 / size
    (docs/explanation/splu.md, 4): with the true histogram as prior, s shown is s with 1 / size, and any other value is
    less likely. With several columns the combination of their values is told apart by all of them together.
    """
    several = len(sizes) > 1
    mine = (
        Found(posterior=None, why="each column alone reaches 1/gamma; together they may tell more")
        if several
        else Found(posterior=Fraction(1, sizes[0]), why="a value that is shown is the record's own with 1/gamma")
    )
    fails = claim.rho1 is not None and known is not None and not several and _least(sizes[0], claim, known)
    value = Found(
        posterior=None,
        why="the less frequent a value, the more showing it tells a reader who gives the others' owners no chance",
        fails=bool(fails),
    )
    other = Found(posterior=None, why=NO_BOUND, fails=True)
    person = value if (claim.rows_per_person or 1) == 1 else other
    return ladder(
        claim,
        value=value,
        histogram=mine,
        linking=linked(known, "", lambda _: None, "the law of random groups has no closed form inside a cell"),
        corruption=other,
        person=person,
    )


def _least(size: int, claim: Claim, known: Known) -> bool:
    """Whether some prior of at most rho1 on s surely passes rho2.

    The records of other values show s with chance (1 - 1/size) n_s / (n - n_s) on average, so some value u shows it
    at most that often; the prior with all the rest on u ends at least at rho1 / (rho1 + (1 - rho1) size times that).
    """
    counts = known.joint.of_values()[known.looked]
    rows, least = int(known.joint.true_counts.sum()), int(counts.min())
    rho1, rho2 = claim.rho1, claim.rho2
    if rho1 is None or rho2 is None or least == rows:
        return False
    often = (1 - Fraction(1, size)) * Fraction(least, rows - least)
    return bool(rho1 / (rho1 + (1 - rho1) * size * often) > rho2)


# --- the method -------------------------------------------------------------------------------------------------------


WARN_AT = 3  # amplification, in units of gamma, from which `plan` warns


@dataclass(frozen=True, slots=True, kw_only=True)
class SpluPlan:
    """What the release states: decoy groups of gamma for every sensitive column, and the thresholds chosen."""

    law: Decoys
    epsilon: Fraction
    alpha: int
    t_e: Fraction

    def __post_init__(self) -> None:
        check_thresholds(self.epsilon, self.alpha, self.t_e)


def _group(true_counts: Integers, size: int, column: str, spec: Splu, rng: np.random.Generator) -> Grouping:
    """The decoy groups of one column."""
    if np.count_nonzero(true_counts) < 2:
        raise PlanError(f'"{column}" has one distinct value; nothing can be hidden')
    total, top = int(true_counts.sum()), int(true_counts.max())
    if size * top == total and not spec.silent:
        limit = (total - 1) // top
        instead = f"take gamma {limit}" if limit >= 2 else "publish a finer column"
        raise PlanError(
            f'gamma = {size} puts the most frequent value of "{column}" into every group, so the release would say '
            f"nothing about who has it; {instead}, or allow it with --silent",
            limit=limit,
        )
    rule = random_margins if spec.grouping == "random" else largest_buckets
    try:
        return rule(true_counts, size, rng)
    except PlanError as error:
        limit = int(str(error.limit))
        instead = f"the largest gamma is {limit}" if limit >= 2 else "no gamma is possible; publish a finer column"
        raise PlanError(
            f'gamma = {size} cannot be reached: the most frequent value of "{column}" is too frequent; {instead}',
            limit=limit,
        ) from None


def _expected_error(true_counts: Integers, values: list[Any], size: int) -> dict[str, list[Any]]:
    """Standard errors of totals and of counts among a share a of the rows chosen without regard to the value.

    With V_1 the plain variance for all rows: a (1 - a) V_1 + a^2 f (1 - 1/size), the calibrated variance.
    """
    channel = rebuild_channel(true_counts, size, seed=0)
    total = true_counts * (1 - 1 / size)
    plain = np.full(len(true_counts), np.nan)
    plain[true_counts == 0] = 0
    known = channel.active[channel.identifiable]
    whole = channel.matrix.squares(channel.published) - channel.matrix.estimate(channel.published)
    plain[known] = np.maximum(0.0, whole[channel.identifiable])

    def among(share: float) -> list[float | None]:
        se = np.sqrt(share * (1 - share) * plain + share**2 * total)
        return [float(x) if np.isfinite(x) else None for x in se]

    return {
        "values": values,
        "total": np.sqrt(total).tolist(),
        "among_1_percent": among(0.01),
        "among_10_percent": among(0.1),
    }


def _decoy_sets(work: Work, profile: Profile) -> dict[str, Any]:
    """The decoy sets with how often each occurs, most frequent first; they hold true counts, so only on request."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for domain, grouping in zip(profile.domains, work.secret, strict=True):
        rows = np.sort(grouping.members, axis=1)
        distinct, times = np.unique(rows, axis=0, return_counts=True)
        order = np.argsort(-times, kind="stable")
        labels = [value_label(v) for v in domain.values]
        sets[domain.columns[0]] = [{"values": [labels[c] for c in distinct[i]], "groups": int(times[i])} for i in order]
    return {"decoy_sets": sets if len(sets) > 1 else next(iter(sets.values()))}


class SpluMethod(Method[Splu, SpluPlan]):
    """Every record publishes one value drawn from its own and those of its decoys."""

    name = "splu"
    title = "Small sum privacy, large sum utility"
    trust = Trust.CONDITIONAL
    answers = "estimate, interval"
    spec = Splu
    plan_type = SpluPlan
    unseen = ("true values put back: totals are kept by design",)
    example = Example(
        spec={"gamma": 4},
        options={"gamma": "3"},
        bad=(
            {"gamma": 1}, {"gamma": 2.5}, {"gamma": "x"}, {"gamma": True}, {"gamma": "disease=1"}, {"epsilon": 0},
            {"epsilon": 1}, {"alpha": 0}, {"grouping": "alphabetic"},
        ),
    )  # fmt: skip

    def needs(self, spec: Splu, roles: Roles) -> Needs:
        """Every sensitive column by itself."""
        units = tuple((column,) for column in roles.sensitive)
        parse_gamma(spec.gamma, tuple(roles.sensitive))
        return Needs(units=units, joints=tuple((u,) for u in range(len(units))), changed=(True,) * len(units))

    def plan(self, spec: Splu, profile: Profile, rng: np.random.Generator) -> Planned[SpluPlan]:
        """For every column random groups, the draws of all slots, and how many records of u publish s."""
        columns = tuple(domain.columns[0] for domain in profile.domains)
        sizes = parse_gamma(spec.gamma, columns)
        groupings, deals = [], []
        for u, size in enumerate(sizes):
            groupings.append(_group(profile.true_counts(u, u), size, columns[u], spec, rng))
            slots = draw_slots(groupings[u], rng)
            labels = slots.published.astype(np.int64)
            deals.append(Deal(unit=u, start=slots.offsets, labels=labels, counts=slots.counts))
        public = SpluPlan(
            law=Decoys(
                gamma=dict(zip(columns, sizes, strict=True)),
                grouping=RULES[spec.grouping],
                grouping_version=RULE_VERSION,
            ),
            epsilon=exact(spec.epsilon, "epsilon"),
            alpha=spec.alpha,
            t_e=T_E,
        )
        return Planned(public=public, work=Work(deals=tuple(deals), secret=tuple(groupings)))

    def guarantee(self, plan: SpluPlan) -> Guarantee:
        """T_p, T_f and 1/gamma; for several columns the weakest."""
        t_p = min(small_sum_privacy(size, plan.epsilon, plan.alpha) for size in set(plan.law.sizes))
        t_f = max(large_sum_utility(size, plan.epsilon, plan.t_e) for size in set(plan.law.sizes))
        least, floor = min(plan.law.sizes), math.floor(t_p * 10**6) / 10**6
        share = f"{float(plan.epsilon):.4g}"
        return Guarantee(
            model="small sum privacy, large sum utility",
            parameters={
                "gamma": dict(plan.law.gamma),
                "epsilon": str(plan.epsilon),
                "alpha": plan.alpha,
                "t_p": floor,
                "t_e": str(plan.t_e),
                "t_f": t_f,
                "posterior": f"1/{least}",
            },
            statement=(
                f"The published total of a sensitive value with at most {plan.alpha} records errs by more than {share} "
                f"of it with probability at least {floor:.6f}; from {t_f} records on it errs by {share} or more with "
                f"probability at most {float(plan.t_e):.4g}. A record's published value makes no true value "
                f"likelier than 1/{least}."
            ),
            assumptions=(
                "totals are estimated by the published totals",
                "for the posterior: the reader knows nothing else about the record or its group",
                "T_f: groups of exactly gamma; if the rows are no multiple of gamma, a few groups have one more",
                "the table is published once",
            ),
            not_covered=(
                "counts inside a condition: their intervals are stated with each answer, no guarantee is",
                "a reader who knows the true values of many records",
                "what can be inferred by other estimators than the published total",
                "columns that are published as they are",
            ),
            trust=self.trust,
        )

    def claim(self, plan: SpluPlan) -> Claim:
        """1/gamma, whatever the prior."""
        return Claim(rho2=Fraction(1, min(plan.law.sizes)))

    def readers(self, plan: SpluPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """Decoy groups that are not published."""
        return readers(plan.law.sizes, claim.or_own(self.claim(plan).rho1, self.claim(plan).rho2), known)

    def report(self, plan: SpluPlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        """Groups, thresholds, amplification with warnings, and the error to expect; by column if several."""
        several = len(plan.law.sizes) > 1
        found: dict[str, dict[str, Any]] = {"groups": {}, "t_p": {}, "t_f": {}, "amplification": {}}
        warnings: list[str] = []
        errors: dict[str, list[Any]] = {"values": [], "total": [], "among_1_percent": [], "among_10_percent": []}
        for u, (domain, size) in enumerate(zip(profile.domains, plan.law.sizes, strict=True)):
            true_counts, column = profile.true_counts(u, u), domain.columns[0]
            values = [value_label(v) for v in domain.values]
            grown = amplification(true_counts, size)
            found["groups"][column] = int(true_counts.sum()) // size
            found["t_p"][column] = small_sum_privacy(size, plan.epsilon, plan.alpha)
            found["t_f"][column] = large_sum_utility(size, plan.epsilon, plan.t_e)
            found["amplification"][column] = {
                str(v): float(a) if np.isfinite(a) else None for v, a in zip(values, grown, strict=True)
            }
            noisy = [str(v) for v, a, f in zip(values, grown, true_counts, strict=True) if f and a > WARN_AT * size]
            if noisy:
                shown = ", ".join(noisy[:5]) + (" ..." if len(noisy) > 5 else "")
                warnings.append(
                    f"amplification above {WARN_AT * size}: little can be learnt about who has {column} {shown}"
                )
            labels = [f"{column}={v}" for v in values] if several else values
            for key, numbers in _expected_error(true_counts, labels, size).items():
                errors[key] += numbers
        facts = found if several else {key: next(iter(by.values())) for key, by in found.items()}
        facts |= {"warnings": warnings, "expected_error": errors}
        return facts | _decoy_sets(work, profile) if full else facts

    def curves(self, plan: SpluPlan) -> tuple[Curve, ...]:
        """What is hidden against the total, and from which total on it is kept against the chance of missing it."""
        f = np.arange(1, max(40, 4 * plan.alpha) + 1)
        share, sizes = f"{float(plan.epsilon):.4g}", sorted(set(plan.law.sizes))
        hidden = Curve(
            title=f"Small sums: T_p is the lowest point up to alpha = {plan.alpha}",
            x="true total f",
            y=f"Pr[relative error above {share}]",
            series={
                f"gamma {size}": tuple(zip(f.tolist(), error_probability(f, size, plan.epsilon).tolist(), strict=True))
                for size in sizes
            },
        )
        chances = [Fraction(k, 1000) for k in (2, 5, 10, 20, 50, 100, 200, 300)]
        kept = Curve(
            title="Large sums: totals from T_f on are kept",
            x=f"T_E: chance of a relative error of {share} or more",
            y="T_f",
            series={
                f"gamma {size}": tuple((float(t), float(large_sum_utility(size, plan.epsilon, t))) for t in chances)
                for size in sizes
            },
            log=True,
        )
        return hidden, kept

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Groups of gamma = 1/tau."""
        return (Candidate(method=self.name, parameters={"gamma": group_size(tau)}),)


METHOD: Method[Splu, SpluPlan] = SpluMethod()
