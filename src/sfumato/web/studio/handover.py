"""What the custodian takes along: the command line and the Python lines that repeat what the page did."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from ...methods import method_named
from ...methods.specifications import fields_of
from ...model.names import quoted_name
from ...model.option_names import option_name
from .studio_choices import Choices

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
        imports = ["import sfumato as sf", "from sfumato.methods.specifications import build"]
        imports.append("from sfumato.publishing.files import READERS")
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
