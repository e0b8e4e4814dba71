"""Columns of sensitive.parquet. That of part numbers is kept in runs: the column itself is as long as the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """A column of whole numbers from 0 on: each of `numbers` comes `lengths` times, one after the other."""

    numbers: NDArray[np.integer]
    lengths: NDArray[np.integer]

    def column(self) -> NDArray[np.integer]:
        """The column itself."""
        return np.repeat(self.numbers, self.lengths)

    def sizes(self) -> NDArray[np.integer]:
        """How often each number comes, whatever the order; in few bytes where numbers are 0, 1, 2 .."""
        count = len(self.numbers)
        if count and self.numbers[-1] == count - 1 and (self.numbers[1:] > self.numbers[:-1]).all():
            return self.lengths
        found = np.zeros(int(self.numbers.max(initial=-1)) + 1, dtype=np.int32)
        if (self.numbers[1:] >= self.numbers[:-1]).all():
            found[self.numbers] = self.lengths
            again = np.flatnonzero(self.numbers[1:] == self.numbers[:-1])  # a number whose last run stands there now
        else:
            again = np.arange(len(self.numbers))
        np.add.at(found, self.numbers[again], self.lengths[again])
        return found


def runs_of(column: NDArray[np.integer]) -> Runs:
    """The runs of a column."""
    last = [len(column) - 1] if len(column) else []
    ends = np.append(np.flatnonzero(column[1:] != column[:-1]), np.array(last, dtype=np.intp))
    lengths = np.diff(ends, prepend=-1)
    return Runs(numbers=column[ends], lengths=lengths.astype(np.min_scalar_type(int(lengths.max(initial=0)))))


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
    return Runs(numbers=np.concatenate(numbers), lengths=np.concatenate(lengths))


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
        kept = (*self._columns.values(), *(a for runs in self.runs.values() for a in (runs.numbers, runs.lengths)))
        return sum(array.nbytes for array in kept)


def part_sizes(side: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.integer]:
    """How often each number of a part comes in its column."""
    runs = side.runs.get(name) if isinstance(side, SideColumns) else None
    return (runs or runs_of(side[name])).sizes()


def bytes_kept(side: Mapping[str, NDArray[Any]]) -> int:
    """Bytes of the columns as they are kept."""
    return side.nbytes if isinstance(side, SideColumns) else sum(array.nbytes for array in side.values())
