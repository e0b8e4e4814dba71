"""Rows of a source that are read once, beside other work, and held for both passes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Thread

import pyarrow as pa

from ..batch_sizes import rows_at_once, rows_in
from .session import Session

BATCH = 1 << 20  # rows; few and large, because each waits for whoever loads code meanwhile
CELLS = 1 << 24  # ... at most
SHARE = 1 / 8  # of the engine's memory
FIRST = 1 << 10  # rows that tell how large others are
PIECE = 1 / 4  # of what may be held, that comes at a time


class HeldRows:
    """All rows of some columns, read by a thread from the moment on that this is made.

    Where they are too many, or cannot be read, nothing is held: whoever wants them reads the source, and is told why.
    The session, which is open, is the thread's until rows have been asked for; `close` closes it.
    """

    def __init__(self, session: Session, columns: Sequence[str], sql: str, *, texts: bool = True) -> None:
        self.columns, self.session = tuple(columns), session
        self._texts = texts  # whether some of the columns have cells of any size
        self._batches: list[pa.RecordBatch] | None = None
        self._stop, self._thread = Event(), Thread(target=self._read, args=(sql, SHARE * session.room()))
        self._thread.start()

    def _read(self, sql: str, most: float) -> None:
        found, size = list[pa.RecordBatch](), 0
        with suppress(Exception):  # whatever it is: it may quote a cell, and is met again by who needs the rows
            at_once = rows_at_once(BATCH, len(self.columns), CELLS)
            if self._texts:
                some = self.session.query(f"{sql} LIMIT {FIRST}").to_arrow_table()
                at_once = rows_in(at_once, some.nbytes, some.num_rows, most * PIECE)
            for batch in self.session.query(sql).to_arrow_reader(at_once):
                found.append(batch)
                size += batch.nbytes
                if size > most or self._stop.is_set():
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
        self.session.close()
