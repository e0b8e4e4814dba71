"""How long `import sfumato` and `sfumato --help` take, and how many modules they load."""

from __future__ import annotations

from benchmarks.measure import SFUMATO, Row, median, python, run

IMPORT = """
import json, sys, time
before = len(sys.modules)
start = time.perf_counter()
import sfumato
print(json.dumps({"seconds": time.perf_counter() - start, "modules": len(sys.modules) - before}))
"""


def rows(*, repeat: int) -> list[Row]:
    """Medians over repeated processes, after one that warms the disk cache."""
    python(IMPORT)
    imports = [python(IMPORT).result for _ in range(max(5, repeat))]
    helps = [run((*SFUMATO, "--help")).seconds for _ in range(max(5, repeat))]
    modules = f"{imports[0]['modules']:.0f} modules"
    seconds = median([one["seconds"] for one in imports])
    return [
        Row(name="import sfumato", value=seconds, unit="s", target=0.3, note=modules),
        Row(name="sfumato --help", value=median(helps), unit="s", target=0.5),
    ]
