"""Tables of awkward shapes: many columns, many cells, many values, wide CSV. Whole processes, beside DuckDB's copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_publish import RHO
from benchmarks.measure import SFUMATO, Row, Run, median, python, run

CSV_TARGET = 1.5  # times DuckDB's own CSV into a shuffled Parquet file

WIDE = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq, pyarrow.csv as csv
rng, (rows, columns) = np.random.default_rng(1), map(int, sys.argv[2:4])
table = pa.table({f"c{j}": rng.integers(0, 90, rows).astype("int16") for j in range(columns)}
                 | {"occupation": rng.integers(0, 50, rows).astype("int16")})
csv.write_csv(table, sys.argv[1]) if sys.argv[1].endswith(".csv") else pq.write_table(table, sys.argv[1])
"""
CELLS = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
rng, (rows, values) = np.random.default_rng(1), map(int, sys.argv[2:4])
whom = np.arange(rows)
rng.shuffle(whom)
table = {"place": whom // 1000, "born": whom % 1000, "occupation": rng.integers(0, values, rows)}
pq.write_table(pa.table(table), sys.argv[1])
"""
COPY = """
import sys, duckdb
read = "read_csv" if sys.argv[1].endswith(".csv") else "read_parquet"
shuffled = f"SELECT * FROM {read}('{sys.argv[1]}') ORDER BY random()"
duckdb.connect(config={"threads": 2}).execute(f"COPY ({shuffled}) TO '{sys.argv[2]}' (FORMAT parquet)")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A table: how it is made, its rows, and how many columns or values it has."""

    name: str
    file: str
    code: str
    rows: int
    many: int
    methods: tuple[str, ...] = ("uniform",)
    target: float | None = None


SHAPES = (
    Shape(name="1,000 columns, 20,000 rows", file="wide.parquet", code=WIDE, rows=20_000, many=1_000),
    Shape(
        name="1 million cells of quasi-identifiers",
        file="cells.parquet",
        code=CELLS,
        rows=1_000_000,
        many=50,
        methods=("uniform", "subset-response", "anatomy", "l-diversity"),
    ),
    Shape(
        name="15,000 sensitive values, 300,000 rows",
        file="values.parquet",
        code=CELLS,
        rows=300_000,
        many=15_000,
        methods=("uniform", "small-domain"),
    ),
    Shape(name="CSV, 295,243 rows, 9 columns", file="long.csv", code=WIDE, rows=295_243, many=8, target=CSV_TARGET),
    Shape(name="CSV, 2,000 columns, 2,000 rows", file="wide.csv", code=WIDE, rows=2_000, many=2_000, target=CSV_TARGET),
)
OPTIONS = {"anatomy": ("--l", "6"), "l-diversity": ("--l", "6")}


def rows(folder: Path, *, repeat: int) -> list[Row]:
    """For each shape and method: seconds of `sfumato publish` as a ratio to DuckDB's copy in random order, in turns."""
    found: list[Row] = []
    for shape in SHAPES:
        table = folder / shape.file
        if not table.exists():
            python(shape.code, table, shape.rows, shape.many)
        for method in shape.methods:
            out = folder / "release-shape"
            given = ("--method", method, *OPTIONS.get(method, RHO))
            command = (*SFUMATO, "publish", str(table), str(out), "--sa", "occupation", "--rest", "quasi", *given)
            copies, releases = list[Run](), list[Run]()
            try:
                for _ in range(repeat):
                    copies.append(python(COPY, table, folder / "copied.parquet"))
                    releases.append(run((*command, "--force")))
            except RuntimeError as error:
                found.append(Row(name=f"{shape.name}, {method}", value=float("nan"), unit="x", note=str(error)[-160:]))
                continue
            took, copied = (median([one.seconds for one in runs]) for runs in (releases, copies))
            work, least = (median([one.cpu_seconds for one in runs]) for runs in (releases, copies))
            note = f"{took:.2f} s against {copied:.2f} s; processor {work:.1f} s against {least:.1f} s; "
            note += f"{max(one.peak_mib for one in releases):.0f} MiB"
            ratio = took / copied
            found.append(Row(name=f"{shape.name}, {method}", value=ratio, unit="x", target=shape.target, note=note))
    return found
