"""Run a command in its own process; know its wall-clock time, its peak memory and what it printed."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SFUMATO = (sys.executable, "-m", "sfumato")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One finished process."""

    seconds: float
    cpu_seconds: float  # of all its threads: tells a slow program from a busy machine
    peak_mib: float
    output: str

    @property
    def result(self) -> dict[str, float]:
        """The last line of the output, read as JSON."""
        return dict(json.loads(self.output.strip().splitlines()[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the report; a target is an upper limit for the value."""

    name: str
    value: float
    unit: str
    target: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Met, missed, or nothing where there is no target."""
        if self.target is None:
            return ""
        return "met" if self.value <= self.target else "MISSED"


def run(command: tuple[str, ...]) -> Run:
    """The finished process of a command. This process stays small, so that the child's peak is the child's own."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=output, stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if child.returncode != 0:
            message = f"{' '.join(command)[:200]} ended with {child.returncode}: {errors.read()[-500:]}"
            raise RuntimeError(message)
        cpu = usage.ru_utime + usage.ru_stime
        return Run(seconds=seconds, cpu_seconds=cpu, peak_mib=usage.ru_maxrss / 1024, output=output.read())


def python(code: str, *arguments: object) -> Run:
    """The finished run of a piece of Python; it finds its arguments in sys.argv[1:]."""
    return run((sys.executable, "-c", code, *map(str, arguments)))


def median(values: list[float]) -> float:
    """The middle value: one slow run on a busy machine does not count."""
    return float(statistics.median(values))


def folder_mib(folder: Path) -> float:
    """Size of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
