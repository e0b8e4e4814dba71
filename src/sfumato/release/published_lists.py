"""Whether the lists and weights of a release that shows sets are those of its list."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..engines.contract import FollowingColumn
from ..engines.parquet_lists import ListChunks
from ..errors import VerificationError
from .bundle import readable
from .opened import OpenedRelease

READERS = 2  # threads; each holds a row group
SOME = 1 << 14  # rows of a row group of our own whose lists are read
CLOSE = 1e-9  # of the largest weight


def check_sets(release: OpenedRelease, *, own: bool = False) -> None:
    """Refuse lists that are not the published set of their number, in domain order, and weights that do not follow.

    `own`: this process has written the bytes that are in the files, as their digests tell. To put all of them together
    again and compare would show nothing; some are read as others read them.
    """
    for name, (numbers, lists) in release.set_lists().items():
        expected = ExpectedLists(lists.cast(_as_written(pa.schema([(name, lists.type)])).field(name).type))
        for file in release.manifest.data_files:
            _check_lists(release.path / file, name, numbers, expected, own=own)
    weights = release.set_weights()
    stated = "weights.parquet" in release.manifest.files
    if (weights is not None) != stated:
        raise VerificationError("weights.parquet is there where no sets are published, or missing where they are")
    if weights is not None and not same_weights(weights, _whole(release.path / "weights.parquet")):
        raise VerificationError("weights.parquet does not hold the weights that the published parameters give")


def _whole(path: Path) -> pa.Table:
    """The table of a small file."""
    with pq.ParquetFile(path) as file:  # pq.read_table would load what reads folders of files
        return file.read()


def _check_lists(path: Path, name: str, numbers: str, expected: ExpectedLists, *, own: bool) -> None:
    """Row group by row group, two at a time: lists are most of what a release with sets has to be read of."""
    with readable(path.name), pq.ParquetFile(path) as file:
        kind, groups = file.schema_arrow.field(name).type, file.num_row_groups
        leaves = [file.schema.column(j).path for j in range(len(file.schema))]
    if not pa.types.is_list(kind) or kind.value_type != expected.lists.type.value_type:
        raise VerificationError(f'the cells of "{name}" are not lists of its values')
    element = f"{name}.list.element"
    if element not in leaves:  # names inside a list are a place for notes
        raise VerificationError(f'the lists of "{name}" are not laid out as a release lays them out')
    written = ListChunks(FollowingColumn(name=name, numbers=numbers, cells=expected.lists))

    def same(some: range) -> bool:
        with readable(path.name), pq.ParquetFile(path, read_dictionary=[element]) as file, path.open("rb") as raw:
            return all(first_decoded(file, g) if own else as_written(file, raw, g) or decoded(file, g) for g in some)

    def as_written(file: pq.ParquetFile, raw: BinaryIO, g: int) -> bool:
        """Whether the row group's lists are the bytes that sfumato writes, which is told sooner than what they say."""
        at = leaves.index(element)
        z = file.read_row_group(g, columns=[numbers], use_threads=False)[numbers].combine_chunks()
        leaf, stated = file.schema.column(at), file.metadata.row_group(g).column(at)
        return expected.numbered(z) and written.shown_in(raw, leaf, stated, z)

    def decoded(file: pq.ParquetFile, g: int) -> bool:
        table = file.read_row_group(g, columns=[name, numbers], use_threads=False)
        return expected.shown(table[name].combine_chunks(), table[numbers].combine_chunks())

    def first_decoded(file: pq.ParquetFile, g: int) -> bool:
        rows = next(file.iter_batches(SOME, row_groups=[g], columns=[name, numbers], use_threads=False))
        return expected.shown(rows[name], rows[numbers])

    looked_at = range(groups)[:: max(groups - 1, 1)] if own else range(groups)  # of our own the first and the last
    with ThreadPoolExecutor(max_workers=READERS) as workers:
        if not all(workers.map(same, [looked_at[first::READERS] for first in range(READERS)])):
            raise VerificationError(f'a row shows in "{name}" another list of values than the one of its number')


class ExpectedLists:
    """The list of every number, ready to be compared with many rows."""

    def __init__(self, lists: pa.ListArray) -> None:
        self.lists = lists
        self._values = lists.flatten()
        self._distinct = pc.unique(self._values)
        self._codes = _positions(self._values, self._distinct)
        self._start = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy(zero_copy_only=False))])
        width = np.diff(self._start)
        self._width = int(width[0]) if len(width) and (width == width[0]).all() else None

    def numbered(self, numbers: pa.Array) -> bool:
        """Whether every number is that of a list."""
        if numbers.null_count or not pa.types.is_integer(numbers.type):
            return False
        z = numbers.to_numpy()
        return not len(z) or 0 <= int(z.min()) <= int(z.max()) < len(self.lists)

    def shown(self, cells: pa.ListArray, numbers: pa.Array) -> bool:
        """Whether every cell is the list of its number."""
        if cells.null_count or not self.numbered(numbers):
            return False
        z = numbers.to_numpy()
        values, length = cells.flatten(), np.diff(cells.offsets.to_numpy())
        if not np.array_equal(length, np.diff(self._start)[z]):
            return False
        if pa.types.is_dictionary(values.type):
            found = _positions(values.dictionary, self._distinct)[
                pc.fill_null(values.indices, 0).to_numpy(zero_copy_only=False)
            ]
            if values.null_count:
                found[pc.is_null(values).to_numpy(zero_copy_only=False)] = _positions(pa.nulls(1), self._distinct)[0]
            return self._repeated(self._codes, z, found)
        if values.null_count or self._values.null_count or not pa.types.is_primitive(values.type):
            return bool(values.equals(self.lists.take(numbers).flatten().cast(values.type)))
        return self._repeated(_numbers(self._values), z, _numbers(values))

    def _repeated(self, own: NDArray[Any], z: NDArray[Any], found: NDArray[Any]) -> bool:
        """Whether `found` is what `own` has for the lists z, one after the other."""
        if self._width is not None:
            return bool((found.reshape(-1, self._width) == own.reshape(-1, self._width)[z]).all())
        length = np.diff(self._start)[z]
        first = np.cumsum(length) - length
        return bool((found == own[np.arange(len(found)) + np.repeat(self._start[z] - first, length)]).all())


def _positions(values: pa.Array, distinct: pa.Array) -> NDArray[np.int64]:
    """Where every value stands among the distinct ones; -1: nowhere."""
    found = pc.index_in(values.cast(distinct.type), value_set=distinct)
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _numbers(values: pa.Array) -> NDArray[Any]:
    """Values of fixed width as numbers that are equal where they are."""
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _as_written(schema: pa.Schema) -> pa.Schema:
    """The types that a Parquet file gives back for these."""
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink, store_schema=False)
    return pq.read_schema(sink)


def same_weights(expected: pa.Table, found: pa.Table) -> bool:
    """The same sets and values in the same order, and weights equal up to the rounding of other processors."""
    if not found.schema.equals(_as_written(expected.schema)) or expected.num_rows != found.num_rows:
        return False  # a value that became a text would break the joins of people who count without us
    numbers = ("weight", "variance_weight")
    named = [name for name in expected.column_names if name not in numbers]
    if any(not found[n].combine_chunks().cast(expected[n].type).equals(expected[n].combine_chunks()) for n in named):
        return False
    for name in numbers:
        a, b = expected[name].to_numpy(), found[name].to_numpy()
        if not np.abs(a - b).max(initial=0.0) <= CLOSE * np.abs(a).max(initial=1.0):
            return False
    return True
