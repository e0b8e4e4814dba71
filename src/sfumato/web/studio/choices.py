"""What the custodian has chosen, and the small file that keeps it: names and parameters, no data.

The file is a roles file (see publishing/custodian.py) with a part [studio] for what only the page needs, so
`sfumato publish --roles` takes it as it is.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...engines.files import OPTIONS
from ...engines.source import Source
from ...errors import SpecError
from ...methods import method_named
from ...methods.registry import fields_of
from ...model.names import assigned, option_name, quoted_name
from ...model.public import READERS, Roles
from ...publishing.custodian import LISTS, MAX_BYTES, quoted

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
        return str(getattr(self, name))

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
        kept = {name: self[name] for name in TEXTS if self[name]}
        if self.upload:
            kept["source"] = self.name  # the copy goes with the studio
        lines += [f"{name} = {quoted(text)}" for name, text in kept.items()]
        lines.append(f"hold = [{', '.join(quoted(name) for name in self.hold)}]")
        lines.append(f"null_as_value = {'true' if self.null_as_value else 'false'}")
        lines.append(f"accept_unprotected = {'true' if self.accept_unprotected else 'false'}")
        return "\n".join([*lines, ""])

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


# What the custodian takes along: the command line and the Python lines that repeat what the page did.


ROLE_OPTIONS = {"sensitive": "--sa", "quasi": "--qi", "keep": "--keep", "drop": "--drop"}
ROLE_ARGUMENTS = {"sensitive": "sensitive", "quasi": "quasi", "keep": "insensitive", "drop": "identifying"}


def plain_names(choices: Choices) -> bool:
    """Whether every name survives a list with commas on a command line."""
    return all(name and name == name.strip() and "," not in name and not name.startswith('"') for name in choices.roles)


def file_name(choices: Choices) -> str:
    """What the file of choices is called."""
    return f"{choices.name.split('.')[0] or 'table'}-choices.toml"


def command_line(choices: Choices) -> str:
    """The command that publishes the same; awkward names go through the file of choices."""
    words = ["sfumato", "publish", *_places(choices)]
    if plain_names(choices):
        for role, option in ROLE_OPTIONS.items():
            if choices.columns(role):
                words.append(_joined(option, ",".join(choices.columns(role))))
        for name in choices.columns("person"):
            words.append(_joined("--person", name))
            if choices.rows_per_person is not None:
                words.append(f"--max-rows-per-person {choices.rows_per_person}")
        words.append(f"--method {choices.method}")
        words += [
            option_name(name) if text == "true" else _joined(option_name(name), text)
            for name, text in choices.options.items()
        ]
    else:
        words.append(_joined("--roles", file_name(choices)))
    for name, value in choices.reading.items():
        words += [_joined(f"--{name}", text) for text in _texts(value)]
    words += ["--null-as-value"] if choices.null_as_value else []
    words += ["--accept-unprotected"] if choices.accept_unprotected else []
    return " ".join(words) + "\n" + f"sfumato verify {_place(choices.out)}"


def _texts(value: Any) -> list[str]:
    """A way of reading as the texts of a repeated option."""
    if isinstance(value, dict):
        return [f"{quoted_name(column)}={kind}" for column, kind in value.items()]
    return [value] if isinstance(value, str) else list(value)


def _places(choices: Choices) -> list[str]:
    return [_place(choices.name if choices.upload else choices.source), _place(choices.out)]


def _place(path: str) -> str:
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def _joined(option: str, value: str) -> str:
    return shlex.quote(f"{option}={value}") if value.startswith("-") else f"{option} {shlex.quote(value)}"


def python_lines(choices: Choices) -> str:
    """The same in Python."""
    roles = [
        f"{argument}={list(choices.columns(role))!r}"
        for role, argument in ROLE_ARGUMENTS.items()
        if choices.columns(role)
    ]
    for name in choices.columns("person"):
        roles.append(f"person={name!r}")
        if choices.rows_per_person is not None:
            roles.append(f"max_rows_per_person={choices.rows_per_person}")
    imports, method = _method(choices)
    place = choices.name if choices.upload else choices.source
    how = "".join(f", {name}={value!r}" for name, value in choices.reading.items())
    lines = [
        *imports,
        "",
        "release = sf.publish(",
        f"    sf.Source({place!r}{how})," if how else f"    {place!r},",
        f"    {choices.out!r},",
        f"    roles=sf.Roles({', '.join(roles)}),",
        f"    method={method},",
    ]
    if choices.null_as_value:
        lines.append("    null_as_value=True,")
    if choices.accept_unprotected:
        lines.append("    accept_unprotected=True,")
    return "\n".join([*lines, ")", "print(release)"])


def _method(choices: Choices) -> tuple[list[str], str]:
    """(imports, the specification as Python)."""
    import sfumato

    spec = method_named(choices.method).spec
    fields = {field.name: field for field in fields_of(spec)}
    if any(
        fields[name].file and Path(text).suffix.lower() in {".csv", ".txt"} for name, text in choices.options.items()
    ):
        imports = ["import sfumato as sf", "from sfumato.methods.registry import build"]
        imports.append("from sfumato.publishing.custodian import READERS")
        return imports, f"build({choices.method!r}, {dict(choices.options)!r}, readers=READERS)"
    given = ", ".join(f"{name}={_value(fields[name].kind, text)!r}" for name, text in choices.options.items())
    if spec.__name__ in sfumato.__all__:
        return ["import sfumato as sf"], f"sf.{spec.__name__}({given})"
    imports = ["import sfumato as sf", f"from {spec.__module__} import {spec.__name__}"]
    return imports, f"{spec.__name__}({given})"


def _value(kind: type, text: str) -> Any:
    """An option as the specification takes it in Python."""
    if kind is bool:
        return text == "true"
    if kind is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return kind(text)
    except ValueError:
        return text
