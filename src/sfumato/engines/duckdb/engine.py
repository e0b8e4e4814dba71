"""The local engine: DuckDB reads, counts and sorts, pyarrow carries batches; both spill to disk.

Whoever reads a release loads nothing of how tables of others are opened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..source import MEMORY
from .reader import DuckDBReader

if TYPE_CHECKING:
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

    def open(self, source: Any, *, delimiter: str | None = None) -> LocalTable:
        from .table import opened

        return opened(self, source, delimiter)

    def read(self, data: Sequence[Path]) -> DuckDBReader:
        return DuckDBReader(data, memory=self.memory)
