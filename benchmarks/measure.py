"""Run a command in its own process; know its wall-clock time, its peak memory and what it printed."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

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
    """One figure of the report; a budget is an upper limit of the value."""

    name: str
    value: float
    unit: str
    budget: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Met, or missed by how much; nothing where there is no budget."""
        if math.isnan(self.value):
            return "failed"
        if self.budget is None:
            return ""
        over = self.value / self.budget - 1
        return "met" if over <= 0 else f"missed by {max(over, 0.001):.1%}".replace("%", " %")


def run(command: Sequence[str], *, code: int = 0) -> Run:
    """The finished process of a command, which must exit with that code."""
    # This process stays small, so that the child's peak is the child's own.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=output, stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if child.returncode != code:
            message = f"{' '.join(command)[:200]} ended with {child.returncode}: {errors.read()[-500:]}"
            raise RuntimeError(message)
        cpu = usage.ru_utime + usage.ru_stime
        return Run(seconds=seconds, cpu_seconds=cpu, peak_mib=usage.ru_maxrss / 1024, output=output.read())


def python(code: str, *arguments: object) -> Run:
    """The finished run of a piece of Python; it finds its arguments in sys.argv[1:]."""
    return run((sys.executable, "-c", code, *map(str, arguments)))


def median(values: Sequence[float]) -> float:
    """The middle value: one slow run on a busy machine does not count."""
    return float(statistics.median(values))


def failed(name: str, error: RuntimeError) -> Row:
    """The row of a figure that could not be measured."""
    return Row(name=name, value=float("nan"), unit="", note=str(error)[-160:])
