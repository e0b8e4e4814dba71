"""Numbers computed from aggregates, with their errors: the delta method on the trees of `sql.arithmetic`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import UnsupportedQuery
from ..methods.shared.linear_functionals import Target
from ..model.public import Floats
from ..sql.nodes import Arithmetic, Derived
from .influence import Influence, Slopes, aggregate_slopes, sets_of
from .strata import Frame
from .subject import Subject

CERTAIN_DENOMINATOR = 3.0  # standard errors that a denominator must be away from 0

Leaf = tuple[int, tuple[int, ...] | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Computed:
    """A tree's value in every row, its slope by each leaf, and the largest error that its leaves can add up to."""

    value: Floats
    slopes: dict[Leaf, Floats]
    most: Floats


def with_derived(
    frame: Frame, subject: Subject, columns: pa.Table, kind: str, *, z: float, target: Target
) -> tuple[pa.Table, str, tuple[str, ...]]:
    """The answer's columns and those of its computed numbers, d0, d0_se ..; kind; caveats."""
    notes: dict[str, None] = {}
    influences = sets_of(frame, subject)
    for i, derived in enumerate(frame.query.derived):
        value, se = np.full((2, columns.num_rows), np.nan)
        for influence in influences:
            at = slice(influence.first, influence.first + influence.rows)
            value[at], se[at] = _one(frame, influence, columns, derived, target)
        if np.isnan(value).any():
            within = f"within {CERTAIN_DENOMINATOR:g} standard errors of zero"
            notes[f"{derived.name}: no answer where the denominator is {within}"] = None
        if (np.nan_to_num(se) > 0).any() and kind == "exact":
            kind = "confidence"
        for end, numbers in (("", value), ("_se", se), ("_low", value - z * se), ("_high", value + z * se)):
            columns = columns.append_column(f"d{i}{end}", pa.array(numbers, type=pa.float64(), from_pandas=True))
    return columns, kind, tuple(notes)


def _one(
    frame: Frame, influence: Influence, columns: pa.Table, derived: Derived, target: Target
) -> tuple[Floats, Floats]:
    """(value, standard error) in the rows of one grouping set."""
    part = columns.slice(influence.first, influence.rows)
    labels = {over: _labels(part, over) for _, over in derived.tree.leaves() if over is not None}
    leaves: dict[Leaf, tuple[Floats, Floats]] = {}
    for j, over in derived.tree.leaves():
        value, se = (part[f"a{j}{end}"].to_numpy(zero_copy_only=False) for end in ("", "_se"))
        if over is not None:
            label = labels[over]
            value = np.bincount(label, weights=value)[label]
            se = np.bincount(label, weights=se)[label]
        leaves[j, over] = (value, se)
    found = _evaluated(derived.tree, leaves, influence.rows)
    moving = [leaf for leaf, (_, se) in leaves.items() if (np.nan_to_num(se) > 0).any()]
    value = np.where(np.isfinite(found.value), found.value, np.nan)
    if not moving:
        exact = all(not np.isnan(se).any() for _, se in leaves.values())
        return value, np.where(np.isnan(value) | (not exact), np.nan, 0.0)
    if len(moving) == 1 and moving[0][1] is None:
        return value, np.abs(found.slopes[moving[0]]) * leaves[moving[0]][1]
    try:
        return value, np.sqrt(_variance(frame, influence, columns, found, moving, labels, target))
    except UnsupportedQuery as error:
        raise UnsupportedQuery(error.message, sql=frame.query.text, position=derived.position) from None


def _variance(
    frame: Frame,
    influence: Influence,
    columns: pa.Table,
    found: Computed,
    moving: list[Leaf],
    labels: dict[tuple[int, ...], NDArray[np.intp]],
    target: Target,
) -> Floats:
    own: Any = 0.0
    total: Any = None
    chosen: NDArray[np.intp] | None = None
    for j, over in moving:
        slope = np.nan_to_num(found.slopes[j, over])[:, None]
        if over is None:
            own = own + slope * aggregate_slopes(influence, frame.query.aggregates[j], j, columns, target)
        else:
            if chosen is not None and not np.array_equal(chosen, labels[over]):
                raise UnsupportedQuery("totals over different groups in one expression are not answered")
            chosen = labels[over]
            plain = influence.slopes_of(j, np.zeros(influence.rows), None)
            total = (0.0 if total is None else total) + slope * plain
    width = influence.slopes_of(moving[0][0], np.zeros(influence.rows), None).shape
    slopes = Slopes(
        row=np.arange(influence.rows),
        own=np.broadcast_to(own, width).astype(np.float64),
        total=total,
        label=chosen,
    )
    return influence.variance(slopes, target)


def _labels(part: pa.Table, keys: tuple[int, ...]) -> NDArray[np.intp]:
    """The class of every row: rows that agree on the keys."""
    rows = list(zip(*(part[f"k{i}"].to_pylist() for i in keys), strict=True)) if keys else [()] * part.num_rows
    number: dict[tuple[Any, ...], int] = {}
    return np.array([number.setdefault(row, len(number)) for row in rows], dtype=np.intp)


def _evaluated(tree: Arithmetic, leaves: dict[Leaf, tuple[Floats, Floats]], rows: int) -> Computed:
    """Value and slopes, from the leaves up."""
    if tree.op == "number":
        return Computed(value=np.full(rows, tree.number), slopes={}, most=np.zeros(rows))
    if tree.op == "part":
        value, se = leaves[tree.aggregate, tree.over]
        return Computed(value=value, slopes={(tree.aggregate, tree.over): np.ones(rows)}, most=np.nan_to_num(se))
    left, right = (_evaluated(part, leaves, rows) for part in tree.parts)
    a, b = left.value, right.value
    with np.errstate(divide="ignore", invalid="ignore"):
        if tree.op == "+":
            value, by_left, by_right = a + b, np.ones(rows), np.ones(rows)
        elif tree.op == "-":
            value, by_left, by_right = a - b, np.ones(rows), -np.ones(rows)
        elif tree.op == "*":
            value, by_left, by_right = a * b, b, a
        else:
            # A denominator that may be 0 has no useful ratio; its error is at most the sum of those of its leaves.
            sure = (b != 0) & (np.abs(b) >= CERTAIN_DENOMINATOR * right.most)
            value = np.where(sure, a / b, np.nan)
            by_left, by_right = np.where(sure, 1 / b, np.nan), np.where(sure, -a / b**2, np.nan)
        slopes: dict[Leaf, Floats] = {}
        for side, by in ((left, by_left), (right, by_right)):
            for leaf, slope in side.slopes.items():
                slopes[leaf] = slopes.get(leaf, np.zeros(rows)) + by * slope
        most = np.abs(np.nan_to_num(by_left)) * left.most + np.abs(np.nan_to_num(by_right)) * right.most
    return Computed(value=value, slopes=slopes, most=most)
