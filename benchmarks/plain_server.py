"""The same server with plain DuckDB behind it: the rows of the release counted as they are, no noise undone.

python -m benchmarks.plain_server RELEASE PORT QUEUE
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import duckdb

from sfumato.web.analyst import application
from sfumato.web.catalogue import catalogue
from sfumato.web.questions import Question
from sfumato.web.server import Settings, cores, listen, run
from sfumato.web.workers import Reply


class PlainDesk:
    """Answers SQL from the data file, by DuckDB alone."""

    def __init__(self, data: Path) -> None:
        self._con = duckdb.connect()
        self._con.execute(f"CREATE VIEW release AS SELECT * FROM read_parquet('{data}')")

    def __call__(self, task: Question) -> Reply:
        rows = self._con.sql(task.sql).to_arrow_table().to_pylist()
        return Reply(body=json.dumps({"rows": rows}).encode(), kind="exact", rows=len(rows))


def main() -> None:
    """Serve until told to stop."""
    release, port, queue = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    settings = Settings(workers=cores(), queue=queue)
    app = application(catalogue([release]), settings, make=partial(PlainDesk, release / "data.parquet"))
    run(app, listen("127.0.0.1", port), patience=5)


if __name__ == "__main__":
    main()
