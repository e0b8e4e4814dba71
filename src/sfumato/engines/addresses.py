"""Addresses of databases: `sqlite:///file`, `duckdb:///file`, `postgresql://host/name`, `odbc://source`, each with
`?table=`. Other parts after the question mark are libpq's and ODBC's own (`odbc://?Driver=SQLite3&Database=clinic.db`).

A password is taken from libpq's own places (PGPASSWORD, PGPASSFILE, ~/.pgpass, a service file). One that stands in
the address works from Python; the command line refuses it, because everybody on the machine can read the arguments of
a process.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from ..errors import SpecError

SCHEMES = {"sqlite": "sqlite", "duckdb": "duckdb", "postgresql": "postgresql", "postgres": "postgresql"}
SCHEMES |= {"odbc": "odbc"}
SECRET = frozenset({"password", "sslpassword", "passfile", "pwd"})


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
    """Nothing; SpecError for an address with a password, which stands in the arguments of a process for all to see."""
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
