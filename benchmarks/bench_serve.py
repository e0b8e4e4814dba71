"""`sfumato serve` under load: answers a second, latency, memory. A figure of its own, of no budget.

    python -m benchmarks.bench_serve --rows 10000000 --seconds 20
    python -m benchmarks.bench_serve --clients 16 --seconds 1800      # memory over half an hour

Every question is different and no answer is kept, so each one is computed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from benchmarks.bench_publish import publish, source
from benchmarks.measure import Row

CLIENTS = (1, 16, 128, 512)
SECONDS = 5.0
QUEUE = 256
QUESTION = "SELECT COUNT(*) AS n FROM release WHERE occupation = {} AND age > {} AND gender = {}"


def question(i: int) -> str:
    """The i-th question; 6,000 different ones."""
    return QUESTION.format(i % 50, 17 + i // 50 % 60, i // 3000 % 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What some clients saw in some seconds."""

    clients: int
    seconds: float
    times: tuple[float, ...]  # of answers, in seconds, sorted
    busy: int  # answers 503
    errors: dict[str, int]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.times) / self.seconds

    def latency(self, percent: int) -> float:
        """The time within which that many per cent of the answers came, in milliseconds."""
        if len(self.times) < 2:
            return 1000 * self.times[0] if self.times else float("nan")
        return 1000 * statistics.quantiles(self.times, n=100, method="inclusive")[percent - 1]


async def load(host: str, port: int, path: Callable[[int], str], *, clients: int, seconds: float) -> Load:
    """Let the clients ask for that long; `path` gives the address of the i-th question."""
    times: list[float] = []
    seen: Counter[str] = Counter()
    numbers = iter(range(10**9))
    start = time.perf_counter()
    end = start + seconds

    async def client() -> None:
        reader = writer = None
        while (now := time.perf_counter()) < end:
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(host, port)
                writer.write(f"GET {path(next(numbers))} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                status, headers = await _response(reader)
            except (OSError, EOFError, asyncio.IncompleteReadError) as error:
                seen[type(error).__name__] += 1
                reader = writer = None
                await asyncio.sleep(0.1)
                continue
            if status == 200:
                times.append(time.perf_counter() - now)
            elif status == 503:
                seen["503"] += 1
                await asyncio.sleep(min(float(headers.get("retry-after", 1)), max(0.0, end - time.perf_counter())))
            else:
                seen[str(status)] += 1
        if writer is not None:
            writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    took = time.perf_counter() - start
    busy = seen.pop("503", 0)
    return Load(clients=clients, seconds=took, times=tuple(sorted(times)), busy=busy, errors=dict(seen))


async def _response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """(status, headers) of the next response; its body is read and dropped."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    await reader.readexactly(int(headers.get("content-length", 0)))
    return int(head[0].split(" ")[1]), headers


def address(release: str, sql: str) -> str:
    """The path of a question."""
    return f"/{quote(release)}/query?sql={quote(sql)}"


@contextmanager
def server(release: Path) -> Iterator[tuple[int, int]]:
    """(port, process id) of a running server."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = ("--port", str(port), "--queue", str(QUEUE))
    command = [sys.executable, "-m", "sfumato", "serve", str(release), *settings]
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


def measured(release: Path, clients: tuple[int, ...], seconds: float) -> tuple[list[Load], list[float]]:
    """(what the clients saw, memory in MiB second by second); the first questions are not counted."""

    def path(i: int) -> str:
        return address(release.name, question(i))

    with server(release) as (port, pid):
        asyncio.run(load("127.0.0.1", port, path, clients=4, seconds=3.0))
        with Watch(pid) as watch:
            found = [asyncio.run(load("127.0.0.1", port, path, clients=many, seconds=seconds)) for many in clients]
    return found, watch.samples


def rows(folder: Path, *, n: int, clients: tuple[int, ...], seconds: float) -> list[Row]:
    """For each number of clients the rate and the latencies; and the memory of all processes."""
    release = folder / "release-uniform"
    if not release.exists():
        publish(source(folder, n), release, "uniform")
    loads, memory = measured(release, clients, seconds)
    found = list[Row]()
    for one in loads:
        note = ", ".join(f"{p} % within {one.latency(p):.1f} ms" for p in (50, 95, 99))
        note += f"; {one.busy} x 503" + (f"; errors {one.errors}" if one.errors else "; no error")
        found.append(Row(name=f"serve, {one.clients} clients", value=one.rate, unit="/s", note=note))
    if memory:
        tenth = max(1, len(memory) // 10)
        note = f"first tenth {max(memory[:tenth]):.0f}, last tenth {max(memory[-tenth:]):.0f} MiB"
        found.append(Row(name="serve: peak memory", value=max(memory), unit="MiB", note=note))
    return found


def main() -> None:
    """Measure and print."""
    from benchmarks.__main__ import render

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_serve", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each number of clients")
    parser.add_argument("--clients", type=int, action="append", help="may be repeated")
    parser.add_argument("--folder", type=Path, help="where tables and releases go and stay")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sfumato-bench-") as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        found = rows(folder, n=asked.rows, clients=tuple(asked.clients or CLIENTS), seconds=asked.seconds)
    print(f"{asked.rows:,} rows; {os.cpu_count()} cores\n\n{render(found)}")


if __name__ == "__main__":
    main()
