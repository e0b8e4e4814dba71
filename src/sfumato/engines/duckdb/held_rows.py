"""Rows of a source that are read once, beside other work, and held for both passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from threading import Event, Thread

import pyarrow as pa

from .session import Session

BATCH = 1 << 20  # rows; few and large, because each waits for whoever loads code meanwhile
SHARE = 1 / 8  # of the engine's memory


class HeldRows:
    """All rows of some columns, read by a thread from the moment on that this is made.

    Where they are too many, or cannot be read, nothing is held: whoever wants them reads the source, and is told why.
    """

    def __init__(self, session: Session, columns: Sequence[str], sql: str) -> None:
        self.columns = tuple(columns)
        self._batches: list[pa.RecordBatch] | None = None  # until all of them have been read
        self._stop = Event()
        with ExitStack() as stack:
            stack.enter_context(session)
            self._most, rows = SHARE * session.room(), session.query(sql).to_arrow_reader(BATCH)
            self._thread = Thread(target=self._read, args=(rows, stack.pop_all()))
        self._thread.start()

    def _read(self, rows: Iterator[pa.RecordBatch], session: ExitStack) -> None:
        found, size = list[pa.RecordBatch](), 0
        with (
            suppress(Exception),
            session,
        ):  # whatever it is: it may quote a cell, and is met again by who needs the rows
            for batch in rows:
                found.append(batch)
                size += batch.nbytes
                if size > self._most or self._stop.is_set():
                    return
            self._batches = found

    def batches(self) -> list[pa.RecordBatch] | None:
        """The rows in the source's order, once they have been read; None where they are not held."""
        self._thread.join()
        return self._batches

    def close(self) -> None:
        """Nothing is read or held any more."""
        self._stop.set()
        self._thread.join()
        self._batches = None
