"""Parts of a Parquet file as they lie there: a row group's part of a column is a chunk; what describes it is its meta.

Fields have numbers in the format's public definition; those that are looked at are named here. A chunk that a library
has written into memory can be copied to any place of a file: its meta says where it begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from .parquet_footer import FALSE, I32, I64, LIST, STRUCT, Struct, parsed, parsed_at, read_footer, varint, written

CODEC, LEVEL = "zstd", 1
HEAD = 64  # bytes, at most, of what stands before a page
PLAIN, RLE, DELTA_BINARY_PACKED, RLE_DICTIONARY = 0, 3, 5, 8  # encodings
UNPACKED, ZSTD = 0, 6  # codecs
VALUE_SIZES = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # bytes of a value, by the format's number of its type
DIFFERENCES = "DELTA_BINARY_PACKED"  # the library's name of one: as many bits for a number as differences take
# fields of a footer, of a column in its schema, of a row group, of a chunk, of a chunk's meta, of its statistics
SCHEMA, ROWS, ROW_GROUPS, ORDERS = 2, 3, 4, 7
CHILDREN = 5
CHUNKS, SIZE, GROUP_ROWS, PACKED = 1, 2, 3, 6
OFFSET, META = 2, 3
KIND, ENCODINGS, PATH, COMPRESSION, VALUES, WHOLE, SMALL, PAGES, DICTIONARY, STATISTICS = 1, 2, 3, 4, 5, 6, 7, 9, 11, 12
MISSING_VALUES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The bytes of a chunk, and its meta as if it began at the file's first byte."""

    data: bytes
    meta: Struct

    def at(self, place: int) -> Struct:
        """What a row group says of the chunk where it begins at this place of the file."""
        moved = {field: (I64, self.meta[field][1] + place) for field in (PAGES, DICTIONARY) if field in self.meta}
        return {OFFSET: (I64, 0), META: (STRUCT, self.meta | moved)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of values, packed; `whole` is its size before packing."""

    data: bytes
    whole: int
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlace:
    """Where a chunk of a file begins, its pages do, and it ends; its type, how it is packed, and its values."""

    begins: int
    pages: int
    end: int
    kind: int
    codec: int
    values: int

    def __post_init__(self) -> None:
        if not 0 <= self.begins <= self.pages <= self.end:
            raise ValueError("a chunk that cannot be")


def chunks_of(path: Path) -> list[dict[str, ChunkPlace]]:
    """For each row group the chunks of its columns; none where the footer is of another form.

    By our own reader: the library ends the process over what some damaged footers say of a chunk.
    """
    try:
        footer, _ = read_footer(path)
        return [dict(map(_place, group[CHUNKS][1][1])) for group in footer[ROW_GROUPS][1][1]]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, OSError):
        return []  # it is a stranger's file


def _place(chunk: Struct) -> tuple[str, ChunkPlace]:
    """(name of the column, where its chunk is); in this file and as it is: any other says more than that."""
    if not {*chunk} <= {OFFSET, META}:
        raise ValueError("a chunk of another form")
    meta = chunk[META][1]
    (name,) = meta[PATH][1][1]
    pages = int(meta[PAGES][1])
    begins = int(meta[DICTIONARY][1]) if DICTIONARY in meta else pages
    return name.decode(), ChunkPlace(
        begins=begins,
        pages=pages,
        end=begins + int(meta[SMALL][1]),
        kind=meta[KIND][1],
        codec=meta[COMPRESSION][1],
        values=meta[VALUES][1],
    )


def _head(whole: int, packed: int, values: int, encoding: int) -> Struct:
    """What stands before a page."""
    kinds = {1: (I32, values), 2: (I32, encoding), 3: (I32, RLE), 4: (I32, RLE)}
    return {1: (I32, 0), 2: (I32, whole), 3: (I32, packed), 5: (STRUCT, kinds)}


def dictionary_head(whole: int, packed: int, values: int) -> Struct:
    """What the library writes before a dictionary."""
    return {
        1: (I32, 2),
        2: (I32, whole),
        3: (I32, packed),
        7: (STRUCT, {1: (I32, values), 2: (I32, PLAIN), 3: (FALSE, False)}),
    }


def page(body: bytes, values: int, *, encoding: int) -> Page:
    """The page with this body."""
    return packed_page(pa.Codec(CODEC, LEVEL).compress(body, asbytes=True), len(body), values, encoding=encoding)


def packed_page(packed: bytes, size: int, values: int, *, encoding: int) -> Page:
    """The page whose body, of that size, is packed already."""
    head = written(_head(size, len(packed), values, encoding))
    return Page(data=head + packed, whole=len(head) + size, values=values)


def unpacked(data: bytes, at: int, values: int, *, encoding: int, size: int) -> tuple[bytes, int] | None:
    """(the body of the page that begins there, where the next one does); None where it is not such a page."""
    found = page_at(data, at, values, encoding=encoding)
    if found is None or found[0] != size:
        return None
    _, packed, end = found
    try:
        return pa.Codec(CODEC).decompress(packed, size, asbytes=True), end
    except OSError:  # it is a stranger's file
        return None


def page_at(data: bytes, at: int, values: int, *, encoding: int) -> tuple[int, memoryview, int] | None:
    """(size of the body, the body as it is packed, where the next page begins) of the page that begins there; None
    where it is not one of so many values, written by us."""
    try:
        head, length = parsed_at(data[at : at + HEAD])
        whole, packed = int(head[2][1]), int(head[3][1])
    except (ValueError, KeyError):  # it is a stranger's file
        return None
    first = at + length
    if head != _head(whole, packed, values, encoding) or not 0 <= packed <= len(data) - first:
        return None
    return whole, memoryview(data)[first : first + packed], first + packed


def all_there(rows: int) -> bytes:
    """What the body of a page begins with where no value is missing."""
    levels = varint(rows << 1) + b"\1"
    return len(levels).to_bytes(4, "little") + levels


def chunk(shared: Struct, dictionary: bytes, encoding: int, pages: list[Page]) -> Chunk:
    """The chunk of a dictionary, as it lies in a file, and pages; `shared` is what its meta has beside their sizes."""
    data, first = b"".join([dictionary, *(one.data for one in pages)]), len(dictionary)
    meta = shared | {
        ENCODINGS: (LIST, (I32, sorted({PLAIN, RLE, encoding}))),
        VALUES: (I64, sum(one.values for one in pages)),
        WHOLE: (I64, sum(one.whole for one in pages) + first),
        SMALL: (I64, len(data)),
        PAGES: (I64, first),
    }
    return Chunk(data=data, meta=meta | ({DICTIONARY: (I64, 0)} if first else {}))


def by_library(
    name: str,
    values: pa.Array,
    *,
    statistics: bool = True,
    whole_dictionary: bool = False,
    encoding: str | None = None,
    codec: str = CODEC,
) -> tuple[Chunk, Struct]:
    """(the column's chunk as the library writes it, the footer of its file); `encoding` packs it without a codec."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({name: values}),
        sink,
        row_group_size=max(len(values), 1),
        compression=codec if encoding is None else "none",
        compression_level=LEVEL if encoding is None and codec == CODEC else None,
        dictionary_pagesize_limit=1 << 30 if whole_dictionary else None,
        write_statistics=statistics,
        use_dictionary=encoding is None,
        column_encoding=None if encoding is None else {name: encoding},
        store_schema=False,
    )
    file = sink.getvalue().to_pybytes()
    footer = parsed(file[-8 - int.from_bytes(file[-8:-4], "little") : -8])
    meta = footer[ROW_GROUPS][1][1][0][CHUNKS][1][1][0][META][1]
    first = meta.get(DICTIONARY, meta[PAGES])[1]
    moved = {field: (I64, meta[field][1] - first) for field in (PAGES, DICTIONARY) if field in meta}
    return Chunk(data=file[first : first + meta[SMALL][1]], meta=meta | moved), footer


def dictionary_of(found: Chunk) -> bytes:
    """The dictionary that a chunk begins with."""
    return found.data[: found.meta[PAGES][1]] if DICTIONARY in found.meta else b""
