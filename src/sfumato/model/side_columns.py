"""Columns of sensitive.parquet. That of part numbers is kept in runs: the column itself is as long as the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOME = 256  # of a column: most runs are shorter


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """A column of whole numbers from 0 on: each of `numbers` comes `lengths` times, one after the other.

    Numbers that follow each other are a range: as an array they would take more memory than all else of the column.
    """

    numbers: NDArray[np.integer] | range
    lengths: NDArray[np.integer]
    kind: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.int32))  # of the column

    def column(self) -> NDArray[np.integer]:
        """The column itself."""
        return np.repeat(self.listed(), self.lengths)

    def listed(self) -> NDArray[np.integer]:
        """The numbers as an array."""
        whole = self.numbers
        return np.arange(whole.start, whole.stop, dtype=self.kind) if isinstance(whole, range) else whole

    def sizes(self) -> NDArray[np.integer]:
        """How often each number comes, whatever the order; in few bytes where numbers are 0, 1, 2 .."""
        if isinstance(self.numbers, range) and self.numbers.start == 0:
            return self.lengths
        numbers = self.listed()
        found = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int32)
        np.add.at(found, numbers, self.lengths)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes as it is kept."""
        return self.lengths.nbytes + (0 if isinstance(self.numbers, range) else self.numbers.nbytes)


def runs_of(column: NDArray[np.integer]) -> Runs:
    """The runs of a column."""
    ends = _ends(column[1:] != column[:-1]) if len(column) else np.zeros(0, dtype=np.intp)
    numbers = column[ends]
    return Runs(
        numbers=range(int(numbers[0]), int(numbers[-1]) + 1) if _in_a_row(numbers) else numbers,
        lengths=_lengths(ends),
        kind=column.dtype,
    )


def rising_runs(first: int, steps: NDArray[np.uint8], kind: np.dtype[Any]) -> Runs:
    """The runs of a column of such numbers, each as much above the one before as its step says, 0 or 1."""
    ends = _regular_ends(steps)
    ends = _ends(steps.view(np.bool_)) if ends is None else np.append(ends, len(steps))
    return Runs(numbers=range(first, first + len(ends)), lengths=_lengths(ends), kind=kind)


def _regular_ends(steps: NDArray[np.uint8]) -> NDArray[np.intp] | None:
    """Where runs end, if all but the first and the last are as long as the second: found sooner than where ones are."""
    some = np.flatnonzero(steps[:SOME])
    if len(some) < 2:
        return None
    first, period = int(some[0]), int(some[1] - some[0])
    expected = steps[first::period]
    if not expected.all() or np.count_nonzero(steps) != len(expected):
        return None
    return np.arange(first, len(steps), period)


def _ends(last: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Where runs end, the last of them behind all places that are said to be the last of theirs, or not."""
    return np.append(np.flatnonzero(last), len(last))


def _lengths(ends: NDArray[np.intp]) -> NDArray[np.unsignedinteger]:
    lengths = np.diff(ends, prepend=-1)
    return lengths.astype(np.min_scalar_type(int(lengths.max(initial=0))))


def _in_a_row(numbers: NDArray[np.integer]) -> bool:
    """Whether each is one more than the one before."""
    return bool(len(numbers)) and bool((numbers[1:] == numbers[:-1] + 1).all())


def joined(pieces: Sequence[Runs]) -> Runs:
    """The runs of columns one after the other; one that goes on in the next column is one run."""
    numbers, lengths = [pieces[0].numbers], [pieces[0].lengths]
    for piece in pieces[1:]:
        own, times = piece.numbers, piece.lengths
        if len(own) and len(numbers[-1]) and own[0] == numbers[-1][-1]:
            both = int(lengths[-1][-1]) + int(times[0])
            numbers[-1], lengths[-1] = numbers[-1][:-1], lengths[-1][:-1]
            numbers.append(own[:1])
            lengths.append(np.array([both], dtype=np.min_scalar_type(both)))
            own, times = own[1:], times[1:]
        if len(own):
            numbers.append(own)
            lengths.append(times)
    kind, there = pieces[0].kind, [part for part in numbers if len(part)]
    ranges = [part for part in there if isinstance(part, range)]
    whole: NDArray[np.integer] | range
    if ranges and len(ranges) == len(there) and all(a.stop == b.start for a, b in pairwise(ranges)):
        whole = range(ranges[0].start, ranges[-1].stop)
    else:
        whole = np.concatenate([np.asarray(part, dtype=kind) for part in numbers])
    return Runs(numbers=whole, lengths=np.concatenate(lengths), kind=kind)


class SideColumns(Mapping[str, NDArray[Any]]):
    """Arrays by name; those that are kept in runs are made when they are asked for."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], runs: Mapping[str, Runs]) -> None:
        self._columns, self.runs = columns, runs

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.runs[name].column() if name in self.runs else self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self.runs, *self._columns))

    def __len__(self) -> int:
        return len(self._columns) + len(self.runs)

    @property
    def nbytes(self) -> int:
        """Bytes as they are kept."""
        return sum(a.nbytes for a in self._columns.values()) + sum(runs.nbytes for runs in self.runs.values())


def part_sizes(side: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.integer]:
    """How often each number of a part comes in its column."""
    runs = side.runs.get(name) if isinstance(side, SideColumns) else None
    return (runs or runs_of(side[name])).sizes()


def bytes_kept(side: Mapping[str, NDArray[Any]]) -> int:
    """Bytes of the columns as they are kept."""
    return side.nbytes if isinstance(side, SideColumns) else sum(array.nbytes for array in side.values())


def rising(runs: Runs) -> bool:
    """Whether the number of each run is above that of the one before, so that none comes twice."""
    return isinstance(runs.numbers, range) or bool((runs.numbers[1:] > runs.numbers[:-1]).all())
