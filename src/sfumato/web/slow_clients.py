"""Connections that do not wait for ever: whoever sends no question, or does not take the answer, is let go.

uvicorn bounds the pause between two requests, but neither the time in which the head of one must arrive nor the time
that a client may leave an answer lying. A stranger could hold connections and downloads open with a byte a minute.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 10.0  # for the head of a request; a connection without one is closed after once to twice this time
STALL_SECONDS = 60.0  # without taking a buffer's worth (about 50 kB) of an answer that waits


def patient(*, head_seconds: float = HEAD_SECONDS, stall_seconds: float = STALL_SECONDS) -> type[asyncio.Protocol]:
    """The protocol of a connection, for uvicorn's `http`, that looks at itself every `head_seconds`."""

    class Patient(AutoHTTPProtocol):  # type: ignore[misc,valid-type] # which one it is depends on what is installed
        _watch: asyncio.TimerHandle | None = None
        _idle: Any = None  # the request after which nothing had come when we last looked; ourselves if one was at work
        _stuck: float | None = None  # since when the client takes nothing, or the connection waits to be closed

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch = self.loop.call_later(head_seconds, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._watch is not None:
                self._watch.cancel()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            self._stuck = self.loop.time()
            super().pause_writing()

        def resume_writing(self) -> None:
            self._stuck = None
            super().resume_writing()

        def _look(self) -> None:
            now = self.loop.time()
            if self._stuck is not None and now - self._stuck > stall_seconds:
                self.transport.abort()  # to close would be to wait until the client has taken the rest
                return
            idle = self.cycle is None or self.cycle.response_complete
            if idle and self.cycle is self._idle:
                self.transport.close()
            if self.transport.is_closing() and self._stuck is None:
                self._stuck = now
            self._idle = self.cycle if idle else self
            self._watch = self.loop.call_later(head_seconds, self._look)

    return Patient
