"""The error a release will have, from its plan alone: a question is asked of the *expected* release.

The original table is observed as if it were the release, what was observed is pushed through the plan's channel, and
the method's own `estimate` answers. Estimates and their variances are linear in what is observed (up to guards that do
not act on expected counts), so the answer is the mean of the estimate and `n_se` its true standard error. Nothing is
published and nothing is drawn. For the custodian only: it reads the original table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtr

from .engines.codes import Coder
from .mechanisms import anatomy, distribution_draw, randomized_response, small_domain, splu, uniform
from .model.public import Asked, Codes, Estimated, Evidence, Floats, Integers, Observed
from .publish import Prepared
from .query import Release
from .sql.nodes import Schema
from .stats import anatomised
from .stats.kronecker import apply_maps, channel, theta_of_keep
from .workload import Truth

Totals = Callable[[tuple[int, ...]], tuple[Integers, Codes, Any]]
Push = Callable[[Observed, Asked], Observed]


class ExpectedRelease(Release):
    """A release that does not exist, asked like one. `foreseeable` says for which methods it can be made."""

    def __init__(self, prepared: Prepared, truth: Truth) -> None:  # a release without a folder
        rule = RULES[prepared.mechanism.NAME]
        changed = prepared.needs.changed
        self.prepared, self.plan = prepared, prepared.planned.public
        self.manifest: Any = SimpleNamespace(method=prepared.mechanism.NAME, rows=truth.rows)
        # The original is read as it is: no sub-table column, nothing withheld.
        self.mechanism: Any = SimpleNamespace(LUMPABLE=rule.lump, WITHHELD=False, PART=None)
        self.domains = tuple(d for d, c in zip(prepared.profile.domains, changed, strict=True) if c)
        self.reader, self._types = truth.reader, dict(truth.types)
        units = {name: u for u, domain in enumerate(self.domains) for name in domain.columns}
        self.schema = Schema(types=self._types, units=units, hidden=frozenset())
        arrow = prepared.table.arrow_types()
        self._coders = [Coder(domain, arrow) for domain in self.domains]
        self._evidence = None
        self._answer = rule.make(prepared)

    def __repr__(self) -> str:
        return f"<expected release by {self.manifest.method}>"

    def _estimate(self, observed: Observed, asked: Asked) -> Estimated:
        return self._answer(observed, asked)

    def _bound(self, *_: Any, **__: Any) -> Any:
        return None


def foreseeable(method: str) -> bool:
    """Whether the method's error follows from its plan by algebra; the others are asked by a trial."""
    return method in RULES


def mean_absolute_error(bias: Floats, se: Floats) -> Floats:
    """E|X| of a normal X with this mean and standard deviation; a missing `se` counts as 0."""
    spread = np.nan_to_num(se)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(spread > 0, bias / spread, np.inf)
        noisy = spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2) + bias * (1 - 2 * ndtr(-z))
    return np.where(spread > 0, noisy, np.abs(bias))


# --- what each method does to the counts it expects -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rule:
    """`lump`: values that the question does not tell apart may be counted together before the channel acts."""

    lump: bool
    make: Callable[[Prepared], Callable[[Observed, Asked], Estimated]]


def _tensor(observed: Observed, V: int) -> Floats:
    """(moments, strata, joint values) of what was observed."""
    T, J = observed.strata, observed.moments.shape[1]
    flat = observed.stratum * V + observed.value
    sums = [np.bincount(flat, weights=observed.moments[:, j], minlength=T * V) for j in range(J)]
    return np.array(sums, dtype=np.float64).reshape(J, T, V)


def _entries(observed: Observed, tensor: Floats, part: int = 0) -> Observed:
    """The tensor as observed entries of one sub-table."""
    stratum, value = np.nonzero(tensor.any(axis=0))
    return replace(
        observed,
        stratum=stratum,
        part=np.full(len(stratum), part, dtype=np.int64),
        value=value,
        moments=tensor[:, stratum, value].T,
    )


def _together(parts: list[Observed]) -> Observed:
    return replace(
        parts[0],
        stratum=np.concatenate([p.stratum for p in parts]),
        part=np.concatenate([p.part for p in parts]),
        value=np.concatenate([p.value for p in parts]),
        moments=np.concatenate([p.moments for p in parts]),
    )


def _evidence(prepared: Prepared, totals: Totals, side: Mapping[str, Any] | None = None) -> Evidence:
    domains = tuple(d for d, c in zip(prepared.profile.domains, prepared.needs.changed, strict=True) if c)
    rows = prepared.profile.rows
    return Evidence(rows=rows, domains=domains, totals=totals, side=side or {}, digest="0" * 64)


def _pushed(prepared: Prepared, push: Push, totals: Totals) -> Callable[[Observed, Asked], Estimated]:
    evidence, mechanism, plan = _evidence(prepared, totals), prepared.mechanism, prepared.planned.public
    return lambda observed, asked: mechanism.estimate(plan, evidence, push(observed, asked), asked)


def _uniform(prepared: Prepared) -> Callable[[Observed, Asked], Estimated]:
    plan, true_counts = prepared.planned.public, prepared.profile.true_counts().astype(float)
    p, q = float(plan.p), float(plan.q)
    expected = p * true_counts + q * true_counts.sum()
    codes = np.arange(len(true_counts), dtype=np.int32)

    def push(observed: Observed, asked: Asked) -> Observed:
        size = np.bincount(asked.classes[0])
        seen = _tensor(observed, len(size))
        return _entries(observed, p * seen + q * seen.sum(axis=2, keepdims=True) * size)

    return _pushed(prepared, push, lambda _: (np.zeros(len(codes), dtype=np.int64), codes[:, None], expected))


def _small_domain(prepared: Prepared) -> Callable[[Observed, Asked], Estimated]:
    plan, true_counts = prepared.planned.public, prepared.profile.true_counts()
    deal, tables = prepared.planned.work.deals[0], plan.tables
    assert deal.counts is not None
    owner = np.repeat(np.arange(len(true_counts)), np.diff(deal.start))
    share = np.zeros((len(tables), len(true_counts)))  # of a value's records that go to a sub-table
    share[deal.labels, owner] = deal.counts / np.maximum(true_counts[owner], 1)

    def of_table(seen: Floats, i: int) -> Floats:
        inside = np.zeros(len(true_counts))
        inside[tables.domain(i)] = 1.0
        moved = seen * share[i]
        return tables.p[i] * moved + tables.q[i] * moved.sum(axis=-1, keepdims=True) * inside

    def push(observed: Observed, _: Asked) -> Observed:
        seen = _tensor(observed, len(true_counts))
        return _together([_entries(observed, of_table(seen, i), i) for i in range(len(tables))])

    def totals(_: tuple[int, ...]) -> tuple[Integers, Codes, Floats]:
        count = np.array([of_table(true_counts.astype(float), i) for i in range(len(tables))])
        part, code = np.nonzero(count)
        return part.astype(np.int64), code[:, None].astype(np.int32), count[part, code]

    return _pushed(prepared, push, totals)


def _splu(prepared: Prepared) -> Callable[[Observed, Asked], Estimated]:
    """K of every column is drawn with the plan; which records follow it is not."""
    matrices, published = [], []
    for u, deal in enumerate(prepared.planned.work.deals):
        true_counts = prepared.profile.true_counts(u, u)
        owner = np.repeat(np.arange(len(true_counts)), np.diff(deal.start))
        counts = np.ones(len(owner)) if deal.counts is None else deal.counts
        shape = (len(true_counts), len(true_counts))
        K = sp.csr_array((counts, (owner, deal.labels)), shape=shape)
        published.append(np.asarray(K.sum(axis=0)).astype(np.int64))
        matrices.append(sp.csr_array(sp.diags_array(1.0 / np.maximum(true_counts, 1)) @ K))

    def push(observed: Observed, asked: Asked) -> Observed:
        seen = _tensor(observed, int(np.prod(asked.shape)))
        table = seen.reshape(*seen.shape[:2], *asked.shape)
        for axis, u in enumerate(asked.units, start=2):
            moved = np.moveaxis(table, axis, -1)
            flat = (matrices[u].T @ moved.reshape(-1, moved.shape[-1]).T).T
            table = np.moveaxis(flat.reshape(moved.shape), -1, axis)
        return _entries(observed, table.reshape(seen.shape))

    def totals(units: tuple[int, ...]) -> tuple[Integers, Codes, Integers]:
        (u,) = units
        codes = np.arange(len(published[u]), dtype=np.int32)[:, None]
        return np.zeros(len(codes), dtype=np.int64), codes, published[u]

    return _pushed(prepared, push, totals)


def _randomized_response(prepared: Prepared) -> Callable[[Observed, Asked], Estimated]:
    plan = prepared.planned.public
    thetas = [1.0 if p >= 1 else theta_of_keep(p, d) for p, d in zip(plan.keep, plan.sizes, strict=True)]

    def push(observed: Observed, asked: Asked) -> Observed:
        maps = [channel(thetas[u], len(c), np.bincount(c)) for u, c in zip(asked.units, asked.classes, strict=True)]
        seen = _tensor(observed, int(np.prod(asked.shape)))
        moved = apply_maps(maps, seen.reshape(*seen.shape[:2], *asked.shape))
        return _entries(observed, moved.reshape(seen.shape))

    def totals(_: tuple[int, ...]) -> Any:
        raise NotImplementedError  # the estimator does not look at totals

    return _pushed(prepared, push, totals)


def _distribution_draw(prepared: Prepared) -> Callable[[Observed, Asked], Estimated]:
    """Values drawn from the whole column: the mean is that of independence, and here its spread is known too."""
    share = prepared.profile.true_counts() / prepared.profile.rows

    def answer(observed: Observed, asked: Asked) -> Estimated:
        value, variance = np.zeros((observed.keys, asked.functionals)), np.zeros((observed.keys, asked.functionals))
        pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
        shares = np.bincount(asked.classes[0], weights=share)
        for b, H in enumerate(asked.coefficients):
            at = np.flatnonzero(pattern == b)
            mean, square = H @ shares, H.power(2) @ shares
            first = observed.moments[at][:, asked.products[0, asked.measure]]
            second = observed.moments[at][:, asked.products[asked.measure, asked.measure]]
            np.add.at(value, key[at], first * mean)
            np.add.at(variance, key[at], second * (square - mean**2))
        nothing = np.zeros((observed.keys, len(asked.pairs)))
        half = asked.z * np.sqrt(variance)
        return Estimated(value=value, variance=variance, low=value - half, high=value + half, covariance=nothing)

    return answer


def _anatomy(prepared: Prepared) -> Callable[[Observed, Asked], Estimated]:
    side, m = prepared.planned.work.side, len(prepared.profile.domains[0])
    made = anatomised.Channel(anatomised.groups_of(side["group_id"].astype(np.int64), side["unit0"], m))
    kept = np.divide(made.true_counts, np.maximum(prepared.profile.true_counts(), 1))  # below 1 where suppressed

    def answer(observed: Observed, asked: Asked) -> Estimated:
        plain = asked.options.get("estimator") == "plain"
        h = np.stack([H.toarray() for H in asked.coefficients])
        w = h if plain else np.stack([made.weights(x)[0] for x in h])
        pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]

        def sums(patterns: NDArray[np.bool_], column: int) -> Floats:
            at = np.flatnonzero(patterns[pattern])
            flat = np.bincount(
                key[at] * m + observed.value[at], weights=observed.moments[at, column], minlength=observed.keys * m
            )
            return np.asarray(flat.reshape(observed.keys, m) * kept, dtype=np.float64)

        value = np.zeros((observed.keys, asked.functionals))
        for f, found in enumerate(anatomised.kinds(h)):
            for b, where in found:
                mean = np.zeros(m)  # of W over the groups that hold a value
                mean[made.present] = made.M @ w[b, f, made.present]
                value[:, f] += sums(where, int(asked.products[0, asked.measure[f]])) @ mean
        variance, covariance = anatomised.variances(made, sums, asked, h, w, observed.keys)
        half = asked.z * np.sqrt(variance)
        return Estimated(value=value, variance=variance, low=value - half, high=value + half, covariance=covariance)

    return answer


RULES: dict[str, _Rule] = {
    uniform.NAME: _Rule(True, _uniform),
    small_domain.NAME: _Rule(False, _small_domain),
    splu.NAME: _Rule(False, _splu),
    randomized_response.NAME: _Rule(True, _randomized_response),
    distribution_draw.NAME: _Rule(True, _distribution_draw),
    anatomy.NAME: _Rule(False, _anatomy),
}
