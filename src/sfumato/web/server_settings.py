"""What a server allows: limits, host names, origins. One frozen object, made from the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..errors import SpecError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


def cores() -> int:
    """Processes that can work at the same time here, four at most unless told otherwise."""
    return max(1, min(4, os.cpu_count() or 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits of a server for analysts; the defaults suit a small public server."""

    workers: int = 2  # processes that answer, so: questions under way at once
    queue: int = 64  # questions that may wait for a worker; one more gets 503
    time_limit: float = 20.0  # seconds for one question, from the moment a worker takes it
    memory_mib: int = 2048  # private memory of one worker
    max_sql: int = 10_000  # characters of a question
    max_body: int = 64 * 1024  # bytes of a request's body
    max_rows: int = 10_000  # rows of an answer
    cache_mib: int = 64  # finished answers that are kept
    downloads: int = 16  # bundles and tables streamed at once
    hosts: tuple[str, ...] = LOOPBACK  # names under which the server answers
    cors: tuple[str, ...] = ()  # origins whose pages may read the API; "*" for all
    log_sql: bool = False  # write questions into the access log with their literals

    def __post_init__(self) -> None:
        limits = {"max_sql": self.max_sql, "max_body": self.max_body, "max_rows": self.max_rows}
        for name, number in {"workers": self.workers, "queue": self.queue, **limits}.items():
            least = 0 if name == "queue" else 1
            if number < least:
                raise SpecError(f"{name.replace('_', '-')} must be at least {least}, got {number}", field=name)
        if not 0 < self.time_limit < 86_400:
            raise SpecError(f"time-limit must be between 0 and 86400 seconds, got {self.time_limit:g}", field="time")
        if self.memory_mib < 512:
            raise SpecError(f"memory must be at least 512 MiB for each worker, got {self.memory_mib}", field="memory")
        for origin in self.cors:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise SpecError(f'--cors takes an origin such as https://example.org, got "{origin}"', field="cors")


def allowed_hosts(bound: str, extra: tuple[str, ...]) -> tuple[str, ...]:
    """Host names under which the server answers: loopback, the bound one, and those named."""
    named = tuple(name.strip().strip("[]").lower() for name in extra)
    own = () if bound in ANY else (bound.strip("[]").lower(),)
    return tuple(dict.fromkeys((*LOOPBACK, *own, *named)))
