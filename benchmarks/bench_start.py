"""How long `import sfumato` takes, and until a command looks for what it works on."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench_publish import ONE, OPTIONS
from benchmarks.measure import SFUMATO, Row, median, python, run

REPEAT = 5
IMPORT = """
import json, time
start = time.perf_counter()
import sfumato
print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def rows(folder: Path) -> list[Row]:
    """Medians over repeated processes, after one that warms the disk cache.

    A command begins its work by looking for its table or release: whole processes are measured that find none.
    """
    python(IMPORT)
    missing = str(folder / "missing.parquet")
    published = ("publish", missing, str(folder / "out"), "--method", "subset-response")
    begun = {
        "publish begins its work": (*published, *ONE, *OPTIONS["subset-response"]),
        "query begins its work": ("query", missing, "SELECT COUNT(*) FROM release WHERE occupation = 3"),
    }
    imported = median([python(IMPORT).result["seconds"] for _ in range(REPEAT)])
    return [
        Row(name="import sfumato", value=imported, unit="s", budget=0.3),
        *(
            Row(
                name=name,
                value=median([run((*SFUMATO, *words), code=2).seconds for _ in range(REPEAT)]),
                unit="s",
                budget=1.0,
            )
            for name, words in begun.items()
        ),
    ]
