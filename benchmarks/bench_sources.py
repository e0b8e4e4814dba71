"""Publishing the same rows from every kind of source: time as a ratio to Parquet, and peak memory."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from benchmarks import local_postgres
from benchmarks.bench_publish import METHODS, source
from benchmarks.measure import SFUMATO, Row, Run, median, python, run

SHEET = 1_000_000  # rows that are tried in a workbook at most

# Each writes the census table of argv[1] to argv[2].
WRITERS = {
    "csv": "con.execute(f\"COPY t TO '{out}' (FORMAT csv, HEADER)\")",
    "csv.gz": "con.execute(f\"COPY t TO '{out}' (FORMAT csv, HEADER, COMPRESSION gzip)\")",
    "csv.zst": "con.execute(f\"COPY t TO '{out}' (FORMAT csv, HEADER, COMPRESSION zstd)\")",
    "jsonl": "con.execute(f\"COPY t TO '{out}' (FORMAT json)\")",
    "orc": "import pyarrow.orc as orc; orc.write_table(pq.read_table(table), out)",
    "arrow": "import pyarrow.feather as f; f.write_feather(pq.read_table(table), out)",
    "sav": "import pyreadstat; pyreadstat.write_sav(con.sql('FROM t').df(), out)",
    "dta": "import pyreadstat; pyreadstat.write_dta(con.sql('FROM t').df(), out)",
    "duckdb": "con.execute(f\"ATTACH '{out}' AS d; CREATE TABLE d.people AS FROM t\")",
    "sqlite": (
        "import adbc_driver_sqlite.dbapi as a; c = a.connect(out); k = c.cursor(); "
        "k.adbc_ingest('people', con.sql('FROM t').to_arrow_reader(), mode='create'); c.commit()"
    ),
    "xlsx": (
        "import xlsxwriter; b = xlsxwriter.Workbook(out, {'constant_memory': True}); s = b.add_worksheet('people'); "
        "r = con.sql('FROM t'); s.write_row(0, 0, r.columns); "
        "[s.write_row(i, 0, row) for i, row in enumerate(r.fetchall(), 1)]; b.close()"
    ),
}
WRITE = """
import sys, duckdb, pyarrow.parquet as pq
table, out = sys.argv[1], sys.argv[2]
con = duckdb.connect()
con.execute(f"CREATE VIEW t AS FROM read_parquet('{table}')")
"""
TO_SERVER = (
    "import adbc_driver_postgresql.dbapi as a; c = a.connect(out); k = c.cursor(); "
    "k.adbc_ingest('people', con.sql('FROM t').to_arrow_reader(), mode='create'); c.commit()"
)
ADDRESSES = {"duckdb": "duckdb:///{}?table=people", "sqlite": "sqlite:///{}?table=people"}


def rows(folder: Path, *, n: int, repeat: int) -> list[Row]:
    """Parquet first, then every other source: ratio of times, and peak memory."""
    table = source(folder, n)
    found: list[Row] = []
    base = _published(str(table), folder, repeat)
    held = f"{max(r.peak_mib for r in base):.0f} MiB, processor {median([r.cpu_seconds for r in base]):.2f} s"
    found.append(Row(name="publish from parquet", value=median([r.seconds for r in base]), unit="s", note=held))
    with ExitStack() as stack:
        addresses = {}
        for kind, code in WRITERS.items():
            if kind == "xlsx" and n > SHEET:
                continue
            path = folder / f"census-{n}.{kind}"
            if not path.exists():
                python(WRITE + code, table, path)
            addresses[kind] = ADDRESSES.get(kind, "{}").format(path)
        address = _server(stack, table)
        if address:
            addresses["postgresql"] = address
        for kind, given in addresses.items():
            runs = _published(given, folder, repeat)
            ratio = median([r.seconds for r in runs]) / median([r.seconds for r in base])
            cpu = median([r.cpu_seconds for r in runs]) / median([r.cpu_seconds for r in base])
            note = f"{max(r.peak_mib for r in runs):.0f} MiB, processor {cpu:.2f} x"
            found.append(Row(name=f"publish from {kind} / parquet", value=ratio, unit="x", note=note))
    return found


def _published(given: str, folder: Path, repeat: int) -> list[Run]:
    out = folder / "from-source"
    command = (*SFUMATO, "publish", given, str(out), "--method", "uniform", *METHODS["uniform"][1])
    found = []
    for _ in range(repeat):
        shutil.rmtree(out, ignore_errors=True)
        found.append(run(command))
    return found


def _server(stack: ExitStack, table: Path) -> str | None:
    """A server of our own with the table; None where none can be started."""
    if local_postgres.missing():
        return None
    server = stack.enter_context(local_postgres.server())
    os.environ["PGPASSWORD"] = local_postgres.PASSWORD
    python(WRITE + TO_SERVER, table, server.address())
    return server.address(table="people")
