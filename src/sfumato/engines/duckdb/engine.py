"""The local engine: DuckDB reads, counts and sorts, pyarrow carries batches; both spill to disk.

Whoever reads a release loads nothing of how tables of others are opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from ..limits import MEMORY
from .reader import DuckDBReader

if TYPE_CHECKING:
    from .begun_table import BegunTable
    from .table import LocalTable

BATCH_ROWS = 131_072


class LocalEngine:
    """One machine, no server. `memory` bounds what DuckDB holds before it spills to a temporary folder."""

    name = "local"

    def __init__(
        self,
        *,
        memory: str = MEMORY,
        threads: int | None = None,
        batch_rows: int = BATCH_ROWS,
        encrypted_spill: bool = True,
    ) -> None:
        self.memory, self.threads, self.batch_rows = memory, threads or os.cpu_count() or 1, batch_rows
        self.encrypted_spill = encrypted_spill  # costs a sort that spills about as much time again
        self.stop = Event()  # of what a copy of this engine reads ahead
        self._begun: tuple[Any, BegunTable] | None = None

    @property
    def limits(self) -> tuple[str, int, int, bool]:
        """What it was made with."""
        return self.memory, self.threads, self.batch_rows, self.encrypted_spill

    def open(self, source: Any, *, delimiter: str | None = None) -> LocalTable:
        if self._begun is not None and self._begun[0] is source:
            table = self._begun[1].table()
            if table is not None:
                return table
        from .table import opened

        return opened(self, source, delimiter)

    @contextmanager
    def ahead(
        self, source: Any, wanted: Callable[[Sequence[str]], Sequence[str]], early: BegunTable | None = None
    ) -> Iterator[None]:
        """While it is open, rows of files are read beside other work and held for both passes.

        `wanted` tells the columns that both look at. What is wrong with the source is told when it is opened.
        `early` is the source's table, if it is being opened already.
        """
        from .begun_table import begun

        table = early or begun(self, source, wanted)
        self._begun = None if table is None else (source, table)
        try:
            yield
        finally:
            self._begun = None
            if table is not None:
                table.let_go()

    def read(self, data: Sequence[Path]) -> DuckDBReader:
        return DuckDBReader(data)
