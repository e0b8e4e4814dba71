"""What publishing and answering ask of an engine: shapes of work, never methods.

The custodian's side opens a `Table`, the reader's side a `Reader`; the two share nothing but the engine's name.
SQL goes to a reader as an expression tree (see `statements`), so that its dialect is the engine's own business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..model.coarsening import Recoding
from ..model.private import Described, Filled, JointCells, Needs, PeopleCount, Profile
from ..model.public import Domain, Labels, Scalar
from ..model.types import ColumnType

if TYPE_CHECKING:  # publishing loads no SQL parser
    from sqlglot import exp

Keys = Callable[[int, int], NDArray[np.uint64]]  # (number of the batch, rows) -> 64-bit sort keys
Progress = Callable[[int], None]  # rows done so far


class Transform(Protocol):
    """Rows in, rows out: `apply` is called once for each batch, in their order.

    Where rows lie on several machines, each partition is a small table of its own: `share` is called once for each
    partition, in their order, on counts alone; `partition`, in the process that has the rows, gives the transform of
    that partition, which is then called batch by batch and closed. `away` is what is sent there.
    """

    @property
    def units(self) -> Sequence[tuple[str, ...]]:
        """Columns that are coded together: shares depend on how often which of their values occurs."""

    @property
    def dictionaries(self) -> Mapping[str, pa.Array]:
        """Values of the columns that leave as codes into them."""

    @property
    def bytes_held(self) -> int:
        """Bytes that the transform keeps while rows wait for their order."""

    def apply(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch of that number as it is published."""

    def share(self, number: int, here: Sequence[pa.Table]) -> Any:
        """What a partition gets of all that is dealt exactly; `here` counts the values of each unit there."""

    def away(self) -> Transform:
        """A copy that can be pickled, without what is dealt to others."""

    def partition(self, number: int, share: Any) -> Transform:
        """The transform of the partition of that number; its batches are numbered from 0."""

    def close(self) -> None:
        """Raise DataError where other rows came than were counted before."""


class Table(Protocol):
    """A private handle on the custodian's table."""

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        """Name -> type as published, in the table's order."""

    notes: tuple[str, ...]  # what reading it brought up, for the custodian; they quote no cell
    labels: Mapping[str, Labels]  # titles and names of codes, where the source has some
    recoded: tuple[Recoding, ...]  # columns that were made coarser

    def profile(self, needs: Needs, declared: Mapping[str, Sequence[Scalar]], *, null_as_value: bool) -> Profile:
        """First pass: domains and joint counts."""

    def cells(
        self, quasi: Sequence[str], sensitive: Sequence[Domain], looked_at: Mapping[int, Domain], *, limit: int
    ) -> JointCells | None:
        """Rows by quasi-identifier cell and sensitive value, with codes of the units of quasi-identifiers that are
        looked at; None where there are more than `limit` combinations."""

    def binned(self, edges: Mapping[str, Sequence[float]]) -> Table:
        """The same table with some numeric columns replaced by the label of their bin."""

    def people(self, column: str) -> PeopleCount:
        """How the rows are spread over the people whom a column tells apart."""

    def keeping(self, column: str, most: int, columns: Sequence[str], keys: Keys) -> Table:
        """The table with at most `most` rows of each value of `column`, those with the least keys; other columns than
        these are left behind."""

    def filled(self, columns: Sequence[str]) -> Mapping[str, Filled]:
        """Rows with a value, and the number of different values, of each of some columns."""

    def describe(self, columns: Sequence[str], *, examples: int = 0) -> Mapping[str, Described]:
        """What the cells of some columns look like; `examples` values of each, only where asked for."""

    def arrow_types(self) -> Mapping[str, pa.DataType]:
        """Arrow type of every column as `write` will hand it to the transform."""

    def write(
        self,
        columns: Sequence[str],
        transform: Transform,
        schema: pa.Schema,
        keys: Keys,
        path: Path,
        progress: Progress,
    ) -> int:
        """Second pass: stream the columns through the transform into one Parquet file, or parts, in key order; the
        number of rows that were written."""


class Reader(Protocol):
    """Runs SQL over the published rows, confined to them: no other file, no network, no setting that a text could turn.

    Threads may share it. Statements name the rows `release`, or what `source` gives, and small tables that come
    with them; conditions in them mean what they mean in DuckDB, whose results it must give: counts as BIGINT, sums as
    DOUBLE (the statements cast), text compared byte by byte, null last in an order. A date outside the years 1 to 9999
    is a QueryError (`codes.unreadable_dates`).
    """

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns of the published rows."""

    def source(self) -> tuple[str, str | None]:
        """(table that a question is asked of, its weight column): `release`, or one whose rows stand for several each.

        The weight column is a whole number.
        """

    def run(
        self, statement: exp.Query, *, text: str | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        """The result; errors of types or arithmetic are QueryErrors about `text`. `tables` are there while it runs."""

    def count(self, columns: Sequence[str]) -> pa.Table:
        """Rows of every combination of some columns of the published rows, as `statements.COUNT`."""


class Engine(Protocol):
    """Opens tables for the custodian and published files for readers."""

    name: str

    def open(self, source: Any) -> Table:
        """A handle on the source, whatever it is (see `source`); nothing of it is kept."""

    def read(self, data: Sequence[Path]) -> Reader:
        """A reader of the rows in these Parquet files; ReleaseError where they cannot be read."""
