"""Values to domain codes and back, on Arrow arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError, ReleaseError
from ..model.public import Codes, Domain, Integers, Listed, Scalar, SetWeights
from ..model.types import BOOLEAN, DOUBLE, SMALLINT, ColumnType, Kind
from ..model.types import INTEGER as WIDE

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999, from 1970


class Coder:
    """Codes the columns of one unit: `encode` gives positions in the domain, `decode` the columns again."""

    def __init__(self, domain: Domain, types: Mapping[str, pa.DataType]) -> None:
        self.domain = domain
        self.columns = {  # column -> its value for every code
            name: pa.array([v[j] for v in domain.values], type=types.get(name)) for j, name in enumerate(domain.columns)
        }
        self._distinct = [pc.unique(column) for column in self.columns.values()]
        self.types = {name: column.type for name, column in self.columns.items()}
        self.index = pa.from_numpy_dtype(np.min_scalar_type(-max(len(domain), 1)))  # of decoded columns: rows wait
        # Compound values, column by column: the numbers of the combinations that the domain has, sorted. A combination
        # goes on as its rank among them, so that numbers stay small however many columns there are.
        first, *others = (
            places(c, distinct) for c, distinct in zip(self.columns.values(), self._distinct, strict=True)
        )
        self._known: list[Integers] = []
        ranks = first.astype(np.int64)
        for code, distinct in zip(others, self._distinct[1:], strict=True):
            known, ranks = np.unique(ranks * len(distinct) + code, return_inverse=True)
            self._known.append(known)
        self._code = np.argsort(ranks).astype(np.int32)

    def encode(self, columns: list[pa.Array], rows: Integers | None = None) -> Codes:
        """Codes; refuses values outside the domain, counting their rows (`rows`: how many each of them stands for)."""
        result, *others = (places(column, distinct) for column, distinct in zip(columns, self._distinct, strict=True))
        if others:
            ranks, outside = result.astype(np.int64), result < 0
            for code, distinct, known in zip(others, self._distinct[1:], self._known, strict=True):
                joint = ranks * len(distinct) + code
                ranks = np.minimum(np.searchsorted(known, joint), len(known) - 1)
                outside |= (code < 0) | (known[ranks] != joint)
            result = np.where(outside, np.int32(-1), self._code[ranks])
        outside = result < 0
        if outside.any():
            count = int(np.count_nonzero(outside) if rows is None else rows[outside].sum())
            missing = any(column.filter(pa.array(outside)).null_count for column in columns)
            raise DataError(self._outside(count, missing=missing), column=self.domain.columns[0])
        return result

    def _outside(self, rows: int, *, missing: bool) -> str:
        """What to say of rows that the domain does not cover."""
        names = ", ".join(f'"{name}"' for name in self.domain.columns)
        hold = "1 row of {} holds" if rows == 1 else f"{rows:,} rows of {{}} hold"
        also = ", missing ones among them (an empty line of the file)" if missing else ""
        return f"{hold.format(names)} a value outside the domain; it must list every value that occurs{also}"

    def values_of(self, name: str) -> list[Scalar]:
        """Distinct values of one column of the domain, sorted, null last."""
        distinct = self._distinct[self.domain.columns.index(name)]
        return list(distinct.take(pc.sort_indices(distinct)).to_pylist())

    def decode(self, codes: Codes) -> list[pa.Array]:
        """The columns that the codes stand for, dictionary-encoded."""
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(self.domain):
            raise pa.ArrowIndexError("a code stands for no value of the domain")
        index = pa.array(codes.astype(self.index.to_pandas_dtype()))  # the library would look at all again, for longer
        return [pa.DictionaryArray.from_arrays(index, column, safe=False) for column in self.columns.values()]

    def take(self, codes: Codes | Integers) -> list[pa.Array]:
        """The columns that the codes stand for, as plain values."""
        return [column.take(pa.array(codes)) for column in self.columns.values()]


def arrow_type(kind: ColumnType) -> pa.DataType:
    """Arrow's type of a column of this type."""
    match kind.kind:
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.INTEGER:
            return pa.type_for_alias(f"{'' if kind.signed else 'u'}int{kind.bits}")
        case Kind.REAL:
            return pa.float32() if kind.bits == 32 else pa.float64()
        case Kind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
        case Kind.DATE:
            return pa.date32()
        case Kind.TIME:
            return pa.time64("us")
        case Kind.TIMESTAMP:
            return pa.timestamp(kind.unit, tz="UTC" if kind.zoned else None)
        case Kind.BYTES:
            return pa.binary()
    return pa.string()


def set_id_type(listed: Listed) -> ColumnType:
    """The type of the column that numbers the published sets."""
    return SMALLINT if len(listed) <= np.iinfo(np.int16).max else WIDE


def set_coder(listed: Listed) -> Coder:
    """Codes the column that numbers the published sets: code and number are the same."""
    numbers = Domain(columns=(listed.column,), values=tuple((z,) for z in range(len(listed))))
    return Coder(numbers, {listed.column: arrow_type(set_id_type(listed))})


def sets_table(found: SetWeights, numbers: Coder, values: Coder) -> pa.Table:
    """sets.parquet: a row for each set and value, with a column for each column of a compound value."""
    return pa.table(
        {
            **dict(zip(numbers.domain.columns, numbers.take(found.set_id), strict=True)),
            **dict(zip(value_columns(values.domain.columns), values.take(found.value), strict=True)),
            "member": found.member,
            "weight": found.weight,
            "variance_weight": found.variance_weight,
        }
    )


def sets_columns(listed: Listed, values: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """The columns of that table and their types; `values` are the columns of the unit."""
    named = dict(zip(value_columns(tuple(values)), values.values(), strict=True))
    numbers = {"member": BOOLEAN, "weight": DOUBLE, "variance_weight": DOUBLE}
    return {listed.column: set_id_type(listed), **named, **numbers}


def value_columns(columns: Sequence[str]) -> list[str]:
    """The columns of sets.parquet that hold the values of a unit with these columns."""
    return ["value"] if len(columns) == 1 else [f"value_{name}" for name in columns]


def factorise(column: pa.ChunkedArray | pa.Array) -> tuple[Codes, pa.Array]:
    """(group of every cell, value of every group), groups in sorted order, NULL last."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    distinct = pc.unique(array)
    distinct = distinct.take(pc.sort_indices(distinct))
    codes = pc.index_in(array, value_set=distinct)
    return codes.to_numpy(zero_copy_only=False).astype(np.int32), distinct


def part_numbers(column: pa.ChunkedArray | pa.Array, rows: int) -> Integers:
    """Numbers of sub-tables or groups, none of which is empty; ReleaseError for others, which no release has."""
    if column.null_count or not pa.types.is_integer(column.type):
        raise ReleaseError("a row of the release belongs to no group")
    numbers: Integers = column.to_numpy().astype(np.int64)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < rows:
        raise ReleaseError("a row of the release belongs to a group that cannot be")
    return numbers


def unreadable_dates(table: pa.Table) -> dict[str, int]:
    """Columns with dates or times that Python cannot hold (years below 1 or above 9999), and how many rows do."""
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            days = pc.cast(pc.cast(column, pa.timestamp("s"), safe=False), pa.int64(), safe=False)
            outside = pc.or_(pc.less(days, _FIRST_SECOND), pc.greater(days, _LAST_SECOND))
            rows = pc.sum(pc.cast(outside, pa.int64())).as_py() or 0
            if rows:
                found[name] = rows
    return found


def places(column: pa.Array | pa.ChunkedArray, distinct: pa.Array) -> Codes:
    """The place of every cell among different values, -1 where it is none of them; null matches null."""
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.empty(0, dtype=np.int32), *(places(chunk, distinct) for chunk in column.chunks)])
    if pa.types.is_dictionary(column.type):  # its values are looked up once, and a missing one behind them
        values = column.dictionary
        found = np.append(places(values, distinct), places(pa.nulls(1, values.type), distinct))
        return found[column.indices.fill_null(len(values)).to_numpy()]
    if column.type != distinct.type:
        try:
            column = column.cast(distinct.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the library's own message may quote a cell
            kinds = f"values of type {column.type}, its domain {distinct.type}"
            raise DataError(f"a column holds {kinds}") from None
    return pc.fill_null(pc.index_in(column, value_set=distinct), -1).to_numpy(zero_copy_only=False)
