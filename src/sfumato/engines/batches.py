"""Rows as Arrow batches: sources that give them again, batches of one size, sound cells, Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import DataError, SpecError

# Rows as Arrow batches: sources that give them again, batches of one size, cells that may be published.


ONCE = "the source can be read once and publishing needs two passes; its rows were copied to the private folder"
BATCH_CELLS = 1 << 22  # of a batch of a wide table: several are under way at a time, each in several copies
GROUP_CELLS = 1 << 24  # of a row group, for each column of which there is something to do besides its cells
TEXT_BYTES = 1 << 26  # of text in a batch or a row group: of 131,072 rows, 512 bytes each
LEAST_ROWS = 1 << 10
OFFSETS = {pa.string(): np.int32, pa.binary(): np.int32, pa.large_string(): np.int64, pa.large_binary(): np.int64}
# Databases keep "infinity" in the last numbers of a type, which drivers may shift: beyond these no calendar goes.
ENDLESS = {"day": 2_147_000_000, "us": 9_220_000_000_000_000_000}
A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


class Batches:
    """Columns, and a fresh reader of all rows each time; an engine takes it for an Arrow stream."""

    def __init__(self, schema: pa.Schema, again: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        self.schema, self._again = schema, again

    def reader(self) -> pa.RecordBatchReader:
        """All rows from the first."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self._again()))

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)


def of_function(function: Callable[[], Any]) -> Batches:
    """The table that a function without arguments gives, each time it is called."""
    first = _reader(function())
    return Batches(first.schema, lambda: _reader(function()))


def _reader(given: Any) -> pa.RecordBatchReader:
    """A reader of what a function has returned."""
    if isinstance(given, pa.RecordBatchReader):
        return given
    if isinstance(given, pa.Table):
        return given.to_reader()
    if isinstance(given, Iterable):
        return of_iterator(iter(given))
    raise SpecError(
        f"the function must return a reader or an iterable of Arrow batches, not {type(given).__name__}", field="source"
    )


def of_iterator(batches: Iterator[Any]) -> pa.RecordBatchReader:
    """A reader of batches that come one by one; the first says what the columns are."""
    first = next(batches, None)
    if first is None:
        raise DataError("the source gives no batches; it needs one, even if that is empty")
    if not isinstance(first, pa.RecordBatch):
        raise SpecError(f"the source gives {type(first).__name__}, not Arrow batches", field="source")

    def all_of() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, all_of())


# --- batches of one size: equal input, equal batches


def rows_at_once(most: int, columns: int, cells: int) -> int:
    """How many rows of so many columns are taken at a time: `most`, or of wide tables as many as have so many cells."""
    return min(most, max(LEAST_ROWS, cells // max(columns, 1)))


def rows_in(most: int, size: float, rows: int, room: float) -> int:
    """How many rows are taken at a time where so many of them have that size: `most`, or as many as fit the room."""
    return most if size * most <= room * rows else max(1, int(room * rows / size))


def exactly(batches: Iterable[pa.RecordBatch], size: int, most_text: int | None = None) -> Iterator[pa.RecordBatch]:
    """The rows in batches of exactly `size`, but for the last, and for those whose text would be more than so many
    bytes, which have as many rows as fit: however they came, the same batches."""
    held: list[pa.RecordBatch] = []
    rows, text = 0, 0
    for batch in batches:
        held.append(batch)
        rows, text = rows + batch.num_rows, text + text_bytes(batch)
        while rows >= size or (most_text is not None and text > most_text):
            table = pa.Table.from_batches(held)
            fit = _fitting(table, min(rows, size), text, most_text)
            yield _one(table.slice(0, fit))
            held, rows = table.slice(fit).to_batches(), rows - fit
            text = sum(text_bytes(one) for one in held)
    if rows:
        yield _one(pa.Table.from_batches(held))


def text_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of the texts in the columns of text; told by where they begin and end, whatever their number."""
    kinds = ((j, kind) for j, kind in enumerate(batch.schema.types) if kind in OFFSETS)
    return sum(int(ends[-1]) - int(ends[0]) for j, kind in kinds if len(ends := _ends(batch.column(j), kind)))


def _ends(column: pa.Array, kind: pa.DataType) -> np.ndarray[tuple[int], np.dtype[np.signedinteger]]:
    """Where each text of a column begins, and the last ends."""
    whole = np.frombuffer(column.buffers()[1], dtype=OFFSETS[kind]) if len(column) else np.zeros(0, OFFSETS[kind])
    return whole[column.offset : column.offset + len(column) + 1]


def _fitting(table: pa.Table, rows: int, text: int, most: int | None) -> int:
    """How many of the first rows have that much text at most; one at least."""
    if most is None or text <= most:
        return rows
    first = table.slice(0, rows)
    total = np.zeros(rows, dtype=np.int64)
    for column, kind in zip(first.columns, first.schema.types, strict=True):
        if kind in OFFSETS:
            total += np.concatenate([np.diff(_ends(chunk, kind)) for chunk in column.chunks])
    return max(1, int(np.searchsorted(np.cumsum(total), most, side="right")))


def _one(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


# --- cells that no reader of the release could read are refused before they are published


def check_sound(rows: Rows, *, texts: bool) -> Rows:
    """The rows; DataError where a date is infinite, a time 24:00, or, with `texts`, bytes are no text.

    Texts are looked at where no engine has done so while it read them.
    """
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_date32(field.type) or pa.types.is_timestamp(field.type):
            _check_dates(field, column)
        elif pa.types.is_time(field.type):
            _check_times(field, column)
        elif texts and (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                message = f'column "{field.name}" holds text that is not UTF-8; mend the source, or leave it out'
                raise DataError(message, column=field.name) from None
    return rows


def _check_times(field: pa.Field, column: pa.Array | pa.ChunkedArray) -> None:
    latest = pc.max(column).value
    if latest is not None and latest >= A_DAY[field.type.unit]:
        message = f'column "{field.name}" holds the time 24:00, which no reader knows; turn it into text, or into 00:00'
        raise DataError(message, column=field.name)


def _check_dates(field: pa.Field, column: pa.Array | pa.ChunkedArray) -> None:
    end = ENDLESS.get("day" if pa.types.is_date32(field.type) else field.type.unit)
    found = pc.min_max(column)
    low, high = found["min"].value, found["max"].value
    if end is not None and low is not None and max(-low, high) >= end:
        message = f'column "{field.name}" holds an infinite date; turn it into null, or the column into text'
        raise DataError(message, column=field.name)


# --- Parquet files of a release: written, and read row by row


ROW_GROUP = 131_072  # rows; fewer of wide tables and of long texts
PIECE = TEXT_BYTES >> 3  # bytes of text in rows that are handed out at a time, of which there are several copies


def write_parquet(
    path: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    dictionaries: Mapping[str, pa.Array] | None = None,
    rising: Sequence[str] = (),
) -> None:
    """Write the batches to a new file, in row groups of one size.

    Columns with a dictionary come as codes into it; `rising` are whole numbers, which are written as differences.
    Nothing is kept of how rows were held in memory: statistics describe the published rows, and dictionaries are
    sorted, or in the order in which these rows show their values.
    """
    known = {name: _Dictionary(values) for name, values in (dictionaries or {}).items()}
    plain = pa.schema([(f.name, known[f.name].type if f.name in known else f.type) for f in schema])
    rows = rows_at_once(ROW_GROUP, len(schema), GROUP_CELLS)
    options = {
        "compression": "zstd",
        "compression_level": 1,
        "store_schema": False,
        "use_dictionary": [name for name in plain.names if name not in rising],
        "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
    }
    with pq.ParquetWriter(path, plain, **options) as writer:
        for batch in exactly(batches, rows, TEXT_BYTES):
            columns = [
                known[field.name].values(column) if field.name in known else column.cast(field.type)
                for field, column in zip(plain, batch.columns, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=plain))


class _Dictionary:
    """Values that codes stand for, of which some may be equal, or missing."""

    def __init__(self, values: pa.Array) -> None:
        distinct = pc.unique(values.drop_null())
        self._distinct = distinct.take(pc.sort_indices(distinct))
        self._places = pc.index_in(values, value_set=self._distinct)  # null where a value is missing
        self.type = pa.dictionary(pa.int32(), distinct.type)

    def values(self, codes: pa.Array) -> pa.DictionaryArray:
        """The values of these codes."""
        codes = codes.indices if pa.types.is_dictionary(codes.type) else codes
        return pa.DictionaryArray.from_arrays(self._places.take(codes), self._distinct)


def open_parquet(path: Path) -> pq.ParquetFile:
    """The file; its texts come as numbers and a dictionary: some kilobytes may repeat a long text a million times."""
    schema = pq.read_schema(path)
    return pq.ParquetFile(path, read_dictionary=[field.name for field in schema if field.type in OFFSETS])


def read_rows(paths: Sequence[Path], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of the files, one after the other, at most so many at a time and fewer of long texts."""
    for path in paths:
        with open_parquet(path) as file:
            for batch in file.iter_batches(rows):
                yield from written_out(batch)


def written_out(batch: pa.RecordBatch, room: int = PIECE) -> Iterator[pa.RecordBatch]:
    """The rows with their texts, as many at a time as have that many bytes of them; one at least."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
            sizes += np.append(lengths, 0)[column.indices.fill_null(len(lengths)).to_numpy()]
    upto, first = np.cumsum(sizes), 0
    while first < batch.num_rows:
        before = int(upto[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(upto, before + room, side="right")))
        some = batch.slice(first, last - first)
        columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in some.columns]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        first = last
