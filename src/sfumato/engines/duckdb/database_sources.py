"""Databases as sources of the local engine."""

from __future__ import annotations

from collections.abc import Callable

from ..addresses import Address
from ..databases import duckdb_file, odbc, postgresql, sqlite
from ..databases.snapshot import Snapshot
from ..source import Source
from .bound import Bound
from .column_types import projected
from .connection import quoted
from .files import check_names

OPENED: dict[str, Callable[[Address, Source], Snapshot]] = {
    "sqlite": sqlite.snapshot,
    "duckdb": duckdb_file.snapshot,
    "postgresql": postgresql.snapshot,
    "odbc": odbc.snapshot,
}


def database_bound(address: Address, source: Source) -> Bound:
    """The rows of a database as of one moment, streamed through each pass."""
    found = OPENED[address.kind](address, source)
    check_names(found.batches.schema.names)
    bound = Bound(bind=lambda con: con.from_arrow(found.batches), notes=found.notes)
    casts = {name: f"CAST({quoted(name)} AS {kind})" for name, kind in found.casts.items()}
    return projected(bound, casts) if casts else bound
