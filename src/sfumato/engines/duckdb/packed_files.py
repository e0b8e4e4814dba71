"""Compressed files and other encodings: read as plain bytes, or copied as UTF-8 to the private folder."""

from __future__ import annotations

import codecs
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from ...errors import DataError
from ..private_copy import PrivateCopy
from .files import shown

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zip": "zip"}
PLAIN = "none"
BEGINNINGS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "a zip archive or workbook"}
ZIPPED_HIDDEN = ("__MACOSX/", ".")


def compression_of(file: str) -> str:
    """How the file is compressed, by its name."""
    return COMPRESSIONS.get(Path(file).suffix.lower(), PLAIN)


def check_unpacked(file: str) -> None:
    """Nothing; DataError where the plain bytes of the file are packed still, as its name does not say."""
    with unpacked(file) as handle:
        begins = handle.read(4)
    for mark, kind in BEGINNINGS.items():
        if begins.startswith(mark):
            raise DataError(f"{shown(file)} is no text but {kind}; unpack it, or end its name accordingly")


@contextmanager
def unpacked(file: str) -> Iterator[IO[bytes]]:
    """The plain bytes of the file; DataError where it is damaged."""
    kind = compression_of(file)
    try:
        if kind == "zip":
            with zipfile.ZipFile(file) as archive, archive.open(_only(archive, file)) as inner:
                yield inner
        elif kind == "gzip":
            with gzip.open(file, "rb") as inner:
                yield inner  # type: ignore[misc] # it is one
        elif kind == "zstd":
            with pa.input_stream(file, compression="zstd") as stream:
                yield io.BufferedReader(_Raw(stream))
        else:
            with Path(file).open("rb") as inner:
                yield inner
    except UnicodeError:
        raise
    except (gzip.BadGzipFile, zlib.error, EOFError, zipfile.BadZipFile, pa.ArrowException, NotImplementedError):
        raise DataError(f"{shown(file)} is damaged or cut off, or not compressed as its name says") from None
    except RuntimeError:  # of zipfile: it asks for a password
        raise DataError(f"{shown(file)} is encrypted; unpack it first") from None
    except OSError as error:
        if kind == PLAIN:
            raise DataError(f"cannot read {shown(file)}: {error.strerror}") from None
        raise DataError(f"{shown(file)} is damaged or cut off, or not compressed as its name says") from None


class _Raw(io.RawIOBase):
    """Arrow's stream as Python's buffers take it."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # of the buffers that we are given
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _only(archive: zipfile.ZipFile, file: str) -> zipfile.ZipInfo:
    """The one table in the archive."""
    inside = [e for e in archive.infolist() if not e.is_dir() and not e.filename.startswith(ZIPPED_HIDDEN)]
    if len(inside) != 1:
        raise DataError(f"{shown(file)} holds {len(inside)} files; a zip archive must hold one table")
    return inside[0]


def in_plain(files: Sequence[str], encoding: str, *, copied: bool = False) -> tuple[list[str], PrivateCopy | None]:
    """(the files as the engine can read them, the private copy that some of them lie in).

    Read where they are: plain or gzip, in UTF-8. The engine does not see that a zstd file was cut off, knows no zip
    and few encodings; such files are copied, and all where it is asked for.
    """
    direct = {PLAIN, "gzip"} if len({compression_of(f) for f in files}) == 1 else {PLAIN}
    utf_8 = codecs.lookup(encoding).name in {"utf-8", "utf-8-sig", "ascii"} and not copied
    if utf_8 and all(compression_of(f) in direct for f in files):
        return list(files), None
    copy = PrivateCopy()
    found = []
    for number, file in enumerate(files):
        name = f"{number}.csv"
        with unpacked(file) as handle:
            if utf_8:
                found.append(str(copy.bytes(name, handle)))
                continue
            with io.TextIOWrapper(handle, encoding=encoding, newline="") as text:
                try:
                    found.append(str(copy.bytes(name, _InUtf8(text))))
                except UnicodeError:
                    raise DataError(f"{shown(file)} is not text in the encoding {encoding}") from None
    return found, copy


class _InUtf8:
    """A text as bytes."""

    def __init__(self, text: io.TextIOBase) -> None:
        self._text = text

    def read(self, size: int, /) -> bytes:
        return self._text.read(size).encode("utf-8")
