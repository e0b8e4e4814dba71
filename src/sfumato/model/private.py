"""The nouns that hold facts about people. Readers' code (query, sql) may not import this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .public import Codes, Domain, Floats, Integers

Watch = Callable[[str, int, int], None]  # (stage, done, in all), as progress bars take it


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a mechanism wants counted.

    `units`: columns that are coded together as one value (a compound sensitive value is one unit of two columns).
    `joints`: tuples of unit numbers whose joint histogram planning needs.
    `changed`: which units' columns the mechanism replaces or withholds; the others are only looked at.
    `sensitive`: numbers of the units that hold sensitive columns, where planning must tell them from the others.
    """

    units: tuple[tuple[str, ...], ...]
    joints: tuple[tuple[int, ...], ...]
    changed: tuple[bool, ...]
    sensitive: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Histogram:
    """True counts of the distinct combinations of some units: row `codes[k]` occurs `true_counts[k]` times."""

    codes: Codes  # (K, number of units)
    true_counts: Integers  # (K,)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Profile:
    """What planning may look at: domains and true counts, never rows."""

    rows: int
    domains: tuple[Domain, ...]  # one per unit
    histograms: tuple[Histogram, ...]  # one per joint
    sensitive: tuple[int, ...] = ()  # as in Needs
    rows_per_person: int = 1  # that the plan must hold together
    questions: Floats | None = None  # declared questions about unit 0: a number for every value, one row each
    watch: Watch | None = None  # told about long searches while planning

    def true_counts(self, joint: int = 0, unit: int = 0) -> Integers:
        """Counts over the whole domain of a joint of one unit (number `unit`); 0 for values that do not occur."""
        histogram, dense = self.histograms[joint], np.zeros(len(self.domains[unit]), dtype=np.int64)
        dense[histogram.codes[:, 0]] = histogram.true_counts
        return dense


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PeopleCount:
    """How the rows of a table are spread over people."""

    rows: int
    missing: int  # rows that name nobody
    people: int
    several: int  # people with more than one row
    most: int  # rows of the person who has most


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Filled:
    """A column's rows that hold a value, and how many different ones there are."""

    rows: int
    distinct: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Described:
    """A column as the custodian looks at it before deciding."""

    rows: int  # of the table
    filled: Filled
    length: float  # characters of a cell, on average
    sentences: float  # share of the cells with four words or more
    examples: tuple[str, ...] = ()  # the most frequent values, where asked for


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Deal:
    """An exact hand-out of labels: of the records whose unit has code u, `counts` of each of `labels` in
    `start[u]:start[u + 1]`, chosen uniformly at random. `counts` None: every listed label goes out once."""

    unit: int
    start: Integers  # (codes + 1,)
    labels: NDArray[np.integer]
    counts: Integers | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Work:
    """The private half of a plan: how many records go where. It dies with the run."""

    deals: tuple[Deal, ...] = ()
    side: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # columns of sensitive.parquet, canonical order
    domains: tuple[Domain, ...] | None = None  # as the release states them, where rows left out had values of their own
    notes: tuple[str, ...] = ()  # what the custodian should know while publishing; shown, never written
    secret: Any = None  # whatever else `apply` needs and the release must not state (e.g. a lookup table)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Batch:
    """Rows as `apply` sees them: codes of each unit, and the labels dealt to each row."""

    rows: int
    codes: tuple[Codes, ...]  # one array per unit
    labels: tuple[NDArray[np.int64], ...]  # one array per deal


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Released:
    """Rows as they leave: new codes per unit (None: the unit's columns are withheld, or left as they are where
    the unit is not `changed`), extra integer columns, and which rows stay (None: all)."""

    codes: tuple[Codes | None, ...]
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    stay: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JointCells:
    """The joint histogram of quasi-identifier cells and sensitive values: entry k counts rows of one cell and value.

    `codes[v]` are the codes of sensitive value v, one for each unit of sensitive columns; only values that occur.
    `looked_at[u]` are codes of a unit of quasi-identifiers that the method looks at, entry by entry.
    """

    codes: Codes  # (V, sensitive units)
    value: Integers  # (K,)
    cell: Integers  # (K,), numbered from 0
    true_counts: Integers  # (K,)
    looked_at: Mapping[int, Codes] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        return int(self.cell.max(initial=-1)) + 1

    def of_values(self) -> Integers:
        """Rows of every sensitive value."""
        return np.bincount(self.value, weights=self.true_counts, minlength=len(self.codes)).astype(np.int64)

    def of_cells(self) -> Integers:
        """Rows of every cell."""
        return np.bincount(self.cell, weights=self.true_counts).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Known:
    """What the custodian knows when she asks how far readers get: the plan's private half and true counts.

    `joint` has every value that occurs; it is cut into quasi-identifier cells where `linkable`, else it is one cell.
    `looked` marks the sensitive values whose posterior is asked for.
    """

    profile: Profile
    work: Work
    units: tuple[int, ...]  # numbers of the units of sensitive columns
    joint: JointCells
    linkable: bool
    looked: NDArray[np.bool_]  # (V,)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Facts:
    """What choosing parameters looks at: true counts of sensitive values, sizes of the other columns' domains."""

    rows: int
    true_counts: tuple[int, ...]
    sizes: Mapping[str, int]  # quasi-identifier -> number of values
    integers: frozenset[str]  # those that hold integers
    hierarchies: Mapping[str, Any] | str | None = None
