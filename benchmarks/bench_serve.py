"""`sfumato serve` under load, beside plain DuckDB behind the same server: answers a second, latency, memory.

    python -m benchmarks.bench_serve --rows 10000000 --seconds 20
    python -m benchmarks.bench_serve --clients 16 --seconds 1800 --server sfumato      # memory over half an hour

Every question is different and no answer is kept, so each one is computed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench_publish import publish, source
from benchmarks.load import Load, address, load
from benchmarks.measure import Row

SERVERS = ("sfumato", "plain DuckDB")
CLIENTS = (1, 16, 128, 512)
SECONDS = 5.0
QUEUE = 256
QUESTION = "SELECT COUNT(*) AS n FROM release WHERE occupation = {} AND age > {} AND gender = {}"


def question(i: int) -> str:
    """The i-th question; 6,000 different ones."""
    return QUESTION.format(i % 50, 17 + i // 50 % 60, i // 3000 % 2)


@contextmanager
def server(kind: str, release: Path) -> Iterator[tuple[int, int]]:
    """(port, process id) of a running server, sfumato's or the plain one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ours = ["sfumato", "serve", str(release), "--port", str(port), "--queue", str(QUEUE)]
    plain = ["benchmarks.plain_server", str(release), str(port), str(QUEUE)]
    command = [sys.executable, "-m", *(ours if kind == "sfumato" else plain)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            for _ in range(600):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield port, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            errors.seek(0)
            sys.stderr.write(errors.read() if process.returncode else "")


def family(pid: int) -> list[int]:
    """The process and its children."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):  # each thread has children of its own
        found += [int(child) for child in task.read_text().split()]
    return [pid, *(grand for child in found for grand in family(child))]


def memory_mib(pid: int) -> float:
    """Memory of a process and its children, shared pages counted once."""
    total = 0
    for one in family(pid):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


class Watch:
    """Samples the memory of a server while it works."""

    def __init__(self, pid: int, every: float = 1.0) -> None:
        self.samples: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(pid, every))

    def _look(self, pid: int, every: float) -> None:
        while not self._stop.wait(every):
            self.samples.append(memory_mib(pid))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def measured(kind: str, release: Path, clients: tuple[int, ...], seconds: float) -> tuple[list[Load], list[float]]:
    """(what the clients saw, memory in MiB second by second) of one server; the first questions are not counted."""

    def path(i: int) -> str:
        return address(release.name, question(i))

    with server(kind, release) as (port, pid):
        asyncio.run(load("127.0.0.1", port, path, clients=4, seconds=3.0))
        with Watch(pid) as watch:
            found = [asyncio.run(load("127.0.0.1", port, path, clients=many, seconds=seconds)) for many in clients]
    return found, watch.samples


def rows(
    folder: Path,
    *,
    n: int,
    clients: tuple[int, ...] = CLIENTS,
    seconds: float = SECONDS,
    method: str = "uniform",
    servers: tuple[str, ...] = SERVERS,
) -> list[Row]:
    """The report: for each number of clients the rate and the latencies, ours and the plain server's."""
    release = folder / f"release-{method}"
    if not release.exists():
        publish(source(folder, n), release, method)
    found: list[Row] = []
    for kind in servers:
        loads, memory = measured(kind, release, clients, seconds)
        for one in loads:
            note = ", ".join(f"{p} % within {one.latency(p):.1f} ms" for p in (50, 95, 99))
            note += f"; {one.busy} x 503" + (f"; errors {one.errors}" if one.errors else "; no error")
            found.append(Row(name=f"serve, {kind}, {one.clients} clients", value=one.rate, unit="/s", note=note))
        if memory:
            tenth = max(1, len(memory) // 10)
            note = f"first tenth {max(memory[:tenth]):.0f}, last tenth {max(memory[-tenth:]):.0f} MiB"
            found.append(Row(name=f"serve, {kind}: peak memory", value=max(memory), unit="MiB", note=note))
    return found


def main() -> None:
    """Measure and print."""
    from benchmarks.__main__ import render

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_serve", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each number of clients")
    parser.add_argument("--clients", type=int, action="append", help="may be repeated")
    parser.add_argument("--server", choices=SERVERS, action="append", help="one instead of both")
    parser.add_argument("--folder", type=Path, help="where tables and releases go and stay")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sfumato-bench-") as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        clients, servers = tuple(asked.clients or CLIENTS), tuple(asked.server or SERVERS)
        found = rows(folder, n=asked.rows, clients=clients, seconds=asked.seconds, servers=servers)
    print(f"{asked.rows:,} rows; {os.cpu_count()} cores\n\n{render(found)}")


if __name__ == "__main__":
    main()
