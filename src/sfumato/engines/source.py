"""What a table is read from, and how: the one noun that every engine opens."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import SpecError
from ..model.coarsening import Recoding
from .written_dates import date_parts

MORE_DIGITS = "is read as text: some of its numbers have more digits than a number with a fraction holds"
TAB = "\\t"  # as people type it
NO_DELIMITERS = '"\r\n\0'
FILE = "file://"


@dataclass(frozen=True, slots=True, repr=False)
class Source:
    """A table and how to read it. `given` is a path, a list of paths, the address of a database, a data frame, or a
    function that gives a fresh reader of Arrow batches each time it is called.

    `delimiter`, `encoding`, `null` (texts that mean "missing"), `decimal` (the sign before a fraction) and `dates` (how
    days are written, as "DD.MM.YYYY") are for CSV; `types` names columns and the type they
    must have; `table` is a table of a database or a sheet of a workbook, `query` a SELECT for a database; `recode` says
    which columns are made coarser before anything else happens, and how.
    """

    given: Any
    delimiter: str | None = None
    encoding: str | None = None
    null: tuple[str, ...] = ()
    decimal: str | None = None
    dates: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None
    query: str | None = None
    recode: tuple[Recoding, ...] = ()

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in NO_DELIMITERS):
            if self.delimiter != TAB:
                raise SpecError(
                    f"the delimiter must be one character (\\t is a tab), no quote and no end of line, got "
                    f"{self.delimiter!r}",
                    field="delimiter",
                )
            object.__setattr__(self, "delimiter", "\t")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise SpecError(
                    f'there is no encoding "{self.encoding}"; try latin-1, cp1252 or utf-16', field="encoding"
                ) from None
        if self.decimal not in (None, ".", ","):
            raise SpecError(f"the decimal sign is . or , and not {self.decimal!r}", field="decimal")
        if self.dates is not None and date_parts(self.dates) is None:
            raise SpecError(
                f"dates are written as DD.MM.YYYY, MM/DD/YYYY or the like, not {self.dates!r}", field="dates"
            )
        if self.table is not None and self.query is not None:
            raise SpecError("give a table or a query, not both", field="query")

    def __repr__(self) -> str:
        return "<source>"

    def refuse(self, *fields: str, why: str) -> None:
        """Nothing; SpecError for the first of these fields that is set and would not be honoured."""
        for name in fields:
            if getattr(self, name) not in (None, (), {}):
                raise SpecError(f"--{name} {why}", field=name)


def source_of(given: Any, delimiter: str | None = None) -> Source:
    """The source itself, or one that reads `given` as it is."""
    if isinstance(given, Source):
        return given
    return Source(given, delimiter=delimiter)


def as_published(given: Any, recoded: tuple[Recoding, ...], delimiter: str | None = None) -> Any:
    """The source with the columns made coarser that a release says were, unless it says so itself."""
    if not recoded or (not isinstance(given, Source) and _opened(given)):
        return given
    source = source_of(given, delimiter)
    return source if source.recode else replace(source, recode=recoded)


def _opened(given: Any) -> bool:
    """Whether an engine has opened it already."""
    return type(given).__module__.startswith("sfumato.")


def path_of(address: str) -> str:
    """The path that a file:// address means; anything else as it is."""
    if not address.startswith(FILE):
        return address
    parts = urlsplit(address)
    if parts.netloc not in {"", "localhost"}:
        raise SpecError("a file:// address names a file of this machine: file:///folder/file", field="source")
    from urllib.request import url2pathname  # with it comes a client of HTTP

    return url2pathname(parts.path)


def paths_of(given: Any) -> tuple[Path, ...]:
    """Files and folders that a source names; none for data frames, readers and addresses of servers."""
    from .addresses import address_of

    if isinstance(given, Source):
        given = given.given
    if isinstance(given, str) and given.startswith(FILE):
        given = path_of(given)
    if isinstance(given, str | Path):
        address = address_of(given)
        if address is None:
            return () if "\0" in str(given) else (Path(given),)
        return () if address.path is None else (address.path,)
    if isinstance(given, Sequence) and all(isinstance(part, str | Path) for part in given):
        return tuple(Path(part) for part in given)
    return ()
