"""Every aggregate estimated from strata of its own, so that its error does not depend on what else is asked.

Rows are sorted into strata by everything a SELECT asks of untouched columns. An aggregate that does not ask for some of
it would have its rows cut into more pieces than it needs, and pieces are not added up without loss: variances are
clipped and bounds are sharp piece by piece. So pieces that one aggregate cannot tell apart are put together first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from sfumato.model.public import Asked, Estimated, Observed

Estimate = Callable[[Observed, Asked], Estimated]


def estimate_apart(estimate: Estimate, observed: Observed, asked: Asked) -> Estimated:
    """What `estimate` says of every aggregate when it is asked alone, laid out as if all were asked together.

    Functionals whose covariance is wanted belong to one aggregate; aggregates that cut the rows alike share a call.
    """
    K, F = observed.keys, asked.functionals
    value, variance, low, high = (np.zeros((K, F)) for _ in range(4))
    minimum, maximum = np.full((K, F), np.nan), np.full((K, F), np.nan)
    covariance, caveats, bounded = np.zeros((K, len(asked.pairs))), dict[str, None](), False
    for chosen, class_ in _families(asked):
        found = estimate(*_own(observed, asked, chosen, class_))
        value[:, chosen], variance[:, chosen] = found.value, found.variance
        low[:, chosen], high[:, chosen] = found.low, found.high
        if found.minimum is not None and found.maximum is not None:
            minimum[:, chosen], maximum[:, chosen], bounded = found.minimum, found.maximum, True
        covariance[:, np.isin(asked.pairs[:, 0], chosen)] = found.covariance
        caveats |= dict.fromkeys(found.caveats)
    return Estimated(
        value=value,
        variance=variance,
        low=low,
        high=high,
        covariance=covariance,
        minimum=minimum if bounded else None,
        maximum=maximum if bounded else None,
        caveats=tuple(caveats),
    )


def _families(asked: Asked) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """(functionals, class of every pattern) of each family.

    Functionals j of all groups of unit keys stay together; those connected by pairs are one aggregate, and aggregates
    that cut the rows alike are one family.
    """
    J = asked.functionals // asked.groups
    links = sp.coo_array((np.ones(len(asked.pairs)), tuple(asked.pairs.T % J)), shape=(J, J))
    aggregates, of_functional = connected_components(links, directed=False)
    rows = [_row_keys(H) for H in asked.coefficients]
    indicator = asked.indicator
    alike: dict[tuple[tuple[int, ...], bool], list[int]] = {}
    for aggregate in range(aggregates):
        mine = np.flatnonzero(of_functional == aggregate)
        chosen = (np.arange(asked.groups)[:, None] * J + mine).ravel()
        label: dict[tuple[bytes, ...], int] = {}
        classes = tuple(label.setdefault(tuple(keys[f] for f in chosen), len(label)) for keys in rows)
        alike.setdefault((classes, bool(indicator[chosen].all())), []).extend(mine.tolist())
    return [
        ((np.arange(asked.groups)[:, None] * J + np.sort(mine)).ravel(), np.array(classes, dtype=np.intp))
        for (classes, _), mine in alike.items()
    ]


def _row_keys(H: sp.csr_array) -> list[bytes]:
    """The coefficients of every functional in one pattern, as something to compare."""
    H = H.copy()
    H.sum_duplicates()
    H.eliminate_zeros()
    starts = H.indptr
    return [H.indices[a:b].astype(np.int64).tobytes() + H.data[a:b].tobytes() for a, b in pairwise(starts)]


def _own(
    observed: Observed, asked: Asked, chosen: NDArray[np.intp], class_: NDArray[np.intp]
) -> tuple[Observed, Asked]:
    """The question about the chosen functionals, over strata that differ in output row or in coefficients only."""
    first = np.unique(class_, return_index=True)[1]
    pattern = class_[observed.pattern]
    width = len(first)
    places, stratum = np.unique(observed.key * width + pattern, return_inverse=True)
    at = stratum.reshape(-1)[observed.stratum]
    parts, values = int(observed.part.max(initial=0)) + 1, int(observed.value.max(initial=0)) + 1
    kept, row = np.unique((at * parts + observed.part) * values + observed.value, return_inverse=True)
    sums = [np.bincount(row, weights=m, minlength=len(kept)) for m in observed.moments.T]
    moments = np.stack(sums, axis=1).astype(np.float64)
    seen = Observed(
        stratum=(kept // (parts * values)).astype(np.intp),
        part=(kept // values % parts).astype(np.int64),
        value=(kept % values).astype(np.intp),
        moments=moments,
        key=(places // width).astype(np.intp),
        pattern=(places % width).astype(np.intp),
        keys=observed.keys,
    )
    coefficients = tuple(asked.coefficients[b][chosen] for b in first)
    mine = asked.pairs[np.isin(asked.pairs[:, 0], chosen)]
    question = replace(
        asked,
        coefficients=coefficients,
        measure=asked.measure[chosen],
        pairs=np.searchsorted(chosen, mine).reshape(-1, 2),
        binary=all(bool(np.all(H.data == 1)) for H in coefficients),
    )
    return seen, question
