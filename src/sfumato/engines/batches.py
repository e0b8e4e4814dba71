"""Rows as Arrow batches: sources that give them again, batches of one size, sound cells, Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import DataError, SpecError

# Rows as Arrow batches: sources that give them again, batches of one size, cells that may be published.


ONCE = "the source can be read once and publishing needs two passes; its rows were copied to the private folder"
BATCH_CELLS = 1 << 22  # of a batch of a wide table: several are under way at a time, each in several copies
GROUP_CELLS = 1 << 24  # of a row group, for each column of which there is something to do besides its cells
TEXT_BYTES = 1 << 26  # of text in a batch or a row group: of 131,072 rows, 512 bytes each
LEAST_ROWS = 1 << 10
TEXTS = {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()}
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


def exactly(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The rows in batches of exactly `size`, but for the last, and for those whose text would be more than
    TEXT_BYTES, which have as many rows as fit: however they came, the same batches."""
    held: list[pa.RecordBatch] = []
    rows, text = 0, 0
    for batch in batches:
        upto, first = np.cumsum(text_bytes(batch)), 0
        while first < batch.num_rows:
            before = int(upto[first - 1]) if first else 0
            fit = int(np.searchsorted(upto, before + TEXT_BYTES - text, side="right"))  # the last row that fits
            last = min(first + size - rows, max(fit, first + (not held)))
            held += [batch.slice(first, last - first)] if last > first else []
            rows, text = rows + last - first, text + int(upto[last - 1]) - before if last > first else text
            if rows == size or last < batch.num_rows:
                yield _one(held)
                held, rows, text = [], 0, 0
            first = last
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def text_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Bytes of the texts of every row."""
    found = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if column.type in TEXTS:
            found += pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return found


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
        for batch in exactly(batches, rows):
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
    return pq.ParquetFile(path, read_dictionary=[field.name for field in schema if field.type in TEXTS])


def read_rows(paths: Sequence[Path], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of the files, one after the other, at most so many at a time and fewer of long texts."""
    for path in paths:
        with open_parquet(path) as file:
            for batch in file.iter_batches(rows):
                yield from written_out(batch)


def written_out(batch: pa.RecordBatch, room: int = PIECE) -> Iterator[pa.RecordBatch]:
    """The rows with their texts, as many at a time as have that many bytes of them; one at least."""
    coded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    longest = sum(pc.max(pc.binary_length(column.dictionary)).as_py() or 0 for column in coded)
    step = max(1, room // max(longest, 1))
    for first in range(0, batch.num_rows, step):
        some = batch.slice(first, step)
        columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in some.columns]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
