"""How long `import sfumato` and `sfumato --help` take, and until `publish` and `query` begin their work."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.bench_publish import METHODS, publish, source
from benchmarks.measure import SFUMATO, Row, median, python, run

METHOD, FEW = "uniform", 300_000  # rows of the table

IMPORT = """
import json, sys, time
before = len(sys.modules)
start = time.perf_counter()
import sfumato
print(json.dumps({"seconds": time.perf_counter() - start, "modules": len(sys.modules) - before}))
"""
# Both commands begin by a thread: it reads rows, or compares digests, beside loading what plans and answers. The table
# is opened by one of its own, which starts the one that reads, and the database by another.
BEGIN = """
import atexit, json, os, sys, threading, time
began = float(sys.argv.pop())
begin = threading.Thread.start
def start(thread):
    if thread._target.__name__ in ("_open", "_connect"):
        return begin(thread)
    print(json.dumps({"seconds": time.time() - began}), flush=True)
    atexit._run_exitfuncs()
    os._exit(0)
threading.Thread.start = start
from sfumato.cli import program
program()
"""


def rows(folder: Path, *, repeat: int) -> list[Row]:
    """Medians over repeated processes, after one that warms the disk cache."""
    python(IMPORT)
    imports = [python(IMPORT).result for _ in range(max(5, repeat))]
    helps = [run((*SFUMATO, "--help")).seconds for _ in range(max(5, repeat))]
    modules = f"{imports[0]['modules']:.0f} modules"
    seconds = median([one["seconds"] for one in imports])
    table, release = source(folder, FEW), folder / "release-begun"
    publish(table, release, METHOD)
    begun = {
        "publish: rows are being read": (
            "publish",
            table,
            folder / "not-written",
            "--method",
            METHOD,
            *METHODS[METHOD][1],
        ),
        "query: files are being read": ("query", release, "SELECT COUNT(*) FROM release WHERE occupation = 3"),
    }
    return [
        Row(name="import sfumato", value=seconds, unit="s", target=0.3, note=modules),
        Row(name="sfumato --help", value=median(helps), unit="s", target=0.5),
        *(Row(name=name, value=_begun(words, max(5, repeat)), unit="s", target=0.35) for name, words in begun.items()),
    ]


def _begun(words: tuple[object, ...], repeat: int) -> float:
    """Seconds from the start of the process to that of its first thread."""
    return median([python(BEGIN, *words, time.time()).result["seconds"] for _ in range(repeat)])
