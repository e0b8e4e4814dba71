"""A release in a database (SQLite, DuckDB, PostgreSQL), as CSV, as a workbook, or for SPSS or Stata."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from ..engines.duckdb.connection import quoted
from ..engines.source import Address
from ..errors import ReleaseError, SpecError
from ..model.names import free_name
from ..release.manifest import ColumnModel
from .contents import WARNING, WEIGHT, Contents, UnitWeights, flat

# --- databases: rows, weights, and views in which ordinary SQL gives estimates


MISSING = "writing to this database needs the extra: pip install 'sfumato[databases]'"
SCHEMA = "sfumato_release"
RELEASE, SIDE, WEIGHTS, ESTIMATES, ABOUT = "release", "sensitive", "weights", "estimates", "about"
VARIANCE = "variance"
Ingest = Callable[[str, pa.Schema, Iterator[pa.RecordBatch]], None]


def view(weights: UnitWeights, rows: list[str], name: str, same: str) -> str:
    """CREATE VIEW: every row once for each value that it may have, with its weight.

    `same` compares two cells, of which both may be missing.
    """
    on = [f"r.{quoted(weights.part)} = w.{quoted(weights.part)}"] if weights.part else []
    equal = same if weights.nullable else "="
    on += [f"r.{quoted(n)} {equal} w.{quoted(s)}" for n, s in zip(weights.columns, weights.shown, strict=False)]
    kept = [f"r.{quoted(n)}" for n in rows if n not in weights.columns]
    true = [f"w.{quoted(n)}" for n in weights.columns]
    w = f"w.{quoted(weights.weight)}"
    weight, variance = (quoted(free_name(n, (*rows, *weights.columns))) for n in (WEIGHT, VARIANCE))
    extra = [f"{w} AS {weight}", f"{w} * ({w} - 1) AS {variance}" if weights.errors else f"NULL AS {variance}"]
    table = WEIGHTS + name.removeprefix(ESTIMATES)
    return (
        f"CREATE VIEW {quoted(name)} AS SELECT {', '.join([*kept, *true, *extra])} "
        f"FROM {quoted(RELEASE)} AS r JOIN {quoted(table)} AS w ON {' AND '.join(on)}"
    )


def names_of(weights: tuple[UnitWeights, ...]) -> list[str]:
    """What follows "weights" and "estimates" in the names of each unit's table and view: nothing where it is one."""
    return [""] if len(weights) == 1 else ["_" + "_".join(w.columns) for w in weights]


def _write(contents: Contents, ingest: Ingest, run: Callable[[str], object], same: str) -> None:
    """All tables and views, in an order in which they can be made."""
    ingest(RELEASE, contents.schema, contents.rows())
    if contents.side is not None:
        side = flat(contents.side)
        ingest(SIDE, side.schema, iter(side.to_batches()))
    for ending, weights in zip(names_of(contents.weights), contents.weights, strict=True):
        ingest(WEIGHTS + ending, weights.table.schema, iter(weights.table.to_batches()))
        run(view(weights, contents.schema.names, ESTIMATES + ending, same))
    about = pa.table({"key": list(contents.about), "value": list(contents.about.values())})
    ingest(ABOUT, about.schema, iter(about.to_batches()))


def to_duckdb(contents: Contents, path: Path) -> None:
    """A new DuckDB file."""
    try:
        with duckdb.connect(str(path)) as con:
            con.execute("SET enable_progress_bar=false")

            def ingest(name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
                con.register("given", pa.RecordBatchReader.from_batches(schema, batches))
                con.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM given")
                con.unregister("given")

            con.execute("BEGIN")
            _write(contents, ingest, con.execute, "IS NOT DISTINCT FROM")
            con.execute("COMMIT")
    except duckdb.Error:
        raise ReleaseError("DuckDB could not write the release; nothing was exported") from None


def to_sqlite(contents: Contents, path: Path) -> None:
    """A new SQLite file."""
    try:
        import adbc_driver_sqlite.dbapi as driver
    except ImportError:
        raise SpecError(MISSING, field="target") from None
    try:
        with driver.connect(f"file:{path}") as con, con.cursor() as cursor:
            _write(contents, _ingesting(cursor, _for_sqlite), cursor.execute, "IS")
            con.commit()
    except driver.Error:
        raise ReleaseError("SQLite could not write the release; nothing was exported") from None


def to_postgresql(contents: Contents, address: Address) -> None:
    """A new schema in a PostgreSQL database, in one transaction; it is named by ?table=, else sfumato_release."""
    try:
        import adbc_driver_postgresql.dbapi as driver
    except ImportError:
        raise SpecError(MISSING, field="target") from None
    schema = address.table or SCHEMA
    try:
        con = driver.connect(address.uri)
    except driver.Error:
        raise ReleaseError(
            "the PostgreSQL server cannot be reached, or refuses the user; a password is read from PGPASSWORD, "
            "PGPASSFILE or ~/.pgpass"
        ) from None
    try:
        with con, con.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA {quoted(schema)}")
            cursor.execute(f"SET LOCAL search_path TO {quoted(schema)}")
            _write(contents, _ingesting(cursor, flat), cursor.execute, "IS NOT DISTINCT FROM")
            contents.release.check_unchanged()
            con.commit()
    except driver.Error as error:
        if error.sqlstate == "42P06":
            raise ReleaseError(
                f'the database has a schema "{schema}"; name another with ?table=NAME at the end of the address'
            ) from None
        raise ReleaseError("PostgreSQL could not write the release; nothing was exported") from None


def _ingesting(cursor: Any, made: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Ingest:
    """Streams batches into a new table."""

    def ingest(name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        empty = made(pa.RecordBatch.from_pylist([], schema=schema))
        reader = pa.RecordBatchReader.from_batches(empty.schema, (made(batch) for batch in batches))
        cursor.adbc_ingest(name, reader, mode="create")

    return ingest


def _for_sqlite(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dates and times as ISO texts, decimals as numbers, booleans as 0 and 1: what SQLite calculates with."""
    batch = flat(batch)
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        kind = field.type
        if pa.types.is_temporal(kind):
            kind = pa.string()
        elif pa.types.is_decimal(kind) or pa.types.is_floating(kind):
            kind = pa.float64()
        elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            kind = pa.string() if pa.types.is_uint64(kind) else pa.int64()  # a whole number of SQLite has a sign
        columns.append(column.cast(kind))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


# --- CSV files, one Excel workbook, or a file of SPSS or Stata with titles and value labels


EXCEL_MISSING = "writing Excel needs the extra: pip install 'sfumato[files]'"
DIGITS = 15  # of a number in a sheet
LONGEST_CELL = 32_767  # characters of a cell; the library would cut the rest off
LONGEST_SHEET_NAME = 31  # characters of a sheet's name
MOST_ROWS = 1_048_575  # of a sheet, beside its header
STATISTICS_MISSING = "writing SPSS and Stata needs extras: pip install 'sfumato[files]' pandas"
LONGEST_NAME = {".sav": 64, ".dta": 32}  # characters of a name
TITLE = 80
RESERVED = frozenset(["all", "and", "by", "eq", "ge", "gt", "le", "lt", "ne", "not", "or", "to", "with"])  # of SPSS
RESERVED |= frozenset(["byte", "double", "float", "if", "in", "int", "long", "str", "strl", "using"])  # of Stata
RESERVED |= {f"str{length}" for length in range(1, 2046)}


def _tables(contents: Contents) -> list[tuple[str, pa.Schema, Iterable[pa.RecordBatch]]]:
    """(name, columns, rows) of everything but the rows."""
    found = []
    if contents.side is not None:
        side = flat(contents.side)
        found.append((SIDE, side.schema, side.to_batches()))
    for ending, weights in zip(names_of(contents.weights), contents.weights, strict=True):
        found.append((WEIGHTS + ending, weights.table.schema, weights.table.to_batches()))
    return found


def csv_endings(contents: Contents) -> list[str]:
    """What follows the stem of the rows' file in the names of the files beside it."""
    names, taken = [name for name, *_ in _tables(contents)], set[str]()
    return [f"-{_free(_plain(name), taken)}.csv" for name in names]


def to_csv(contents: Contents, path: Path, beside: Sequence[Path]) -> None:
    """The rows in `path`; other tables in files beside it, as many as `csv_endings`."""
    everything = [(RELEASE, contents.schema, contents.rows()), *_tables(contents)]
    for place, (_, schema, batches) in zip((path, *beside), everything, strict=True):
        empty = flat(pa.RecordBatch.from_pylist([], schema=schema), texts=True)
        with pacsv.CSVWriter(place, empty.schema) as writer:
            for batch in batches:
                writer.write_batch(flat(batch, texts=True))


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_ " else "_" for c in name)


def to_excel(contents: Contents, path: Path) -> None:
    """One workbook: rows, what leaves by group, weights, and what to know about them."""
    try:
        import xlsxwriter
    except ImportError:
        raise SpecError(EXCEL_MISSING, field="target") from None
    if contents.release.manifest.rows > MOST_ROWS:
        raise ReleaseError(f"a sheet of Excel holds {MOST_ROWS:,} rows; export this release as CSV")
    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "tmpdir": str(path.parent),
    }
    book = xlsxwriter.Workbook(str(path), options)
    day, moment = book.add_format({"num_format": "yyyy-mm-dd"}), book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
    sheets = [(RELEASE, contents.schema, contents.rows()), *_tables(contents)]
    taken = {ABOUT}
    for name, schema, batches in sheets:
        sheet = book.add_worksheet(_free(_plain(name)[:LONGEST_SHEET_NAME], taken))
        sheet.write_row(0, 0, schema.names)
        try:
            _fill(sheet, batches, day, moment)
        except ReleaseError:
            book.close()  # it holds files open
            raise
    about = book.add_worksheet(ABOUT)
    for row, pair in enumerate(contents.about.items()):
        about.write_row(row, 0, pair)
    try:
        book.close()
    except OSError as error:
        raise ReleaseError(f"the workbook cannot be written: {error.strerror}") from None


def _fill(sheet: Any, batches: Iterable[pa.RecordBatch], day: Any, moment: Any) -> None:
    """The rows below the first."""
    row = 1
    for batch in batches:
        for cells in zip(*[column.to_pylist() for column in flat(batch, texts=True).columns], strict=True):
            for place, cell in enumerate(cells):
                _put(sheet, row, place, cell, day, moment)
            row += 1


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken yet, in any case; it is now."""
    others = (f"{name[: LONGEST_SHEET_NAME - 4]}-{number}" for number in range(2, len(taken) + 3))
    found = next(free for free in (name, *others) if free.lower() not in taken)
    taken.add(found.lower())
    return found


def _put(sheet: Any, row: int, place: int, cell: Any, day: Any, moment: Any) -> None:
    if cell is None:
        return
    if isinstance(cell, datetime.datetime):
        sheet.write_datetime(row, place, cell.replace(tzinfo=None), moment)
    elif isinstance(cell, datetime.date):
        sheet.write_datetime(row, place, datetime.datetime.combine(cell, datetime.time()), day)
    elif isinstance(cell, bool):
        sheet.write_boolean(row, place, cell)
    elif isinstance(cell, int | float | decimal.Decimal):
        exact = isinstance(cell, float) or len(str(abs(cell)).replace(".", "").strip("0")) <= DIGITS
        if exact and math.isfinite(cell):
            sheet.write_number(row, place, float(cell))
        else:  # a sheet knows no other numbers
            sheet.write_string(row, place, str(cell))
    elif isinstance(cell, datetime.time):
        sheet.write_string(row, place, str(cell))
    elif len(cell) > LONGEST_CELL:
        raise ReleaseError(f"a cell of Excel holds {LONGEST_CELL:,} characters; export this release as CSV")
    else:
        sheet.write(row, place, cell)


# --- SPSS and Stata --------------------------------------------------------------------------------------------------


def to_statistics(contents: Contents, path: Path, ending: str) -> None:
    """One file of the published rows; names that the package does not allow become titles."""
    try:
        import pandas as pd
        import pyreadstat
    except ImportError:
        raise SpecError(STATISTICS_MISSING, field="target") from None
    table = pa.Table.from_batches([flat(batch, texts=True) for batch in contents.rows()]).drop_columns(
        contents.schema.names[:1]
    )
    columns = {c.name: c for c in contents.release.manifest.columns}
    names = allowed_names(table.column_names, LONGEST_NAME[ending])
    titles = [
        (columns[n].title if n in columns else None) or (n if names[n] != n else None) for n in table.column_names
    ]
    stored = {n: _as_stored(table[n]) for n in table.column_names}
    labels = {names[n]: _labels(columns[n], stored[n].type) for n in table.column_names if n in columns}
    frame = pd.DataFrame({names[n]: _pandas(stored[n]) for n in table.column_names})
    warning = f"sfumato release: {WARNING}"
    options: dict[str, Any] = {
        "file_label": warning[:TITLE],
        "column_labels": [title[:TITLE] if title else None for title in titles],
        "variable_value_labels": {name: found for name, found in labels.items() if found},
    }
    if ending == ".sav":
        options["note"] = [warning[:TITLE], warning[TITLE:]]
    write = pyreadstat.write_sav if ending == ".sav" else pyreadstat.write_dta
    try:
        write(frame, str(path), **options)
    except Exception:
        raise ReleaseError(f"the release cannot be written as a {ending} file; export it as CSV") from None


def _as_stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers as real ones, which are all that these packages know, or as texts where digits would be lost."""
    kind = column.type
    if pa.types.is_decimal(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(pa.float64() if _exact(column) else pa.string())
    if pa.types.is_string(kind) and pc.any(pc.match_substring(column, "\0")).as_py():
        raise ReleaseError("a text holds a NUL character, at which SPSS and Stata would cut it off; export it as CSV")
    return column


def _pandas(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.to_pandas().astype(object)
    return column.to_pandas(date_as_object=True)


def _exact(column: pa.ChunkedArray) -> bool:
    """Whether every number is one that a real number stands for: in all its digits, where it is a decimal one."""
    if pa.types.is_boolean(column.type):
        return True
    low, high = (found.as_py() for found in pc.min_max(column).values())
    scale = column.type.scale if pa.types.is_decimal(column.type) else 0
    return low is None or max(abs(low), abs(high)) * 10**scale < (2**53 if not scale else 10**15)


def _labels(column: ColumnModel, kind: pa.DataType) -> dict[Any, str]:
    """Labels whose values are of the column's own kind."""
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return {v.value: v.label for v in column.labels or () if v.value is not None and isinstance(v.value, str) == text}


def allowed_names(names: list[str], longest: int) -> dict[str, str]:
    """Names of letters, digits and underscores that are all different, by the names of the columns."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[:longest] or "column"
        plain = plain if plain[0].isalpha() and plain.lower() not in RESERVED else f"v{plain}"[:longest]
        made, number = plain, 1
        while made.lower() in taken:
            number += 1
            made = f"{plain[: longest - 4]}_{number}"
        taken.add(made.lower())
        found[name] = made
    return found
