"""The nouns that hold facts about people. Readers' code (query, sql) may not import this module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .public import Codes, Domain, Floats, Integers


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
    questions: Floats | None = None  # declared questions about unit 0: a number for every value, one row each

    def true_counts(self, joint: int = 0, unit: int = 0) -> Integers:
        """Counts over the whole domain of a joint of one unit (number `unit`); 0 for values that do not occur."""
        histogram, dense = self.histograms[joint], np.zeros(len(self.domains[unit]), dtype=np.int64)
        dense[histogram.codes[:, 0]] = histogram.true_counts
        return dense


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Deal:
    """An exact hand-out of labels: of the records whose unit has code u, `counts` of each of `labels` in
    `start[u]:start[u + 1]`, chosen uniformly at random. `counts` None: every listed label goes out once."""

    unit: int
    start: Integers  # (codes + 1,)
    labels: NDArray[np.int64]
    counts: Integers | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Work:
    """The private half of a plan: how many records go where. It dies with the run."""

    deals: tuple[Deal, ...] = ()
    side: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # columns of sensitive.parquet, canonical order
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
class Facts:
    """What choosing parameters looks at: true counts of sensitive values, sizes of the other columns' domains."""

    rows: int
    true_counts: tuple[int, ...]
    sizes: Mapping[str, int]  # quasi-identifier -> number of values
    integers: frozenset[str]  # those that hold integers
    hierarchies: Mapping[str, Any] | str | None = None
