"""What was observed, sorted into strata: rows that agree on everything asked of untouched columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..engines.codes import factorise, narrow_part_numbers
from ..errors import QueryError
from ..model.array_counts import count_up
from ..model.part_cells import PartCells, PartCounts
from ..model.public import Codes, Floats
from ..sql.nodes import FALSE, TRUE, UNKNOWN, Query, Truth
from ..stats.joint_codes import distinct_rows, joint_ranks
from .layout import Layout
from .observation import Observation


def truth(column: pa.ChunkedArray | pa.Array) -> Truth:
    """A Boolean column as three-valued truth."""
    if not (pa.types.is_boolean(column.type) or pa.types.is_null(column.type)):
        raise QueryError("a condition must be true or false; compare the value with something")
    filled = (
        pc.fill_null(pc.cast(column, pa.int8()), -1).to_numpy(zero_copy_only=False)
        if isinstance(column, pa.Array)
        else (pc.fill_null(pc.cast(column, pa.int8()), -1).to_numpy())
    )
    return np.select([filled == 1, filled == 0], [TRUE, FALSE], UNKNOWN).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Frame:
    """A question and what was observed for it."""

    query: Query
    wanted: Observation
    seen: pa.Table
    place: Layout
    codes: Mapping[int, Codes]  # unit -> published code of every observed row
    labels: Mapping[int, pa.Array]  # unit key -> value of every group
    inside: PartCells | PartCounts | None = None  # how observed cells lie in the parts, where cells were observed


@dataclass(frozen=True, slots=True)
class Strata:
    """The observed rows sorted into strata; `patterns[b]` is the truth of the untouched leaves."""

    stratum: NDArray[np.intp]
    first: NDArray[np.intp]  # an observed row of every stratum
    pattern: NDArray[np.intp]
    patterns: NDArray[np.int8]
    value: NDArray[np.intp]
    part: NDArray[np.int64]
    moments: Floats
    positive: Floats
    keys: Mapping[int, tuple[Codes, pa.Array]]  # untouched key -> (group of every observed row, values)
    cell: NDArray[np.intp] | None = None  # number of every observed cell, where cells were observed
    numbers: Floats | None = None  # the measures of every observed row, where it has rows of one number each only


def sort_into_strata(frame: Frame) -> Strata:
    query, wanted, seen = frame.query, frame.wanted, frame.seen
    rows = seen.num_rows
    keys = {i: factorise(seen[name]) for i, name in wanted.keys.items()}
    leaf_truth = {i: truth(seen[name]) for i, name in wanted.leaves.items()}
    plain = [i for i, leaf in enumerate(query.leaves) if leaf.unit is None]
    patterns, pattern = distinct_rows([leaf_truth[i] for i in plain], rows)
    full = np.full((len(patterns), len(query.leaves)), UNKNOWN, dtype=np.int8)
    full[:, plain] = patterns
    stratum_rows, stratum = distinct_rows([*(codes for codes, _ in keys.values()), pattern], rows)
    first = np.zeros(len(stratum_rows), dtype=np.intp)
    if len(first) > 1:
        first[stratum[::-1]] = np.arange(rows)[::-1]
    value = np.zeros(rows, dtype=np.intp)
    for axis, u in enumerate(frame.place.units if wanted.raw or wanted.bits else ()):
        mine: NDArray[Any]
        if u in frame.place.sets and u in wanted.raw:
            mine = frame.codes[u]
        elif u in wanted.raw:
            mine = (
                frame.place.classes[axis][frame.codes[u]]
                if len(frame.place.classes[axis]) > frame.codes[u].max(initial=-1)
                else frame.codes[u]
            )
        elif u in wanted.bits:
            mine = _class_of_bits([leaf_truth[i] for i in wanted.bits[u]], frame.place, u, wanted.bits[u], rows)
        else:
            mine = np.zeros(rows, dtype=np.intp)
        value = value * frame.place.observed_shape[axis] + mine
    moments = _floats(seen, [f"m{j}" for j in range(len(wanted.moments))])
    positive = moments[:, :1]
    if wanted.positive:
        positive = np.column_stack([positive, _floats(seen, list(wanted.positive.values()))])
    if not (np.isfinite(moments).all() and np.isfinite(positive).all()):
        raise QueryError(
            "the question is about numbers that are infinite, not numbers (NaN) or too large; they have no error",
            sql=query.text,
            hint="Leave them out, for example: WHERE column BETWEEN -1e100 AND 1e100.",
        )
    return Strata(
        stratum=stratum,
        first=first,
        pattern=pattern[first],
        patterns=full,
        value=value,
        part=_array(seen[wanted.part]).astype(np.int64, copy=False) if wanted.part else np.zeros(rows, dtype=np.int64),
        moments=moments,
        positive=positive,
        keys=keys,
        cell=None if wanted.cell is None else seen[wanted.cell].to_numpy().astype(np.intp),
        numbers=np.column_stack([np.ones(rows), _floats(seen, wanted.numbers)]) if wanted.numbers else None,
    )


def _floats(table: pa.Table, names: Sequence[str]) -> Floats:
    """Columns side by side; the sums of no rows, which are NULL, count as 0."""
    columns = [pc.fill_null(table[n], 0.0) if table[n].null_count else table[n] for n in names]
    arrays = [_array(column) for column in columns]
    if len(arrays) == 1:
        return arrays[0][:, None]
    return np.stack(arrays, axis=1) if arrays else np.zeros((table.num_rows, 0))


def _array(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column without nulls; of one chunk without a copy, which takes longer than what is done with it."""
    return column.combine_chunks().to_numpy()


def in_parts(seen: pa.Table, wanted: Observation, rows: int) -> pa.Table:
    """What was observed, added up by part where that was left to us; ReleaseError for parts that cannot be."""
    part = narrow_part_numbers(seen[wanted.part], rows) if wanted.part else None
    if part is None or not wanted.by_row:
        return seen
    if not wanted.keys and not wanted.leaves:
        return _add_up_parts(seen, part)
    return seen if "m0" in seen.column_names else seen.append_column("m0", pa.array(np.ones(len(part))))


def _add_up_parts(rows: pa.Table, part: NDArray[np.integer]) -> pa.Table:
    """The sums of every column by `part`; a table without row weights has one row of weight 1 each."""
    count = np.zeros(int(part.max(initial=-1)) + 1, dtype=np.int32)
    count_up(count, (part,))
    there = np.flatnonzero(count)
    columns = {"part": there, "m0": count[there].astype(float)}
    for name in rows.column_names[1:]:
        columns[name] = np.bincount(part, weights=rows[name].to_numpy())[there]
    return pa.table(columns)


def _class_of_bits(bits: list[Truth], place: Layout, u: int, leaves: tuple[int, ...], rows: int) -> NDArray[np.intp]:
    """The class whose values have the observed truth of every leaf."""
    axis = place.units.index(u)
    classes = len(place.firsts[axis])
    both = [  # classes first, then rows; ranked together, so that equal patterns get equal numbers
        np.concatenate([place.views[u].leaves[i][place.firsts[axis]].astype(np.int64), bit.astype(np.int64)])
        for i, bit in zip(leaves, bits, strict=True)
    ]
    joint, _ = joint_ranks([bit - bit.min(initial=0) for bit in both], classes + rows)
    stated, found = joint[:classes], joint[classes:]
    order = np.argsort(stated)
    return order[np.searchsorted(stated[order], found)]


def key_columns(
    frame: Frame,
    strata: Strata,
    keys: tuple[int, ...],
    groups: NDArray[Any],
    plain: list[int],
    combos: list[tuple[int, ...]],
) -> dict[str, pa.Array]:
    """Columns k0, k1 ... of the output rows; NULL for keys outside this grouping set."""
    rows = len(groups) * len(combos)
    of_unit = [i for i in keys if frame.query.keys[i].unit is not None]
    columns: dict[str, pa.Array] = {}
    for i, key in enumerate(frame.query.keys):
        values = frame.labels[i] if key.unit is not None else strata.keys[i][1]
        if i not in keys:
            columns[f"k{i}"] = pa.nulls(rows, type=values.type)
        elif key.unit is not None:
            picks = np.array([c[of_unit.index(i)] for c in combos], dtype=np.int64)
            columns[f"k{i}"] = values.take(pa.array(np.tile(picks, len(groups))))
        else:
            picks = groups[:, plain.index(i)].astype(np.int64)
            columns[f"k{i}"] = values.take(pa.array(np.repeat(picks, len(combos))))
    return columns
