"""Whether a Parquet file is its columns and nothing else, and states of them what they are.

Readers skip row groups by the least and largest value that is stated of them, so that a false statement changes
answers; and what belongs to no column is seen by no reader who looks at columns.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..engines.coded_texts import open_coded
from ..engines.parquet_chunks import CHILDREN, CHUNKS, KIND, META, ROW_GROUPS, SCHEMA, STATISTICS, VALUE_SIZES
from ..engines.parquet_footer import MAGIC, Struct, parsed, parsed_at, written
from ..errors import VerificationError
from .bundle import readable

WRITER, WRITERS = 6, re.compile(rb"[A-Za-z-]{1,30} version v?[0-9][0-9A-Za-z.+-]{0,30}( \(build [0-9a-z]{1,40}\))?")
# fields, by the numbers of the format's public definition, that writers need; among the others are notes
FOOTER, GROUP, CHUNK = {1, 2, 3, ROW_GROUPS, WRITER, 7}, {CHUNKS, 2, 3, 5, 6, 7}, {2, META}
OF_CHUNK, OF_VALUES = {1, 2, 3, 4, 5, 6, 7, 9, 11, STATISTICS, 13, 16}, {1, 2, 3, 5, 6, 7, 8}
OF_PAGE, PAGE_KINDS, DICTIONARY_PAGE = {1, 2, 3, 4, 5, 7, 8}, {0: 5, 3: 8}, 2  # kind -> field with its values
READERS = 2  # threads; each holds a column of a row group
LONGEST_HEAD = 1 << 16  # bytes; a page states its least and largest value as well
OLD = {1: 5, 2: 6}  # statistics that are stated twice, for older readers
OF_LEAF, LENGTH = 1, 2  # what a schema says of a column: its type, and the bytes of a value of that type


def check_layout(path: Path, name: str) -> None:
    """Nothing; VerificationError where the file has bytes, fields or statements that its rows do not account for."""
    end = _footer(path, name)
    with readable(name), pq.ParquetFile(path) as file, path.open("rb") as raw:
        if not _contiguous(file, end) or not all(_paged(raw, chunk) for chunk, _ in _chunks(file)):
            raise VerificationError(f"{name} holds bytes that belong to none of its columns")
        groups = file.num_row_groups

    def as_stated(some: range) -> bool:
        with readable(name), open_coded([path])[0] as file:
            try:
                return all(_as_stated(file, g) for g in some)
            except pa.ArrowInvalid:  # a text that is not UTF-8
                raise VerificationError(f"{name} holds values that are not of their column's type") from None

    with ThreadPoolExecutor(max_workers=READERS) as workers:
        if not all(workers.map(as_stated, [range(first, groups, READERS) for first in range(READERS)])):
            raise VerificationError(f"{name} states of a column's values what they are not")


def _footer(path: Path, name: str) -> int:
    """Where the footer begins; VerificationError where it has more than every writer needs."""
    with path.open("rb") as file:
        end = file.seek(-8, 2)
        size = int.from_bytes(file.read(4), "little")
        file.seek(max(end - size, 0))
        text = file.read(size)
    try:
        footer = parsed(text)
        if written(footer) == text and _known(footer):  # a field that stands twice, or more than the footer: not equal
            return end - size
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # it is a stranger's file
        pass
    raise VerificationError(f"{name} carries metadata that no release has")


def _known(footer: Struct) -> bool:
    """Whether the footer has the fields of every writer and no others."""
    groups = footer[ROW_GROUPS][1][1]
    chunks = [chunk for group in groups for chunk in group[CHUNKS][1][1]]
    metas = [chunk.get(META, (0, {}))[1] for chunk in chunks]
    values = [meta[STATISTICS][1] for meta in metas if STATISTICS in meta]
    levels = ((FOOTER, [footer]), (GROUP, groups), (CHUNK, chunks), (OF_CHUNK, metas), (OF_VALUES, values))
    twice = all(one[a][1] == one[b][1] for one in values for a, b in OLD.items() if a in one and b in one)
    writer = WRITER not in footer or WRITERS.fullmatch(footer[WRITER][1])
    allowed = all(set(one) <= fields for fields, some in levels for one in some)
    return bool(writer) and twice and allowed and _readable(footer)


def _readable(footer: Struct) -> bool:
    """Whether chunks are of their columns' types, and what is stated of their values is: else the library, which reads
    them next, ends the process."""
    leaves = [one for one in footer[SCHEMA][1][1] if CHILDREN not in one]
    for group in footer[ROW_GROUPS][1][1]:
        for leaf, chunk in zip(leaves, group[CHUNKS][1][1], strict=True):
            kind, meta = leaf[OF_LEAF][1], chunk[META][1]
            size = VALUE_SIZES.get(kind, leaf[LENGTH][1] if LENGTH in leaf else None)
            stated = [value for field, (_, value) in meta.get(STATISTICS, (0, {}))[1].items() if field in {1, 2, 5, 6}]
            if meta[KIND][1] != kind or not all(size in (None, len(value)) for value in stated):
                return False
    return True


def _contiguous(file: pq.ParquetFile, end: int) -> bool:
    """Whether the columns of the schema, one behind the other, are the file up to its footer."""
    at = len(MAGIC)
    for chunk, leaf in sorted(_chunks(file), key=lambda found: _begins(found[0])):
        if _begins(chunk) != at or chunk.path_in_schema != leaf:
            return False
        at += chunk.total_compressed_size
    return at == end


def _chunks(file: pq.ParquetFile) -> Iterator[tuple[Any, str]]:
    """(chunk, the path of its column) of every row group."""
    for g in range(file.num_row_groups):
        group = file.metadata.row_group(g)
        for j in range(group.num_columns):
            yield group.column(j), file.schema.column(j).path


def _paged(raw: BinaryIO, chunk: Any) -> bool:
    """Whether a chunk is its pages, one behind the other: a dictionary if any, then pages that hold its values."""
    raw.seek(_begins(chunk))
    data, at, values = raw.read(chunk.total_compressed_size), 0, 0
    while at < len(data):
        try:
            head, length = parsed_at(data[at : at + LONGEST_HEAD])
            size, kind = int(head[3][1]), int(head[1][1])
            held = 0 if kind == DICTIONARY_PAGE else int(head[PAGE_KINDS[kind]][1][1][1])
        except (ValueError, KeyError, TypeError, RecursionError):  # it is a stranger's file
            return False
        if (
            not set(head) <= OF_PAGE
            or size < 0
            or (at > 0 if kind == DICTIONARY_PAGE else held < 1 <= chunk.num_values)
        ):
            return False
        at, values = at + length + size, values + held
    return bool(at == chunk.total_compressed_size and values == chunk.num_values)


def _begins(chunk: Any) -> int:
    return int(chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset)


def _as_stated(file: pq.ParquetFile, g: int) -> bool:
    """Whether what a row group states of its values is so; ArrowInvalid where a text is none (not UTF-8)."""
    group = file.metadata.row_group(g)
    for j in range(group.num_columns):
        stated = group.column(j).statistics
        text = str(file.schema.column(j).logical_type) == "String"
        if stated is None and not text:
            continue
        read = file.reader.read_row_group(g, column_indices=[j], use_threads=False)  # a name may stand for two columns
        values, missing = read.column(0).combine_chunks(), 0
        while pa.types.is_list(values.type):
            missing += pc.sum(pc.equal(pc.list_value_length(values).fill_null(0), 0)).as_py() or 0  # lists of nothing
            values = values.flatten()
        missing += values.null_count
        if pa.types.is_dictionary(values.type):
            values = values.dictionary.take(values.indices.unique().drop_null())
        if text:
            values.validate(full=True)
        if stated is None:
            continue
        if stated.has_null_count and stated.null_count != missing:
            return False
        if stated.has_min_max and (stated.min_raw, stated.max_raw) != _ends(values):
            return False
    return True


def _ends(values: pa.Array) -> tuple[Any, Any] | None:
    """The least and the largest value, as a file states them."""
    sink = io.BytesIO()
    try:
        ends = pc.min_max(values)
        values = pa.array([ends["min"], ends["max"]], values.type)
    except pa.ArrowNotImplementedError:  # of a type that the library does not compare: the file's writer does
        pass
    pq.write_table(pa.table({"x": values}), sink)
    found = pq.read_metadata(sink).row_group(0).column(0).statistics
    return (found.min_raw, found.max_raw) if found is not None and found.has_min_max else None
