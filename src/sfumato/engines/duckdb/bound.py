"""A source as the local engine holds it: how to bind it to a connection, and what is to be said about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from ...model.coarsening import Recoding
from ...model.codebook import Labels

Bind = Callable[[duckdb.DuckDBPyConnection], duckdb.DuckDBPyRelation]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldTable:
    """All rows of a source as they are released, columns of few values as dictionaries."""

    rows: pa.Table
    kinds: Mapping[str, str]  # the columns' types, as the engine names them
    room: float  # bytes that the engine may hold


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Bound:
    """`bind` gives the source as a fresh relation on a connection, once per pass."""

    bind: Bind
    notes: tuple[str, ...] = ()  # for the custodian; they quote no cell
    labels: Mapping[str, Labels] = field(default_factory=dict)
    seen: bool = False  # the engine itself has read its texts, and so seen that they are UTF-8
    recoded: tuple[Recoding, ...] = ()
    held: HeldTable | None = None
    large: bool = False  # its rows are known to be too many to be held
