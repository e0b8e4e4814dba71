"""How many combinations some columns of Parquet files can have at most, by what their footers say of whole numbers.

DuckDB reads the footers: of some damaged ones pyarrow ends the process.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import duckdb

from .connection import plain_path

WHOLE = frozenset(f"{sign}{name}" for sign in ("", "U") for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"))
RANGES = """
SELECT path_in_schema, count(DISTINCT file_name), count(*),
    count(TRY_CAST(stats_min_value AS HUGEINT)), count(TRY_CAST(stats_max_value AS HUGEINT)),
    min(TRY_CAST(stats_min_value AS HUGEINT)), max(TRY_CAST(stats_max_value AS HUGEINT))
FROM parquet_metadata(?) WHERE list_contains(?, path_in_schema) GROUP BY ALL
"""


def most_combinations(
    con: duckdb.DuckDBPyConnection, files: Sequence[Path], kinds: Mapping[str, str], columns: Collection[str]
) -> int | None:
    """The product of the columns' ranges, a missing value counted; None where the footers do not tell all of them.

    `kinds` are DuckDB's types of the columns.
    """
    if not files or not all(kinds.get(name) in WHOLE for name in columns):
        return None
    try:
        found = con.execute(RANGES, [[plain_path(file.resolve()) for file in files], list(columns)]).fetchall()
    except duckdb.Error:
        return None
    if len(found) < len(columns) or any((of, least, most) != (len(files), n, n) for _, of, n, least, most, *_ in found):
        return None
    return math.prod(high - low + 2 for *_, low, high in found)
