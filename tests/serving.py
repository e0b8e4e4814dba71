"""A real server on a free port, and releases to put behind it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa

import sfumato
from tables import MARK, people

SRC = Path(__file__).parents[1] / "src"
SCRIPT = "<script>window.broken = true</script>"
QUOTES = """O'Brien "the 2nd" & sons"""
ARABIC = "שלום وداعا"  # letters written from right to left
MANY = 500  # values of a column
WIDE = 60  # columns
# For servers of tests that are not about limits. A worker loads the library of formulas with its first fit: 0.7 s on an
# idle machine, more than the usual 20 on one that gives the tests a thirtieth of a core; the answer is then a refusal.
UNHURRIED = ("--time-limit", "120")
PAUSE = 0.05  # seconds between two looks
PATIENCE = 180  # seconds after which a process that should have ended or answered is given up


@dataclass(slots=True, kw_only=True)
class Running:
    """A server that runs: its address, and what it wrote."""

    url: str
    process: subprocess.Popen[str]
    log_file: Path
    error_file: Path

    @property
    def log(self) -> str:
        """The access log so far."""
        return self.log_file.read_text(encoding="utf-8")

    def logged(self, text: str) -> str:
        """The access log once it holds the text: a line is written after its answer has left."""
        for _ in range(int(PATIENCE / PAUSE)):
            if text in self.log:
                break
            _pause()
        assert text in self.log
        return self.log

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextmanager
def running(*releases: Path, options: tuple[str, ...] = (), own_group: bool = False) -> Iterator[Running]:
    """`sfumato serve` with these releases; its log is shown when the test fails."""
    arguments = ("-m", "sfumato", "serve", *map(str, releases), "--port", "0", *options)
    with _process(*arguments, own_group=own_group) as (process, log, errors):
        yield Running(url=_address(process, errors), process=process, log_file=log, error_file=errors)


@dataclass(slots=True, kw_only=True)
class RunningStudio:
    """A studio that runs: its address without and with the token."""

    url: str
    invitation: str
    process: subprocess.Popen[str]
    error_file: Path


@contextmanager
def running_studio(*arguments: str, folder: Path, own_group: bool = False) -> Iterator[RunningStudio]:
    """`sfumato studio` started in a folder."""
    command = ("-m", "sfumato", "studio", *arguments)
    with _process(*command, folder=folder, own_group=own_group) as (process, _, errors):
        for _ in range(int(PATIENCE / PAUSE)):
            found = re.search(r"at ((http://\S+?)/\?token=\S+)", errors.read_text())
            if found or process.poll() is not None:
                break
            _pause()
        assert found, errors.read_text()
        with httpx.Client(timeout=5) as client:
            for _ in range(int(PATIENCE / PAUSE)):
                try:
                    client.get(found[2])
                    break
                except httpx.TransportError:
                    _pause()
        yield RunningStudio(url=found[2], invitation=found[1], process=process, error_file=errors)


@contextmanager
def _process(
    *arguments: str, folder: Path | None = None, own_group: bool = False
) -> Iterator[tuple[subprocess.Popen[str], Path, Path]]:
    """(process, its log, its errors) of Python with these arguments; it is ended, and the log shown."""
    with tempfile.TemporaryDirectory(prefix="sfumato-serve-") as scratch:
        log, errors = Path(scratch) / "log", Path(scratch) / "errors"
        env = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
        with log.open("w") as out, errors.open("w") as err:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=out,
                stderr=err,
                env=env,
                text=True,
                cwd=folder,
                start_new_session=own_group,
            )
        try:
            yield process, log, errors
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE)  # a question under way may take its time limit
            print(log.read_text()[-4000:], errors.read_text()[-4000:], sep="\n")


def _address(process: subprocess.Popen[str], errors: Path) -> str:
    """The address that the server announces, once it answers there."""
    with httpx.Client(timeout=5) as client:
        for _ in range(int(PATIENCE / PAUSE)):
            found = re.search(r"at (http://\S+?)/ ", errors.read_text())
            if found:
                try:
                    if client.get(f"{found[1]}/healthz").status_code == 200:
                        return found[1]
                except httpx.TransportError:
                    pass
            if process.poll() is not None:
                break
            _pause()
    message = f"the server did not start: {errors.read_text()[-2000:]}"
    raise RuntimeError(message)


def _pause() -> None:
    time.sleep(PAUSE)


def small_release(folder: Path) -> Path:
    """1,246 people by `uniform`; the sensitive column is `disease`."""
    roles = sfumato.Roles(
        sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"]
    )
    sfumato.publish(people(), folder, roles=roles, method=sfumato.UniformPerturbation(rho1="1/5", rho2="1/3"), seed=3)
    return folder


def bounded_release(folder: Path) -> Path:
    """The same people by `target-distribution`: answers are certain bounds."""
    roles = sfumato.Roles(sensitive="disease", quasi=["age", "sex"], rest="drop")
    sfumato.publish(people(), folder, roles=roles, method=sfumato.TargetDistribution(partition_by=["sex"]), seed=3)
    return folder


def awkward_table() -> pa.Table:
    """Names and values that break careless pages: markup, quotes, right-to-left text, 500 values, 60 columns."""
    rng = np.random.default_rng(8)
    n = 6000
    values = [SCRIPT, QUOTES, ARABIC, *(f"value {i:03d}" for i in range(MANY - 3))]
    columns: dict[str, pa.Array] = {
        "<b>what</b>": pa.array(np.array(values)[np.concatenate([np.arange(MANY), rng.integers(0, MANY, n - MANY)])]),
        'the "side"': pa.array(np.array([SCRIPT, QUOTES, ARABIC])[rng.integers(0, 3, n)]),
        "عمود": pa.array(rng.integers(0, 9, n), pa.int16()),
    }
    for i in range(WIDE - len(columns)):
        columns[f"column {i:02d}"] = pa.array(rng.integers(0, 5, n), pa.int8())
    return pa.table(columns)


def awkward_release(folder: Path) -> Path:
    """A release of that table."""
    roles = sfumato.Roles(sensitive="<b>what</b>", rest="quasi")
    method = sfumato.UniformPerturbation(rho1="1/20", rho2="1/2")
    sfumato.publish(awkward_table(), folder, roles=roles, method=method, seed=4)
    return folder
