"""Open whatever people have (files of many kinds, data frames, relations, readers, databases) as a DuckDB relation.

Messages of the reading libraries may quote cells of the table, so none of them is passed on.
"""

from __future__ import annotations

import codecs
import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ...errors import DataError, SpecError
from ...model.public import Labels
from ..batches import ONCE, Batches, check_sound, of_function, of_iterator
from ..files import (
    SAID,
    PrivateCopy,
    check_digits,
    check_names,
    check_options,
    check_same,
    compression_of,
    files_of,
    in_plain,
    kind_of,
    shown,
    unpacked,
)
from ..source import MORE_DIGITS, SCHEMES, Address, Source, address_of
from .columns import projected, without_excess
from .connection import Allowance, Bind, SourceView, connect, in_plain_types, plain_path, quoted
from .csv import csv_view

LABELLED = "titles and value labels of the file are published with the columns that are"


def view_of(source: Source, allowed: Allowance) -> SourceView:
    """How a session shows the source, before its columns are cast or made coarser, and what is to be said of it."""
    given = source.given
    address = address_of(given)
    if address is not None:
        check_options(source, "database")
        return _database(address, source)
    if isinstance(given, str) and re.match("[A-Za-z]+://", given) and not Path(given).exists():
        scheme = given.partition(":")[0]
        raise SpecError(
            f'there is no reader for addresses that begin with "{scheme}://"; there are {", ".join(SCHEMES)}',
            field="source",
        )
    if isinstance(given, str | Path):
        return _of_files(files_of(str(given)), source, allowed)
    if isinstance(given, list | tuple) and given and all(isinstance(part, str | Path) for part in given):
        return _of_files([file for part in given for file in files_of(str(part))], source, allowed)
    check_options(source, "memory")
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
    check_options(source, kind)
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
    import pyarrow.dataset as ds  # it loads pandas

    dataset = ds.dataset(places, format=kind, filesystem=LocalFileSystem())
    return SourceView(bind=lambda con: con.from_arrow(dataset))


def _by_extra(file: str, kind: str, source: Source) -> SourceView:
    """A file that an optional library reads."""
    if kind == "excel":
        table = sheet(file, source.table)
        check_names(table.column_names, shown(file))
        return SourceView(bind=lambda con: con.from_arrow(table))

    opened = statistics_file(file, source.encoding)
    return replace(spooled(opened.reader), labels=opened.labels, notes=(LABELLED,) if opened.labels else ())


# --- JSON lines: one object a line, types from all of them


MARK = codecs.BOM_UTF8
NEWLINES = "newline_delimited"
KINDS = ("BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "TIME", "UUID", "HUGEINT", "UBIGINT")
PLAIN = {*KINDS, "TIMESTAMP WITH TIME ZONE"}


def json_view(files: Sequence[str], source: Source) -> SourceView:
    """The files as one table. A column that holds several kinds of values, or objects, is refused."""
    plain, kept = in_plain(files, "utf-8-sig", copied=any(_begins(file).startswith(MARK) for file in files))
    paths = [plain_path(Path(file)) for file in plain]
    options: dict[str, Any] = {"compression": compression_of(plain[0]), "format": NEWLINES, "hive_partitioning": False}
    if not _lines(paths):
        options["format"] = "array"
    try:
        with connect() as con:
            found = con.read_json(paths, sample_size=-1, union_by_name=True, **options)  # type: ignore[arg-type] # it takes lists
            types = {name: str(kind) for name, kind in zip(found.columns, found.types, strict=True)}
            rows = found.aggregate("count(*)").fetchall()[0][0]
    except duckdb.Error:
        raise DataError("the file cannot be read as JSON lines: one object a line, all with the same names") from None
    check_names(list(types))
    if not rows or list(types) == ["json"]:
        raise DataError("the JSON file holds no rows, or its rows are not objects with names")
    for name, kind in types.items():
        if kind == "JSON" and name in source.types:
            types[name] = "VARCHAR"
        elif kind == "JSON":
            raise DataError(
                f'column "{name}" holds values of several kinds, or none; say which it shall be with --types',
                column=name,
            )
        elif kind not in PLAIN:
            raise DataError(f'column "{name}" holds lists or objects; leave it out, or make it plain', column=name)

    wide = _wide(paths, types, options)
    types |= dict.fromkeys(wide, "VARCHAR")

    def bind(con: duckdb.DuckDBPyConnection, _: object = kept) -> duckdb.DuckDBPyRelation:
        return con.read_json(paths, columns=types, **options)  # type: ignore[arg-type] # it takes lists

    notes = tuple(f'"{name}" {MORE_DIGITS}' for name in wide if name not in source.types)
    return SourceView(bind=bind, notes=notes, utf8=True)


def _wide(paths: list[str], types: Mapping[str, str], options: Mapping[str, Any]) -> list[str]:
    """Columns of real numbers that hold whole ones of more digits than a real number has."""
    real = [name for name, kind in types.items() if kind == "DOUBLE"]
    if not real:
        return []
    tests = [f"count(CASE WHEN regexp_matches({quoted(name)}, '^-?[0-9]{{16,}}$') THEN 1 END)" for name in real]
    try:
        with connect() as con:
            texts = con.read_json(paths, columns=dict.fromkeys(real, "VARCHAR"), **options)  # type: ignore[arg-type] # it takes lists
            counts = texts.aggregate(", ".join(tests)).fetchall()[0]
    except duckdb.Error:
        raise DataError("the file cannot be read as JSON lines: one object a line, all with the same names") from None
    return [name for name, count in zip(real, counts, strict=True) if count]


def _begins(file: str) -> bytes:
    with unpacked(file) as handle:
        return handle.read(64)


def _lines(paths: list[str]) -> bool:
    """Whether the first character that is no space begins an object, not a list of them."""
    return not _begins(paths[0]).lstrip().startswith(b"[")


# --- files that an optional library reads: workbooks by fastexcel, files of SPSS, Stata and SAS by pyreadstat
#
# A sheet is held in memory. The statistics packages know real numbers, texts and dates, of which rows come in chunks,
# and labels, which become a codebook; a text without a character is what they write for a missing one.


NO_FASTEXCEL = "reading Excel needs the extra: pip install 'sfumato[files]'"
NO_PYREADSTAT = "reading SPSS, Stata and SAS needs the extra: pip install 'sfumato[files]'"
CHUNK = 50_000  # rows
READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def sheet(file: str, name: str | None) -> pa.Table:
    """One sheet as a table; its first row names the columns. Without a name, the only sheet."""
    try:
        import fastexcel
    except ImportError:
        raise SpecError(NO_FASTEXCEL, field="source") from None
    said = f'"{Path(file).name}"'
    try:
        book = fastexcel.read_excel(file)
        sheets = list(book.sheet_names)
    except Exception:  # of a library that may quote cells, in errors of its own
        raise DataError(f"{said} is damaged or not a readable workbook") from None
    if name is None and len(sheets) > 1:
        raise SpecError(f"{said} has {len(sheets)} sheets: {', '.join(sheets)}; name one with --table", field="table")
    if name is not None and name not in sheets:
        raise SpecError(f'{said} has no sheet "{name}"; its sheets: {", ".join(sheets)}', field="table")
    wanted = name if name is not None else sheets[0]
    try:
        header = pa.record_batch(
            book.load_sheet(wanted, header_row=None, n_rows=1, schema_sample_rows=None, dtypes="string")
        )
        rows = pa.record_batch(book.load_sheet(wanted, schema_sample_rows=None))
    except Exception:  # as above
        raise DataError(f"the sheet of {said} cannot be read as a table with a first row of names") from None
    names = [column[0].as_py() if len(column) else None for column in header.columns]
    if not names or any(n is None or not n.strip() for n in names) or len(names) != rows.num_columns:
        raise DataError(f"the first row of {said} must name every column")
    if not rows.num_rows:
        raise DataError(f"{said} has a first row of names and no others")
    fields = [pa.field(n, f.type) for n, f in zip(names, rows.schema, strict=True)]
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(rows.columns, schema=pa.schema(fields))])


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """The rows, to be read once, and what the file says about its columns."""

    reader: pa.RecordBatchReader
    labels: Mapping[str, Labels]


def statistics_file(file: str, encoding: str | None) -> StatisticsFile:
    """The table in the file; rows are read when asked for."""
    try:
        import pyreadstat
    except ImportError:
        raise SpecError(NO_PYREADSTAT, field="source") from None
    read = vars(pyreadstat)[READERS[Path(file).suffix.lower()]]
    options: dict[str, Any] = {"output_format": "dict"}
    if encoding is not None and Path(file).suffix.lower() != ".por":
        options["encoding"] = encoding

    def rows(offset: int, limit: int, **some: Any) -> tuple[dict[str, list[Any]], Any]:
        try:
            found: tuple[dict[str, list[Any]], Any] = read(file, row_offset=offset, row_limit=limit, **options, **some)
        except Exception:  # of a library that may quote cells, in errors of its own
            raise DataError(f'"{Path(file).name}" is damaged or not a readable file of its kind') from None
        return found

    first, meta = rows(0, CHUNK)
    if not first or not any(len(column) for column in first.values()):
        raise DataError(f'"{Path(file).name}" holds no rows')

    def later(name: str) -> Any:
        """The first cell of a column that is missing in all of the first rows."""
        offset, cells = 0, first[name]
        while len(cells) == CHUNK and all(cell is None for cell in cells):
            offset += CHUNK
            cells = rows(offset, CHUNK, usecols=[name])[0].get(name, [])
        return next((cell for cell in cells if cell is not None), None)

    text = {name for name, kind in meta.readstat_variable_types.items() if kind == "string"}
    kinds = {name: pa.string() if name in text else _kind(later(name)) for name in first}
    schema = pa.schema([pa.field(name, kind) for name, kind in kinds.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        chunk, offset = first, 0
        while True:
            size = max((len(column) for column in chunk.values()), default=0)
            if size:
                yield pa.RecordBatch.from_arrays([_column(chunk[f.name], f) for f in schema], schema=schema)
            if size < CHUNK:
                return
            offset += size
            chunk, _ = rows(offset, CHUNK)

    return StatisticsFile(reader=pa.RecordBatchReader.from_batches(schema, batches()), labels=_labels(meta))


def _kind(some: Any) -> pa.DataType:
    """Arrow's type of a column of numbers, dates or times, from the first that there is."""
    if isinstance(some, datetime.datetime):
        return pa.timestamp("us")
    if isinstance(some, datetime.date):
        return pa.date32()
    return pa.time64("us") if isinstance(some, datetime.time) else pa.float64()


def _column(cells: list[Any], field: pa.Field) -> pa.Array:
    try:
        if pa.types.is_string(field.type):
            return pa.array([cell or None for cell in cells], type=field.type)
        return pa.array(cells, type=field.type, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        message = f'column "{field.name}" begins with values of one kind and goes on with others'
        raise DataError(message, column=field.name) from None


def _labels(meta: Any) -> dict[str, Labels]:
    """Titles and value labels by column; whole codes as whole numbers."""
    found = {}
    for name in meta.column_names:
        text = meta.readstat_variable_types.get(name) == "string"  # letters among numbers mark missing ones
        given = {v: t for v, t in meta.variable_value_labels.get(name, {}).items() if isinstance(v, str) == text}
        values = tuple(
            (int(v) if isinstance(v, float) and v.is_integer() else v, str(text)) for v, text in given.items()
        )
        title = meta.column_names_to_labels.get(name) or None
        if values or title:
            found[name] = Labels(title=title, values=values)
    return found
