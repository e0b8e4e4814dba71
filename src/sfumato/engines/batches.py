"""A table that comes as Arrow batches and can be read again: what a database or a function gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from ..errors import DataError, SpecError

ONCE = "the source can be read once and publishing needs two passes; its rows were copied to the private folder"


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
