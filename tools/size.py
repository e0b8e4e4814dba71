"""`make size`: how much there is to read.

Lines and files of `src` by room, and two walks, traced as they run: what `publish --method subset-response` and `query`
enter of sfumato on the bundled table. Functions with a name are counted, once each; what only loads a module is not.

    python -m tools.size publish      # the functions of a walk, in the order in which they are first entered
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sfumato"
ROLES = ("--sa", "occupation", "--rest", "quasi", "--null-as-value", "--rho1", "1/5", "--rho2", "1/2", "--seed", "1")
QUESTION = "SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'Sales' GROUP BY sex"
WALKS = {
    "publish": ("publish", "adult.parquet", "out", "--method", "subset-response", *ROLES),
    "query": ("query", "out", QUESTION),
}


def rooms() -> dict[str, tuple[int, int]]:
    """Lines and files of every folder directly in the package; the modules beside them are the room "."."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else "."
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
        files[room] += 1
    return {room: (lines[room], files[room]) for room in sorted(files)}


def walks(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """(file, function) of all that each walk enters, in order, each in a process of its own, in an empty folder."""
    import pyarrow.parquet as pq

    from sfumato import datasets

    pq.write_table(datasets.adult(), folder / "adult.parquet")
    found = {}
    for name, command in WALKS.items():
        report = folder / f"{name}.json"
        run = [sys.executable, str(Path(__file__).resolve()), str(report), *command]
        subprocess.run(run, cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own command
        found[name] = [(file, function) for file, function in json.loads(report.read_text(encoding="utf-8"))]
    return found


def trace(report: Path, command: list[str]) -> None:
    """Run a command and write down the functions of sfumato that it enters, in any thread, as they are entered."""
    entered: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.setdefault(frame.f_code)

    os.cpu_count = lambda: 1  # with more, DuckDB calls back in threads of its own, where no call is noted
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        from sfumato.cli import main

        main(command)
    finally:
        sys.setprofile(None)
        report.write_text(json.dumps([*filter(None, map(_named, entered))]), encoding="utf-8")


def _named(code: CodeType) -> tuple[str, str] | None:
    """File and name of a function of sfumato; None for other code, module and class bodies, and nameless functions."""
    path = Path(code.co_filename)
    is_function = code.co_flags & inspect.CO_OPTIMIZED  # bodies of modules and classes are not
    if not is_function or code.co_name.startswith("<") or not path.is_relative_to(PACKAGE):
        return None
    return path.relative_to(PACKAGE).as_posix(), f"{code.co_qualname}:{code.co_firstlineno}"


def names(entered: list[tuple[str, str]]) -> Iterator[str]:
    """Dotted names of the functions of a walk, below the package."""
    for file, function in entered:
        module = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        yield f"{module}.{function.partition(':')[0]}"


def lines(walk: str | None = None) -> Iterator[str]:
    """Two tables: the rooms, and the walks; or the functions of one walk."""
    if walk is not None:
        with tempfile.TemporaryDirectory() as folder:
            yield from names(walks(Path(folder))[walk])
        return
    found = rooms()
    found["all"] = (sum(n for n, _ in found.values()), sum(n for _, n in found.values()))
    yield f"{'room':<14}{'lines':>8}{'files':>7}"
    yield from (f"{room:<14}{many:>8,}{files:>7}" for room, (many, files) in found.items())
    yield f"\n{'walk':<14}{'files':>8}{'functions':>11}"
    with tempfile.TemporaryDirectory() as folder:
        for name, entered in walks(Path(folder)).items():
            yield f"{name:<14}{len({file for file, _ in entered}):>8}{len(entered):>11}"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        trace(Path(sys.argv[1]), sys.argv[2:])
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines(*sys.argv[1:]))
