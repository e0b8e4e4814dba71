"""Contingency tables and associations of a release whose columns are randomised independently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from .engines.sources import quoted
from .errors import QueryError, UnsupportedQuery
from .stats.association import Association, estimated_association
from .stats.kronecker import AxisMap, Floats, channel
from .stats.nonnegative import expectation_maximisation, project_to_simplex
from .stats.response import all_cells
from .strata import factorise

WAYS = ("em", "simplex")
MAX_CELLS = 20_000_000


def table(release: Any, columns: Sequence[str], nonnegative: str | None = None) -> pa.Table:
    """Counts of every cell: unbiased with their errors, or non-negative by EM or projection, without errors."""
    names = ", ".join(quoted(c) for c in columns)
    if nonnegative is None:
        return release.sql(f"SELECT {names}, COUNT(*) AS n FROM release GROUP BY {names} ORDER BY {names}").to_arrow()
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
    return pa.table({**shown, "n": estimate.ravel()})


def association(release: Any, x: str, y: str) -> Association:
    """Uncertainty coefficient I(X; Y) / H(Y) of the original table, with its standard error."""
    observed, channels, _ = _observed(release, [x, y])
    return estimated_association(observed, channels)


def _observed(release: Any, columns: Sequence[str]) -> tuple[Floats, list[AxisMap | None], list[pa.Array]]:
    """Released counts over the declared domains (observed values for untouched columns), and each axis' channel."""
    thetas = getattr(release.mechanism, "axes", None)
    if thetas is None:
        raise UnsupportedQuery(f'tables of this kind are not made from a release by "{release.manifest.method}"')
    unknown = [c for c in columns if c not in release.schema.types or c in release.schema.hidden]
    if unknown or len(set(columns)) < len(columns) or not columns:
        raise QueryError(f'there is no column "{unknown[0]}"' if unknown else "name different columns, at least one")
    names = ", ".join(quoted(c) for c in columns)
    seen = release.reader.query(f"SELECT {names}, COUNT(*) AS __n__ FROM release GROUP BY ALL")
    codes: list[Any] = []
    channels: list[AxisMap | None] = []
    labels = []
    for c in columns:
        unit = release.schema.units.get(c)
        if unit is None:
            code, values = factorise(seen[c])
            channels.append(None)
        else:
            code, values = release.encode(unit, seen[c])
            channels.append(channel(thetas(release.plan)[unit], len(values)))
        codes.append(code)
        labels.append(values)
    shape = tuple(len(v) for v in labels)
    if math.prod(shape) > MAX_CELLS:
        raise UnsupportedQuery(f"the table would have {math.prod(shape):,} cells; ask for fewer columns")
    flat = np.ravel_multi_index(tuple(codes), shape)
    counts = np.bincount(flat, weights=seen["__n__"].to_numpy(), minlength=math.prod(shape)).astype(np.float64)
    return counts.reshape(shape), channels, labels
