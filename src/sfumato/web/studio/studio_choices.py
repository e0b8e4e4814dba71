"""What the custodian has chosen, and the small file that keeps it: names and parameters, no data.

The file is a roles file (see publishing/roles_file.py) with a part [studio] for what only the page needs, so
`sfumato publish --roles` takes it as it is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...engines.files import OPTIONS
from ...engines.source import Source
from ...errors import SpecError
from ...model.names import assigned
from ...model.public import READERS, Roles
from ...publishing.roles_file import LISTS, MAX_BYTES, quoted

ROLES = ("sensitive", "quasi", "keep", "drop", "person")
ALWAYS = "histogram"  # the reader that makes methods equal
TRUST = ("proved", "conditional")
TEXTS = ("source", *OPTIONS, "bound", "rho1", "trust", "questions", "out")
MOST_QUESTIONS = 20_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """One custodian's choices; what exists is of the right types, the library says whether it fits the table."""

    source: str = ""
    upload: bool = False  # the source is a copy in the private folder, which goes with the studio
    delimiter: str = ""
    encoding: str = ""
    null: str = ""  # one text a line
    decimal: str = ""
    dates: str = ""
    table: str = ""
    query: str = ""
    types: str = ""  # one COLUMN=TYPE a line
    null_as_value: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)  # column -> one of ROLES
    rows_per_person: int | None = None
    bound: str = "1/3"
    rho1: str = ""
    hold: tuple[str, ...] = (ALWAYS,)
    trust: str = "proved"
    questions: str = ""
    method: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    out: str = ""
    accept_unprotected: bool = False

    def columns(self, role: str) -> tuple[str, ...]:
        """The columns that have the role."""
        return tuple(name for name, given in self.roles.items() if given == role)

    def as_roles(self) -> Roles:
        """The roles as the library takes them; SpecError where they contradict each other."""
        people = self.columns("person")
        if len(people) > 1:
            raise SpecError("two columns tell people apart; choose one", field="person")
        return Roles(
            sensitive=self.columns("sensitive"),
            quasi=self.columns("quasi"),
            insensitive=self.columns("keep"),
            identifying=self.columns("drop"),
            person=people[0] if people else None,
            max_rows_per_person=self.rows_per_person if people else None,
        )

    @property
    def name(self) -> str:
        """The source as people call it."""
        plain = self.source.partition("?")[0] if "://" in self.source else self.source
        return Path(plain).name or self.source

    @property
    def reading(self) -> dict[str, Any]:
        """How the table is read, as `Source` takes it: what was said and nothing else; SpecError where it is odd."""
        said: dict[str, Any] = {name: self[name] for name in OPTIONS if self[name].strip("\r\n")}
        if "null" in said:
            said["null"] = tuple(_lines(self.null))
        if "types" in said:
            said["types"] = dict(assigned(line, "types") for line in _lines(self.types))
        return said

    def as_source(self) -> Source:
        """The table as the library takes it."""
        return Source(self.source, **self.reading)

    def __getitem__(self, name: str) -> str:
        """One of the texts, by its name."""
        return self._texts()[name]

    def text(self) -> str:
        """The file."""
        lines = ["# Choices of sfumato studio: names and parameters, no data.", "[roles]"]
        lines += [f"{role} = [{', '.join(quoted(name) for name in self.columns(role))}]" for role in LISTS]
        people = self.columns("person")
        if people:
            lines.append(f"person = {quoted(people[0])}")
            if self.rows_per_person is not None:
                lines.append(f"max_rows_per_person = {self.rows_per_person}")
        if self.method:
            lines += ["", "[method]", f"name = {quoted(self.method)}"]
            lines += [f"{quoted(name)} = {quoted(text)}" for name, text in self.options.items()]
        lines += ["", "[studio]"]
        kept = {name: text for name, text in self._texts().items() if text}
        if self.upload:
            kept["source"] = self.name  # the copy goes with the studio
        lines += [f"{name} = {quoted(text)}" for name, text in kept.items()]
        lines.append(f"hold = [{', '.join(quoted(name) for name in self.hold)}]")
        lines.append(f"null_as_value = {'true' if self.null_as_value else 'false'}")
        lines.append(f"accept_unprotected = {'true' if self.accept_unprotected else 'false'}")
        return "\n".join([*lines, ""])

    def _texts(self) -> dict[str, str]:
        cells = (self.delimiter, self.encoding, self.null, self.decimal, self.dates)
        texts = (
            self.source,
            *cells,
            self.table,
            self.query,
            self.types,
            self.bound,
            self.rho1,
            self.trust,
            self.questions,
            self.out,
        )
        return dict(zip(TEXTS, texts, strict=True))

    def for_columns(self, columns: Iterable[str], suggested: Mapping[str, str]) -> Choices:
        """The same for a table with these columns: roles of others go, columns without one get the suggested one."""
        return replace(self, roles={name: self.roles.get(name) or suggested[name] for name in columns})


def read_choices(text: str) -> Choices:
    """The choices in the text of a file, or SpecError."""
    if len(text.encode()) > MAX_BYTES:
        raise SpecError("the file of choices is too large", field="choices")
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise SpecError("the file of choices is nested too deeply", field="choices") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"the file of choices is not valid TOML: {error}", field="choices") from None
    roles, method, studio = (_part(document, name) for name in ("roles", "method", "studio"))
    found: dict[str, Any] = {"roles": _roles(roles), "options": {k: str(v) for k, v in method.items() if k != "name"}}
    found["method"] = str(method.get("name", ""))
    rows = roles.get("max_rows_per_person")
    found["rows_per_person"] = rows if type(rows) is int else None
    for name in TEXTS:
        if isinstance(studio.get(name), str):
            found[name] = studio[name]
    if found.get("trust", TRUST[0]) not in TRUST:
        raise SpecError("trust is proved or conditional", field="trust")
    for name in ("null_as_value", "accept_unprotected"):
        found[name] = studio.get(name) is True
    hold = studio.get("hold", [])
    found["hold"] = held(hold if isinstance(hold, list) else [])
    return Choices(**found)


def held(names: Iterable[Any]) -> tuple[str, ...]:
    """The readers to hold, in the order of the ladder."""
    given = {str(name) for name in names} | {ALWAYS}
    return tuple(name for name in READERS if name in given)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name, {})
    if not isinstance(part, dict):
        raise SpecError(f"the file of choices has no part [{name}]", field="choices")
    return part


def _roles(given: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for role in LISTS:
        names = given.get(role, [])
        for name in [names] if isinstance(names, str) else names if isinstance(names, list) else []:
            found[str(name)] = role
    if isinstance(given.get("person"), str):
        found[given["person"]] = "person"
    return found
