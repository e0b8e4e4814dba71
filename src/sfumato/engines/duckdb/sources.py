"""Open whatever people have (files of many kinds, data frames, relations, readers, databases) as a DuckDB relation.

Messages of the reading libraries may quote cells of the table, so none of them is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ...errors import DataError, SpecError
from ...lazily import dataset as ds
from ...model.coarsening import in_order
from ..batches import ONCE, Batches, check_sound, of_function, of_iterator
from ..files import SAID, PrivateCopy, check_digits, check_names, check_same, files_of, kind_of, shown
from ..source import SCHEMES, Address, Source, address_of
from .columns import projected, recoded, typed, without_excess
from .connection import in_plain_types, plain_path, quoted
from .csv import csv_view
from .json import json_view
from .session import Allowance, Bind, SourceView

LABELLED = "titles and value labels of the file are published with the columns that are"


def view_of(source: Source, allowed: Allowance) -> SourceView:
    """How a session shows the source, and what is to be said about it."""
    view = _as_it_is(source, allowed)
    if source.types:
        view = typed(view, source.types)
    return recoded(view, in_order(source.recode)) if source.recode else view


def _as_it_is(source: Source, allowed: Allowance) -> SourceView:
    """The source before its columns are cast or made coarser."""
    given = source.given
    address = address_of(given)
    if address is not None:
        source.refuse("delimiter", "encoding", "null", "decimal", "dates", why="is for CSV files, not for a database")
        return _database(address, source)
    if isinstance(given, str) and re.match("[A-Za-z]+://", given) and not Path(given).exists():
        scheme = given.partition(":")[0]
        raise SpecError(
            f'there is no reader for addresses that begin with "{scheme}://"; there are {", ".join(SCHEMES)}',
            field="source",
        )
    source.refuse("query", why="goes with the address of a database")
    if isinstance(given, str | Path):
        return _of_files(files_of(str(given)), source, allowed)
    if isinstance(given, list | tuple) and given and all(isinstance(part, str | Path) for part in given):
        return _of_files([file for part in given for file in files_of(str(part))], source, allowed)
    source.refuse("delimiter", "encoding", "null", "decimal", "dates", why="is for CSV files only")
    source.refuse("table", why="goes with a database or a workbook")
    return _in_memory(given)


def _database(address: Address, source: Source) -> SourceView:
    """The rows of a database as of one moment, streamed through each pass."""
    from ..databases import snapshot_of

    found = snapshot_of(address, source)
    check_names(found.batches.schema.names)
    view = SourceView(bind=lambda con: con.from_arrow(found.batches), notes=found.notes)
    casts = {name: f"CAST({quoted(name)} AS {kind})" for name, kind in found.casts.items()}
    return projected(view, casts) if casts else view


def _in_memory(given: Any) -> SourceView:
    """Data frames, relations, and readers of batches."""
    if isinstance(given, duckdb.DuckDBPyRelation):
        check_names(given.columns)
        plain = in_plain_types(given)
        again = Batches(plain.limit(0).to_arrow_table().schema, plain.to_arrow_reader)
        return SourceView(bind=lambda con: con.from_arrow(again))
    if isinstance(given, pa.Table):
        check_names(given.column_names)
        check_digits(given.schema)
        return SourceView(bind=lambda con: con.from_arrow(given))
    if isinstance(given, pa.RecordBatchReader):
        return spooled(given, notes=(ONCE,))
    if isinstance(given, Iterator):
        return spooled(of_iterator(given), notes=(ONCE,))
    if type(given).__module__.split(".")[0] == "pandas":
        if type(given).__name__ != "DataFrame":
            raise SpecError(f"cannot read a table from a pandas {type(given).__name__}; give a DataFrame")
        check_names(list(given.columns))
        return SourceView(bind=lambda con: con.from_df(given))
    if isinstance(given, Callable):  # type: ignore[arg-type] # it can be asked of
        batches = of_function(given)
        check_names(batches.schema.names)
        check_digits(batches.schema)
        return SourceView(bind=lambda con: con.from_arrow(batches))
    return SourceView(bind=_frame_bind(given))


def _frame_bind(given: Any) -> Bind:
    import narwhals as nw

    try:
        frame = nw.from_native(given)
        table = (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_arrow()
    except TypeError:
        raise SpecError(
            f"cannot read a table from {type(given).__name__}; give a path, a list of paths, the address of a "
            "database, a pandas, Polars or Arrow table, a DuckDB relation, or a reader of Arrow batches"
        ) from None
    check_names(table.column_names)
    check_digits(table.schema)
    return lambda con: con.from_arrow(table)


def spooled(reader: pa.RecordBatchReader, notes: tuple[str, ...] = ()) -> SourceView:
    """The rows of a reader that can be read once, from a private copy."""
    check_names(reader.schema.names)
    check_digits(reader.schema)
    copy = PrivateCopy()
    path = str(copy.rows(reader.schema, (check_sound(batch, texts=True) for batch in reader)))

    def bind(con: duckdb.DuckDBPyConnection, _: object = copy) -> duckdb.DuckDBPyRelation:
        return con.read_parquet(path)

    return SourceView(bind=bind, notes=notes, utf8=True)


# --- files -------------------------------------------------------------------------------------------------


def _of_files(files: Sequence[str], source: Source, allowed: Allowance) -> SourceView:
    kinds = {kind_of(f) for f in files}
    if len(kinds) > 1:
        raise DataError("the files are of different kinds; give CSV, Parquet or Arrow files, not a mix")
    (kind,) = kinds
    if kind != "csv":
        source.refuse("delimiter", "null", "decimal", "dates", why="is for CSV files only")
    if kind not in {"csv", "statistics"}:
        source.refuse("encoding", why="is for files of text")
    if kind != "excel":
        source.refuse("table", why="goes with a database or a workbook")
    for file in files:
        _check_some(file)
    if kind == "csv":
        return csv_view(files, source, allowed)
    if kind == "json":
        return json_view(files, source)
    if kind in {"excel", "statistics"}:
        if len(files) > 1:
            raise DataError(f"{SAID[kind]} files are read one at a time; give one file")
        return without_excess(_by_extra(files[0], kind, source))
    check_same(files, kind)
    if kind == "parquet":
        plain = [plain_path(Path(file)) for file in files]
        return SourceView(
            utf8=True,
            bind=lambda con: con.read_parquet(plain, hive_partitioning=False, union_by_name=False, filename=False),
        )
    from pyarrow.fs import LocalFileSystem  # with it come those of clouds

    places = [str(Path(f).absolute()) for f in files]
    dataset = ds.dataset(places, format=kind, filesystem=LocalFileSystem())
    return SourceView(bind=lambda con: con.from_arrow(dataset))


def _by_extra(file: str, kind: str, source: Source) -> SourceView:
    """A file that an optional library reads."""
    if kind == "excel":
        from ..optional_files import sheet

        table = sheet(file, source.table)
        check_names(table.column_names, shown(file))
        return SourceView(bind=lambda con: con.from_arrow(table))
    from ..optional_files import statistics_file

    opened = statistics_file(file, source.encoding)
    return replace(spooled(opened.reader), labels=opened.labels, notes=(LABELLED,) if opened.labels else ())


def _check_some(file: str) -> None:
    try:
        with Path(file).open("rb") as handle:
            if not handle.read(1):
                raise DataError(f"{shown(file)} is empty")
    except OSError as error:
        raise DataError(f"cannot read {shown(file)}: {error.strerror}") from None
