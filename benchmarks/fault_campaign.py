"""Kills, full disks, failing disks and changing sources, at every step of a publish.

A step is an event that Python reports to audit hooks while files are written (open, mkdir, rename, chmod, remove ...),
or a sync. A forked child runs the publish and dies, or is told ENOSPC or EIO, at one step; the
parent looks at what is left, and whether it is what the child said.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build
from sfumato.query import open_release
from sfumato.release.verify import verify

ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"])
METHODS = {name: dict(method.example.options) for name, method in REGISTRY.items()}
STEPS = ("open", "os.mkdir", "os.rename", "os.chmod", "os.remove", "os.rmdir", "os.link", "os.symlink", "shutil.rmtree",
         "sync")  # fmt: skip
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
        if event in STEPS and any(path.startswith(below) for path in _paths(arguments)):
            seen[0] += 1
            if seen[0] == number:
                act()

    _report_more()
    sys.addaudithook(hook)
    return lambda: seen[0]


def _paths(arguments: tuple[object, ...]) -> Iterator[str]:
    """The paths among the arguments of an event; the last one may be a folder that the first is relative to."""
    folder = arguments[-1] if isinstance(arguments[-1], int) and arguments[-1] >= 0 else None
    for given in arguments:
        if isinstance(given, str | os.PathLike):
            path = Path(given)
            yield str(path if folder is None or path.is_absolute() else _opened(folder) / path)


def _opened(handle: int) -> Path:
    """What an open handle stands for; nothing that lies anywhere where it is not one."""
    try:
        return Path(f"/proc/self/fd/{handle}").readlink()
    except OSError:
        return Path()


def _report_more() -> None:
    """Syncs become events too; Python does not report them."""
    fsync = os.fsync

    def reported_fsync(handle: int) -> None:
        sys.audit("sync", _opened(handle))
        fsync(handle)

    os.fsync = reported_fsync


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


def warm() -> None:
    """Import what runs import, without starting an engine: children are forked, and then need not."""
    read, write = os.pipe()
    with tempfile.TemporaryDirectory() as scratch:
        source, out = Path(scratch) / "t.parquet", Path(scratch) / "out"

        def work() -> int:
            pq.write_table(table(), source)
            codes = [run(method, source, out / method, force=False) for method in METHODS]
            list(verify(open_release(out / "anatomy").opened, test=True))  # here: engines do not survive a fork
            os.write(write, "\n".join(sys.modules).encode())
            return max(codes)

        out.mkdir()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            os._exit(work())
        os.close(write)
        with os.fdopen(read) as pipe:
            names = pipe.read().split("\n")
        os.waitpid(pid, 0)
    for name in names:
        with suppress(ImportError):
            import_module(name)


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


def judge(folder: Path, code: int, *, old: int | None, killed: bool) -> str | None:
    """What is wrong with what a run left behind; None if nothing is. `old` is the inode of a release to replace."""
    out = folder / "out"
    if code == UNCAUGHT:
        return "uncaught"
    if out.exists() and not whole(out):
        return "half release"
    if old is not None and not out.exists() and not _old_kept(folder):
        return "lost"
    if code == PUBLISHED and (not out.exists() or out.stat().st_ino == old):
        return "said to be published, and is not"
    if code == REFUSED and (out.exists() if old is None else not out.exists() or out.stat().st_ino != old):
        return "said not to be published, and is"
    left = [entry for entry in folder.iterdir() if entry.name != "out"]
    if not killed and left:
        return "left behind"
    if any(not e.name.startswith(".") or stat.S_IMODE(e.stat().st_mode) & 0o077 for e in left if _unfinished(e)):
        return "open to others"
    return None


def _unfinished(entry: Path) -> bool:
    return entry.is_dir() and not entry.name.endswith(".old") and not (entry / "release.json").exists()


def _old_kept(folder: Path) -> bool:
    """A kill between two renames leaves the old release under its temporary name."""
    return any(whole(entry) for entry in folder.iterdir() if entry.is_dir() and entry.name.startswith("."))


def prepared(scratch: Path, method: str, *, force: bool) -> tuple[Path, Path]:
    """A folder to publish into, with an old release if one is to be replaced, and a source elsewhere."""
    folder, source = scratch / "work", scratch / "t.parquet"
    folder.mkdir()
    child(lambda: pq.write_table(table(), source) or 0)
    if force:
        code = child(lambda: run(method, source, folder / "out", force=False))
        assert code == PUBLISHED, code
    return folder, source


def kills_and_faults(
    stride: int = 1, methods: Sequence[str] = tuple(METHODS), found: Counter[str] | None = None
) -> Counter[str]:
    """What was tried, and what went wrong (keys that begin with "!"): each kind at each step."""
    kinds = {"kill": die, "ENOSPC": fail(errno.ENOSPC), "EIO": fail(errno.EIO)}
    found = Counter() if found is None else found
    for method in methods:
        for force in (False, True):
            with tempfile.TemporaryDirectory() as scratch:
                clean, source = prepared(Path(scratch), method, force=force)
                counted = shutil.copytree(clean, Path(scratch) / "counted")
                most = steps_of(method, source, counted, force=force)
                for kind, act in kinds.items():
                    for step in range(1, most + 1, stride):
                        folder = shutil.copytree(clean, Path(scratch) / f"{kind}-{step}")
                        wrong = _one(method, source, folder, force=force, step=step, act=act, killed=kind == "kill")
                        found[kind] += 1
                        if wrong:
                            found[f"! {kind} at step {step} of {method}{' --force' if force else ''}: {wrong}"] += 1
                        shutil.rmtree(folder)
    return found


def _one(
    method: str, source: Path, folder: Path, *, force: bool, step: int, act: Callable[[], None], killed: bool
) -> str | None:
    """What is wrong after one run that meets `act` at the step."""
    old = (folder / "out").stat().st_ino if force else None

    def work() -> int:
        at_step(step, folder, act)
        return run(method, source, folder / "out", force=force)

    return judge(folder, child(work), old=old, killed=killed)


def short_disks(sizes: int = 20, found: Counter[str] | None = None) -> Counter[str]:
    """Files may not grow beyond a limit (RLIMIT_FSIZE), which the engine's own writes meet too."""
    found = Counter() if found is None else found
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


def changing_sources(found: Counter[str] | None = None) -> Counter[str]:
    """The source changes before the first pass, between the passes, and before the files are described."""
    from sfumato.engines.duckdb.table import LocalTable
    from sfumato.release import bundle

    gaps = {"before counting": (LocalTable, "profile"), "between the passes": (LocalTable, "write"),
            "before describing": (bundle, "finish")}  # fmt: skip
    found = Counter() if found is None else found
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
