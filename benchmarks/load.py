"""A load generator: many clients that each ask, wait for the answer, and ask again; HTTP/1.1 over plain sockets.

Clients honour Retry-After. Times are of answered questions only; refusals for lack of room (503) are counted, and
everything else that is not an answer is an error.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote


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
