"""Write a table to try things on: `python -m sfumato.datasets adult OUT` or `... census OUT --rows N --seed S`."""

from __future__ import annotations

import argparse

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from . import adult, census


def main() -> None:
    """Write Parquet, or CSV where the name says so."""
    parser = argparse.ArgumentParser(prog="python -m sfumato.datasets", description=__doc__)
    parser.add_argument("table", choices=("adult", "census"))
    parser.add_argument("out", help="file to write; .csv gives CSV, anything else Parquet")
    parser.add_argument("--rows", type=int, default=100_000, help="of census (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of census (default %(default)s)")
    asked = parser.parse_args()
    reader = adult().to_reader() if asked.table == "adult" else census(asked.rows, asked.seed)
    with _writer(asked.out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def _writer(out: str, schema: pa.Schema) -> pq.ParquetWriter | pyarrow.csv.CSVWriter:
    if out.endswith(".csv"):
        return pyarrow.csv.CSVWriter(out, schema)
    return pq.ParquetWriter(out, schema, compression="zstd")


if __name__ == "__main__":
    main()
