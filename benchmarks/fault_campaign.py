"""Kills, full disks, failing disks and changing sources, at every step of a publish.

A step is an event that Python reports to audit hooks while files are written (open, mkdir, rename, chmod, remove ...).
A forked child runs the publish and dies, or is told ENOSPC or EIO, at one step; the parent looks at what is left.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.methods.specifications import build
from sfumato.query import open_release
from sfumato.release.verify import verify

ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"])
METHODS = {
    "uniform": {"rho1": "1/5", "rho2": "1/3"},
    "anatomy": {"l": "3"},
    "splu": {"gamma": "3"},
    "small-domain": {"rho1": "1/5", "rho2": "1/2", "min_size": "100"},
    "l-diversity": {"l": "3"},
}
STEPS = ("open", "os.mkdir", "os.rename", "os.chmod", "os.remove", "os.rmdir", "os.link", "os.symlink", "shutil.rmtree")
REFUSED, PUBLISHED, UNCAUGHT = 40, 41, 42  # exit codes of a child


def table(rows: int = 400, seed: int = 1) -> pa.Table:
    """A small table of people."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": pa.array(rng.integers(18, 90, rows), pa.int16()),
            "sex": pa.array(np.where(rng.random(rows) < 0.5, "f", "m")),
            "disease": pa.array(np.array(list("abcdefgh"))[rng.integers(0, 8, rows)]),
        }
    )


def run(method: str, source: Path, out: Path, *, force: bool) -> int:
    """A publish in this process, as an exit code."""
    try:
        sf.publish(source, out, roles=ROLES, method=build(method, METHODS[method]), seed=1, force=force)
    except SfumatoError:
        return REFUSED
    except BaseException:
        return UNCAUGHT
    return PUBLISHED


def at_step(number: int, folder: Path, act: Callable[[], None]) -> Callable[[], int]:
    """Call `act` at the step of that number below the folder (0: never); the result counts steps."""
    seen = [0]
    below = str(folder)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in STEPS and any(isinstance(a, str | os.PathLike) and str(a).startswith(below) for a in arguments):
            seen[0] += 1
            if seen[0] == number:
                act()

    sys.addaudithook(hook)
    return lambda: seen[0]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(code: int) -> Callable[[], None]:
    def act() -> None:
        raise OSError(code, os.strerror(code))

    return act


def child(work: Callable[[], int]) -> int:
    """Exit code of the work in a forked child; negative: the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            os._exit(work())
        except BaseException:
            os._exit(UNCAUGHT)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def steps_of(method: str, source: Path, folder: Path, *, force: bool) -> int:
    """How many steps a whole publish takes; counted in a child."""
    read, write = os.pipe()

    def work() -> int:
        count = at_step(0, folder, die)
        code = run(method, source, folder / "out", force=force)
        os.write(write, str(count()).encode())
        return code

    code = child(work)
    assert code == PUBLISHED, code
    os.close(write)
    with os.fdopen(read) as pipe:
        return int(pipe.read())


def whole(release: Path) -> bool:
    """Whether the folder is a release that verifies; looked at in a child, because engines do not survive a fork."""

    def work() -> int:
        try:
            return PUBLISHED if list(verify(open_release(release).opened, test=True)) else REFUSED
        except SfumatoError:
            return REFUSED

    return child(work) == PUBLISHED


def judge(folder: Path, code: int, *, old: bytes | None, killed: bool) -> str | None:
    """What is wrong with what a run left behind; None if nothing is."""
    out = folder / "out"
    if code == UNCAUGHT:
        return "uncaught"
    if out.exists() and not whole(out):
        return "half release"
    if old is not None and not out.exists() and not _old_kept(folder):
        return "lost"
    if code == PUBLISHED and not out.exists():
        return "lost"
    left = [entry for entry in folder.iterdir() if entry.name not in {"out", "t.parquet"}]
    if not killed and left:
        return "left behind"
    if any(not e.name.startswith(".") or stat.S_IMODE(e.stat().st_mode) & 0o077 for e in left if _unfinished(e)):
        return "open to others"
    return None


def _unfinished(entry: Path) -> bool:
    return entry.is_dir() and not (entry / "release.json").exists()


def _old_kept(folder: Path) -> bool:
    """A kill between two renames leaves the old release under its temporary name."""
    return any(whole(entry) for entry in folder.iterdir() if entry.is_dir() and entry.name.startswith("."))


def trials(kinds: dict[str, Callable[[], None]], stride: int) -> Iterator[tuple[str, str, bool, int]]:
    """(kind, method, whether an old release is replaced, step)."""
    for method in METHODS:
        for force in (False, True):
            with tempfile.TemporaryDirectory() as scratch:
                folder, source = prepared(Path(scratch), method, force=force)
                most = steps_of(method, source, folder, force=force)
            for kind in kinds:
                for step in range(1, most + 1, stride):
                    yield kind, method, force, step


def prepared(scratch: Path, method: str, *, force: bool) -> tuple[Path, Path]:
    """A folder to publish into, with an old release if one is to be replaced, and a source elsewhere."""
    folder, source = scratch / "work", scratch / "t.parquet"
    folder.mkdir()
    child(lambda: pq.write_table(table(), source) or 0)
    if force:
        code = child(lambda: run(method, source, folder / "out", force=False))
        assert code == PUBLISHED, code
    return folder, source


def kills_and_faults(stride: int = 1) -> Counter[str]:
    """What was tried, and what went wrong (keys that begin with "!")."""
    kinds = {"kill": die, "ENOSPC": fail(errno.ENOSPC), "EIO": fail(errno.EIO)}
    found: Counter[str] = Counter()
    for kind, method, force, step in trials(kinds, stride):
        with tempfile.TemporaryDirectory() as scratch:
            folder, source = prepared(Path(scratch), method, force=force)
            old = (folder / "out" / "release.json").read_bytes() if force else None

            def work(act: Callable[[], None] = kinds[kind], folder: Path = folder, source: Path = source,
                     step: int = step, method: str = method, force: bool = force) -> int:  # fmt: skip
                at_step(step, folder, act)
                return run(method, source, folder / "out", force=force)

            code = child(work)
            found[kind] += 1
            wrong = judge(folder, code, old=old, killed=kind == "kill")
            if wrong:
                found[f"! {kind} at step {step} of {method}{' --force' if force else ''}: {wrong}"] += 1
    return found


def short_disks(sizes: int = 20) -> Counter[str]:
    """Files may not grow beyond a limit (RLIMIT_FSIZE), which the engine's own writes meet too."""
    found: Counter[str] = Counter()
    for limit in np.unique(np.geomspace(64, 200_000, sizes).astype(int)):
        with tempfile.TemporaryDirectory() as scratch:
            folder, source = prepared(Path(scratch), "uniform", force=False)

            def work(limit: int = int(limit), folder: Path = folder, source: Path = source) -> int:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                return run("uniform", source, folder / "out", force=False)

            code = child(work)
            found["short disk"] += 1
            wrong = judge(folder, code, old=None, killed=False)
            if wrong:
                found[f"! file limit {limit}: {wrong}"] += 1
    return found


def changes() -> dict[str, Callable[[Path], None]]:
    """Ways in which a source changes under a publish."""

    def rewrite(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
        return lambda path: pq.write_table(change(pq.read_table(path)), path)

    return {
        "rows appended": rewrite(lambda t: pa.concat_tables([t, t.slice(0, 7)])),
        "rows removed": rewrite(lambda t: t.slice(3)),
        "another value": rewrite(lambda t: t.set_column(2, "disease", pa.array(["z", *t["disease"].to_pylist()[1:]]))),
        "values exchanged": rewrite(lambda t: t.set_column(2, "disease", pa.array(t["disease"].to_pylist()[::-1]))),
        "a column less": rewrite(lambda t: t.drop_columns(["age"])),
        "another type": rewrite(lambda t: t.set_column(0, "age", t["age"].cast(pa.string()))),
        "cut short": lambda path: path.write_bytes(path.read_bytes()[:200]),
        "emptied": lambda path: path.write_bytes(b""),
        "removed": lambda path: path.unlink(),
    }


def changing_sources() -> Counter[str]:
    """The source changes before the first pass, between the passes, and before the files are described."""
    from sfumato.engines.duckdb.table import LocalTable
    from sfumato.release import bundle

    gaps = {"before counting": (LocalTable, "profile"), "between the passes": (LocalTable, "write"),
            "before describing": (bundle, "finish")}  # fmt: skip
    found: Counter[str] = Counter()
    for gap, (owner, name) in gaps.items():
        for what, change in changes().items():
            for method in METHODS:
                with tempfile.TemporaryDirectory() as scratch:
                    folder, source = prepared(Path(scratch), method, force=False)

                    def work(owner: object = owner, name: str = name, change: Callable[[Path], None] = change,
                             folder: Path = folder, source: Path = source, method: str = method) -> int:  # fmt: skip
                        plain = vars(owner)[name]

                        def changed(*arguments: object, **named: object) -> object:
                            change(source)
                            return plain(*arguments, **named)

                        setattr(owner, name, changed)
                        return run(method, source, folder / "out", force=False)

                    code = child(work)
                    found["source changed"] += 1
                    wrong = judge(folder, code, old=None, killed=False)
                    if wrong:
                        found[f"! {what} {gap}, {method}: {wrong}"] += 1
                    shutil.rmtree(folder, ignore_errors=True)
    return found
