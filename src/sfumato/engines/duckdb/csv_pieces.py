"""Pieces of CSV files whose text can be read in one way only, by Arrow: it takes half of the engine's time.

In such a piece every line has as many cells as the header and ends like it, and quotes stand around whole cells, with
no end of a line between them. A file that holds another piece is left to the engine from its beginning, which knows
what to refuse, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

PIECE = 1 << 22  # bytes that are read at a time; of wide tables more, as each piece takes its time for every column:
COLUMNS = 500  # ... so many times this
BLOCK = 1_000_000  # bytes that Arrow looks at together: a line that covers one, of 2 MB for example, is refused
DELIMITERS = frozenset(",;\t|")
QUOTE, LINE, RETURN, NUL, MARK = b'"', b"\n", b"\r", b"\0", b"\xef\xbb\xbf"


class NotPlainError(Exception):
    """The engine has to read the file."""


def plain_pieces(
    files: Sequence[str], names: Sequence[str], delimiter: str, null: Sequence[str]
) -> Iterator[Callable[[], pa.Table]]:
    """Functions that return the cells of the files as text, piece by piece; NotPlainError, also of these functions.

    `null` are the texts that mean "missing".
    """
    if delimiter not in DELIMITERS:
        raise NotPlainError
    ended: bool | None = None  # whether lines end with a return, too
    for file in files:
        try:
            texts = _texts(Path(file), PIECE * max(1, len(names) // COLUMNS))
            first = next(texts, b"").removeprefix(MARK)
            with_return = first.endswith(RETURN + LINE)
            alike = first.count(RETURN) == with_return and ended in {None, with_return}
            if len(first) >= BLOCK - len(MARK) or not alike or not _around_cells(first, delimiter):
                raise NotPlainError
            ended = with_return
            for text in texts:
                yield partial(_cells, text, names, delimiter, null, ended=ended)
        except OSError:
            raise NotPlainError from None


def _texts(file: Path, size: int) -> Iterator[bytes]:
    """The first line of a file, and the others in pieces of about so many bytes."""
    with file.open("rb") as handle:
        yield handle.readline(BLOCK)
        left = b""
        while data := handle.read(size):
            cut = data.rfind(LINE) + 1
            if cut:
                yield left + data[:cut]
                left = data[cut:]
            else:
                left += data
            if len(left) > size:
                raise NotPlainError
        if left:
            yield left


def _cells(text: bytes, names: Sequence[str], delimiter: str, null: Sequence[str], *, ended: bool) -> pa.Table:
    """The cells of a piece as text."""
    from pyarrow import csv

    lines, quotes = text.count(LINE), QUOTE in text
    returns = text.count(RETURN) if ended or RETURN in text else 0
    if NUL in text or text.startswith(MARK) or returns != (text.count(RETURN + LINE) if ended else 0):
        raise NotPlainError
    if (ended and returns != lines) or (quotes and not _around_cells(text, delimiter)):
        raise NotPlainError
    read = csv.ReadOptions(column_names=list(names), use_threads=False, block_size=BLOCK)
    parse = csv.ParseOptions(delimiter=delimiter, quote_char='"' if quotes else False)
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=["", *null]
    )
    try:
        found = csv.read_csv(pa.py_buffer(text), read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowException:  # its words may quote a cell
        raise NotPlainError from None
    if found.num_rows != lines + (not text.endswith(LINE)):  # a line is empty, or ends within quotes
        raise NotPlainError
    return found


def _around_cells(text: bytes, delimiter: str) -> bool:
    """Whether quotes stand at both ends of cells, and those within are doubled."""
    cells = np.frombuffer(text, dtype=np.uint8)
    places = np.flatnonzero(cells == QUOTE[0])
    if len(places) % 2:
        return False
    # a doubled quote closes the cell and opens it again: its halves stand side by side
    opened, closed = places[::2], places[1::2]
    doubled = opened[1:] == closed[:-1] + 1
    outside = np.zeros(256, dtype=bool)
    outside[[ord(delimiter), LINE[0], RETURN[0]]] = True
    before = outside[cells[opened[opened > 0] - 1]]
    after = outside[cells[closed[closed < len(cells) - 1] + 1]]
    before[len(before) - len(doubled) :] |= doubled
    after[: len(doubled)] |= doubled
    return bool(before.all() and after.all())
