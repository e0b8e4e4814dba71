"""What a table is read from, and how: paths, addresses of databases, and how cells are written.

Addresses are `sqlite:///file`, `duckdb:///file`, `postgresql://host/name`, `odbc://source`, each with `?table=`. Other
parts after the question mark are libpq's and ODBC's own (`odbc://?Driver=SQLite3&Database=clinic.db`).

A password is taken from libpq's own places (PGPASSWORD, PGPASSFILE, ~/.pgpass, a service file). One that stands in
the address works from Python; the command line refuses it, because everybody on the machine can read the arguments of
a process.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from ..errors import SpecError
from ..model.coarsening import Recoding

MEMORY = "2GB"  # that an engine takes unless somebody says otherwise; 100 million rows of nine columns wait in it
MORE_DIGITS = "is read as text: some of its numbers have more digits than a number with a fraction holds"
TAB = "\\t"  # as people type it
NO_DELIMITERS = '"\r\n\0'
FILE = "file://"
SCHEMES = {"sqlite": "sqlite", "duckdb": "duckdb", "postgresql": "postgresql", "postgres": "postgresql"}
SCHEMES |= {"odbc": "odbc"}
SECRET = frozenset({"password", "sslpassword", "passfile", "pwd"})
PARTS = {"DD": ("%d", "[0-9]{1,2}"), "MM": ("%m", "[0-9]{1,2}"), "YYYY": ("%Y", "[0-9]{4}")}  # for strptime, for eyes
_FORM = re.compile(r"(DD|MM|YYYY)([-./ ])(DD|MM|YYYY)\2(DD|MM|YYYY)")


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
        """Raise SpecError for the first of these fields that is set and would not be honoured."""
        for name in fields:
            if getattr(self, name) not in (None, (), {}):
                raise SpecError(f"--{name} {why}", field=name)


def as_published(given: Any, recoded: tuple[Recoding, ...]) -> Any:
    """The source with the columns made coarser that a release says were, unless it says so itself."""
    if isinstance(given, Source):
        return given if given.recode else replace(given, recode=recoded)
    opened = type(given).__module__.startswith("sfumato.")  # by an engine, already
    return Source(given, recode=recoded) if recoded and not opened else given


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


# --- addresses of databases


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Address:
    """A database. `path` is its file, `uri` what a server's library takes; `repr` shows neither."""

    kind: str
    table: str | None
    path: Path | None = None
    uri: str = ""
    secret: bool = False  # a password stands in it

    def __repr__(self) -> str:
        return f"<address of a {self.kind} database>"


def address_of(given: object) -> Address | None:
    """The address that a text is, or None. A path that exists is that path."""
    if not isinstance(given, str) or "://" not in given or Path(given).exists():
        return None
    scheme, _, rest = given.partition("://")
    kind = SCHEMES.get(scheme.lower())
    if kind is None:
        return None
    if kind == "postgresql":
        return _server(given)
    if kind == "odbc":
        return _through_odbc(rest)
    path, _, options = rest.partition("?")
    if not path.startswith("/") or not path[1:]:
        raise SpecError(f"the address of a file is {kind}:///file, or {kind}:////folder/file", field="source")
    table = _options(options, {"table"}).get("table")
    return Address(kind=kind, table=table, path=Path(unquote(path[1:])))


def _server(given: str) -> Address:
    try:
        parts = urlsplit(given)
        password = parts.password is not None
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise SpecError("the address of the database cannot be read", field="source") from None
    found = dict(pairs)
    others = urlencode([(key, value) for key, value in pairs if key != "table"], quote_via=quote)
    uri = urlunsplit(("postgresql", parts.netloc, parts.path, others, ""))
    if not parts.netloc:  # urlunsplit would write one slash only
        uri = f"postgresql://{parts.path}" + (f"?{others}" if others else "")
    secret = password or bool(SECRET & {key.lower() for key in found})
    return Address(kind="postgresql", table=found.get("table"), uri=uri, secret=secret)


def _through_odbc(rest: str) -> Address:
    """ODBC's own words for a data source and attributes: DSN=name;Key={value};..."""
    name, _, after = rest.partition("?")
    found = _pairs(after)
    table = found.pop("table", None)
    parts = ({"DSN": unquote(name)} if name else {}) | found
    if not parts:
        raise SpecError("the address of a data source is odbc://NAME, or odbc://?Driver=NAME&Key=value", field="source")
    if any(not key.replace("_", "").replace(" ", "").isalnum() for key in parts):
        raise SpecError("the address has an attribute whose name is not one word", field="source")
    uri = ";".join(f"{key}={_in_braces(value)}" for key, value in parts.items())
    return Address(kind="odbc", table=table, uri=uri, secret=bool(SECRET & {key.lower() for key in parts}))


def _in_braces(value: str) -> str:
    """A value of an attribute; in braces where a character of it would end it (some drivers know none elsewhere)."""
    return "{" + value.replace("}", "}}") + "}" if set(value) & set(";{}=") or value != value.strip() else value


def _options(text: str, known: set[str]) -> dict[str, str]:
    found = _pairs(text)
    odd = sorted(set(found) - known)
    if odd:
        raise SpecError(f'the address has an option "{odd[0]}"; there is table=NAME', field="source")
    return found


def _pairs(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text)))
    except ValueError:
        raise SpecError("the part of the address after ? cannot be read; it is table=NAME", field="source") from None


def check_no_password(typed: str) -> None:
    """Raise SpecError for an address with a password: everybody can read the arguments of a process."""
    address = address_of(typed)
    if address is not None and address.secret:
        raise SpecError(
            "the address holds a password, which everybody on this machine could read; leave it out and give it in "
            + (
                "~/.odbc.ini"
                if address.kind == "odbc"
                else "PGPASSWORD, in the file that PGPASSFILE names, or in ~/.pgpass"
            ),
            field="source",
        )


# --- days that are not written as 2025-12-31


def date_parts(form: str) -> tuple[str, ...] | None:
    """The parts of a form such as DD.MM.YYYY, in order; None where it is no such form."""
    found = _FORM.fullmatch(form)
    parts = (found[1], found[3], found[4]) if found else ()
    return parts if set(parts) == set(PARTS) else None


def date_pattern(form: str) -> str:
    """Regular expression of the days that are written so."""
    parts = date_parts(form) or ()
    return "^" + f"[{form[len(parts[0])]}]".join(PARTS[part][1] for part in parts) + "$"


def date_format(form: str) -> str:
    """The form as strptime takes it."""
    return re.sub("DD|MM|YYYY", lambda part: PARTS[part[0]][0], form)
