"""Parts of a Parquet file as they lie there: a row group's part of a column is a chunk; what describes it is its meta.

Fields have numbers in the format's public definition; those that are looked at are named here. A chunk that a library
has written into memory can be copied to any place of a file: its meta says where it begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ..lazily import parquet as pq
from .parquet_footer import I32, I64, LIST, STRUCT, Struct, parsed, parsed_at, written

CODEC, LEVEL = "zstd", 1
HEAD = 64  # bytes, at most, of what stands before a page
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8  # encodings
DIFFERENCES = "DELTA_BINARY_PACKED"  # the library's name of another: as many bits for a number as differences take
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


def _head(whole: int, packed: int, values: int, encoding: int) -> Struct:
    """What stands before a page."""
    kinds = {1: (I32, values), 2: (I32, encoding), 3: (I32, RLE), 4: (I32, RLE)}
    return {1: (I32, 0), 2: (I32, whole), 3: (I32, packed), 5: (STRUCT, kinds)}


def page(body: bytes, values: int, *, encoding: int) -> Page:
    """The page with this body."""
    return packed_page(pa.Codec(CODEC, LEVEL).compress(body, asbytes=True), len(body), values, encoding=encoding)


def packed_page(packed: bytes, size: int, values: int, *, encoding: int) -> Page:
    """The page whose body, of that size, is packed already."""
    head = written(_head(size, len(packed), values, encoding))
    return Page(data=head + packed, whole=len(head) + size, values=values)


def unpacked(data: bytes, at: int, values: int, *, encoding: int, size: int) -> tuple[bytes, int] | None:
    """(the body of the page that begins there, where the next one does); None where it is not such a page."""
    try:
        head, length = parsed_at(data[at : at + HEAD])
        packed = int(head[3][1])
        if head != _head(size, packed, values, encoding) or not 0 <= packed <= len(data) - at - length:
            return None
        first = at + length
        body = pa.Codec(CODEC).decompress(memoryview(data)[first : first + packed], size, asbytes=True)
    except (ValueError, KeyError, OSError):  # it is a stranger's file
        return None
    return body, first + packed


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
