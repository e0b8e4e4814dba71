"""Contingency tables and associations of a release whose columns are randomised independently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..engines.codes import factorise
from ..engines.statements import COUNT
from ..errors import QueryError, UnsupportedQuery
from ..model.names import ENDS, free_name
from ..model.public import ADDED
from ..release.opened import OpenedRelease
from ..sql.scalar import quoted
from ..stats.association import (
    CorrectedAssociation,
    corrected_association,
    expectation_maximisation,
    project_to_simplex,
)
from ..stats.intervals import normal_quantile
from ..stats.kronecker import AxisMap, Floats, all_cells, channel

WAYS = ("em", "simplex")
MAX_CELLS = 20_000_000
MAX_DRAWS = 2_000_000  # numbers of one release that an association's interval simulates, 150 times


def counts(columns: Sequence[str], *, where: str | None = None, what: str = "COUNT(*)", called: str = "n") -> str:
    """The question whose answer is every cell's count, or another aggregate, with its error.

    The number is `called` so, or with _2, _3 .. behind it where a column has that name or that of an error.
    """
    names = ", ".join(quoted(c) for c in columns)
    what = f"{what} AS {free_name(called, columns, ENDS)}"
    asked = f"SELECT {names + ', ' if columns else ''}{what} FROM release" + (f" WHERE {where}" if where else "")
    return asked + (f" GROUP BY {names} ORDER BY {names}" if columns else "")


def smoothed(release: OpenedRelease, columns: Sequence[str], nonnegative: str) -> pa.Table:
    """Counts of every cell, non-negative by EM or projection, without errors."""
    if nonnegative not in WAYS:
        raise QueryError(f'nonnegative must be one of {", ".join(WAYS)}, got "{nonnegative}"')
    observed, channels, labels = _observed(release, columns)
    rows = observed.sum()
    if nonnegative == "em":
        estimate = rows * expectation_maximisation(observed, channels)
    else:
        estimate = rows * project_to_simplex(all_cells(observed, channels).estimate / rows)
    places = np.unravel_index(np.arange(estimate.size), estimate.shape)
    shown = {c: v.take(pa.array(p)) for c, v, p in zip(columns, labels, places, strict=True)}
    return pa.table({**shown, free_name("n", columns, ENDS): estimate.ravel()})


def association(release: OpenedRelease, x: str, y: str, level: float) -> CorrectedAssociation:
    """Uncertainty coefficient I(X; Y) / H(Y) of the original table, corrected for noise, with its interval.

    The counts seed the draws, so that the same question gets the same answer.
    """
    observed, channels, _ = _observed(release, [x, y])
    if observed.size * max(observed.shape) > MAX_DRAWS:
        raise UnsupportedQuery(f"an association of {observed.shape[0]:,} x {observed.shape[1]:,} values is too large")
    first, second = (np.eye(n) if c is None else c.dense() for c, n in zip(channels, observed.shape, strict=True))
    rng = np.random.default_rng(observed.ravel().astype(np.uint32))
    return corrected_association(observed, first, second, normal_quantile(level), rng)


def _observed(release: OpenedRelease, columns: Sequence[str]) -> tuple[Floats, list[AxisMap | None], list[pa.Array]]:
    """Released counts over the declared domains (observed values for untouched columns), and each axis' channel."""
    thetas = release.law.axes()
    if thetas is None:
        raise UnsupportedQuery(f'tables of this kind are not made from a release by "{release.manifest.method}"')
    known = {c.name for c in release.columns if c.role not in ADDED}
    unknown = [c for c in columns if c not in known]
    if unknown or len(set(columns)) < len(columns) or not columns:
        raise QueryError(f'there is no column "{unknown[0]}"' if unknown else "name different columns, at least one")
    units = {name: u for u, domain in enumerate(release.domains) for name in domain.columns}
    seen = release.reader.count(columns)
    codes: list[Any] = []
    channels: list[AxisMap | None] = []
    labels = []
    for c in columns:
        if c not in units:
            code, values = factorise(seen[c])
            channels.append(None)
        else:
            coder = release.coders[units[c]]
            code = coder.encode([seen[c]])
            values = pa.array([v[0] for v in coder.domain.values], type=seen[c].type)
            channels.append(channel(thetas[units[c]], len(values)))
        codes.append(code)
        labels.append(values)
    shape = tuple(len(v) for v in labels)
    if math.prod(shape) > MAX_CELLS:
        raise UnsupportedQuery(f"the table would have {math.prod(shape):,} cells; ask for fewer columns")
    flat = np.ravel_multi_index(tuple(codes), shape)
    made = np.bincount(flat, weights=seen[COUNT].to_numpy(), minlength=math.prod(shape)).astype(np.float64)
    return made.reshape(shape), channels, labels
