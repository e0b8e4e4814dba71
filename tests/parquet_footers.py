"""The footer of a Parquet file as numbers, texts and lists, and back: Thrift's compact protocol, as footers use it.

Forgeries say with it what no library would write. A struct is a dictionary: number of a field -> (its type, its value);
a list is (type of its elements, elements). The numbers are those of the format's public definition.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
MAGIC = b"PAR1"
ROW_GROUPS, CHUNKS, META, KIND, STATISTICS = 4, 1, 3, 1, 12  # fields of a footer, a row group, a chunk, and its meta
Struct = dict[int, tuple[int, Any]]


def read_footer(path: Path) -> tuple[Struct, int]:
    """(the footer, where in the file it begins)."""
    with path.open("rb") as file:
        end = file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(end - length)
        return parsed(file.read(length)), end - length


def closing(footer: Struct) -> bytes:
    """What a file ends with: the footer, its length, the mark of the format."""
    text = written(footer)
    return text + len(text).to_bytes(4, "little") + MAGIC


def parsed(data: bytes) -> Struct:
    """The struct that the bytes hold."""
    return _CompactReader(data).struct()


def parsed_at(data: bytes) -> tuple[Struct, int]:
    """(the struct that the bytes begin with, its length); ValueError where they do not."""
    reader = _CompactReader(data)
    return reader.struct(), reader.at


class _CompactReader:
    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def _take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self._data):
            raise ValueError("the bytes end before the struct does")
        return self._data[self.at - size : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while (head := self._take(1)[0]) != 0:
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 0x0F
            found[number] = (kind, kind == TRUE if kind in (TRUE, FALSE) else self._value(kind))
        return found

    def _value(self, kind: int) -> Any:
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == STRUCT:
            return self.struct()
        if kind == LIST:
            head = self._take(1)[0]
            size = head >> 4 if head >> 4 < 15 else self._varint()
            return head & 0x0F, [self._value(head & 0x0F) for _ in range(size)]
        if kind in (TRUE, FALSE, BYTE, DOUBLE, BINARY):
            return self._take(8 if kind == DOUBLE else self._varint() if kind == BINARY else 1)
        raise ValueError("no footer has such a field")


def written(struct: Struct) -> bytes:
    """The bytes of a struct."""
    parts, last = [], 0
    for number, (kind, value) in sorted(struct.items()):
        shown = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        step = number - last
        parts.append(bytes([step << 4 | shown]) if 0 < step < 16 else bytes([shown]) + signed(number))
        parts.append(b"" if kind in (TRUE, FALSE) else _bytes_of(kind, value))
        last = number
    return b"".join(parts) + b"\0"


def _bytes_of(kind: int, value: Any) -> bytes:
    if kind in (I16, I32, I64):
        return signed(value)
    if kind == STRUCT:
        return written(value)
    if kind == LIST:
        of, elements = value
        size = len(elements)
        head = bytes([size << 4 | of]) if size < 15 else bytes([0xF0 | of]) + varint(size)
        return head + b"".join(_bytes_of(of, one) for one in elements)
    return varint(len(value)) + value if kind == BINARY else bytes(value)


def signed(value: int) -> bytes:
    """A number that may be below 0: its sign is its lowest bit."""
    return varint(value << 1 ^ value >> 63)


def varint(value: int) -> bytes:
    """Seven bits in a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
