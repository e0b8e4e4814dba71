"""From counted combinations of cells to a profile: domains, codes and histograms, the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError, SpecError
from ..model.private import Histogram, JointCells, Needs, Profile
from ..model.public import Domain, Scalar
from ..model.types import ColumnType, Kind
from ..stats.joint_codes import distinct_rows
from .codes import Coder, factorise, unreadable_dates

ROWS = "__rows__"  # how many rows a combination has
CELL = "__cell__"  # number of its quasi-identifier cell

Types = Mapping[str, ColumnType]
ArrowTypes = Mapping[str, pa.DataType]


def profile_of(
    tables: Sequence[pa.Table],
    needs: Needs,
    declared: Mapping[str, Sequence[Scalar]],
    types: Types,
    arrow: ArrowTypes,
    *,
    null_as_value: bool,
) -> Profile:
    """The profile, from one table of combinations and their `ROWS` for each joint of the needs."""
    domains: dict[int, Domain] = {}
    for joint, table in zip(needs.joints, tables, strict=True):
        for u in joint:
            if u not in domains:
                looked_at = not needs.changed[u] and u not in needs.sensitive
                domains[u] = _domain(needs.units[u], table, declared, types, arrow, nulls=null_as_value or looked_at)
    ordered = tuple(domains[u] for u in range(len(needs.units)))
    coders = [Coder(d, arrow) for d in ordered]
    histograms = []
    for joint, table in zip(needs.joints, tables, strict=True):
        counts = table[ROWS].to_numpy().astype(np.int64)
        codes = [coders[u].encode([table[c] for c in needs.units[u]], counts) for u in joint]
        histograms.append(Histogram(codes=np.stack(codes, axis=1).astype(np.int32), true_counts=counts))
    rows = int(histograms[0].true_counts.sum())
    return Profile(rows=rows, domains=ordered, histograms=tuple(histograms), sensitive=needs.sensitive)


def joint_cells(
    table: pa.Table, sensitive: Sequence[Domain], looked_at: Mapping[int, Domain], arrow: ArrowTypes
) -> JointCells:
    """Quasi-identifier cells and sensitive values, from a table of combinations with `CELL` and `ROWS`."""
    codes = [Coder(d, arrow).encode([table[c] for c in d.columns]) for d in sensitive]
    rows = np.stack(codes, axis=1) if codes else np.zeros((table.num_rows, 1), dtype=np.int32)  # one value for all
    values, value = np.unique(rows, axis=0, return_inverse=True)
    return JointCells(
        codes=values.astype(np.int32),
        value=value.reshape(-1).astype(np.int64),
        cell=table[CELL].to_numpy().astype(np.int64),
        true_counts=table[ROWS].to_numpy().astype(np.int64),
        looked_at={u: Coder(d, arrow).encode([table[c] for c in d.columns]) for u, d in looked_at.items()},
    )


def _domain(
    columns: tuple[str, ...],
    table: pa.Table,
    declared: Mapping[str, Sequence[Scalar]],
    types: Types,
    arrow: ArrowTypes,
    *,
    nulls: bool,
) -> Domain:
    """The values of a unit, as declared or as they occur, sorted."""
    for name in columns:
        _check_cells(name, table[name], table[ROWS], types[name], nulls=nulls)
    for name, rows in unreadable_dates(table.select(list(columns))).items():
        raise DataError(f'"{name}" has {rows} different dates outside the years 1 to 9999', column=name)
    said = [name for name in columns if name in declared]
    if said and len(said) < len(columns):
        raise SpecError(f'declare the domain of every sensitive column or of none; "{said[0]}" alone is declared')
    if said:
        values = [tuple(_typed(name, declared[name], arrow[name])) for name in columns]
        grid = np.meshgrid(*[np.arange(len(v)) for v in values], indexing="ij")
        cells = zip(*[[values[j][k] for k in g.ravel()] for j, g in enumerate(grid)], strict=True)
        return Domain(columns=columns, values=tuple(cells), declared=True)
    # not by the library's group_by, which loads its query engine and with that pandas
    coded = [factorise(table[name]) for name in columns]
    codes, _ = distinct_rows([code for code, _ in coded], table.num_rows)
    shown = [values.take(pa.array(codes[:, j])).to_pylist() for j, (_, values) in enumerate(coded)]
    return Domain(columns=columns, values=tuple(zip(*shown, strict=True)))


def _check_cells(name: str, column: pa.ChunkedArray, counts: pa.ChunkedArray, kind: ColumnType, *, nulls: bool) -> None:
    """Nothing; DataError where the column holds what no domain can."""
    if kind.kind is Kind.BYTES or kind.unit == "ns":  # they have no exact form in JSON
        raise DataError(f'column "{name}" has type {kind}; turn it into text, numbers or dates', column=name)
    if pa.types.is_floating(column.type):
        odd = pc.sum(pc.filter(counts, pc.invert(pc.is_finite(column)))).as_py()
        if odd:
            message = f'{odd} rows of "{name}" are NaN or infinite; turn them into null or into numbers'
            raise DataError(message, column=name)
    missing = pc.sum(pc.filter(counts, pc.is_null(column))).as_py()
    if missing and not nulls:
        raise DataError(
            f'{missing} rows have no value in "{name}"; fill them, drop them, or make missing a value of '
            "its own with --null-as-value",
            column=name,
        )


def _typed(name: str, values: Sequence[Scalar], kind: pa.DataType) -> list[Scalar]:
    """Declared values in the column's own type, sorted, null last."""
    try:
        array = pc.unique(pc.cast(pa.array(list(values)), kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise SpecError(f'the declared domain of "{name}" does not fit its type {kind}', field="domain") from None
    return array.take(pc.sort_indices(array)).to_pylist()
