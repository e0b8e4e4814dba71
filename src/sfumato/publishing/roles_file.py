"""A file of roles, method and parameters (TOML): names as they are, with commas, spaces and quotes.

[roles]
sensitive = ["occupation"]
quasi = ["age", "hours, per week"]
drop = ["name"]
person = "id"
max_rows_per_person = 1

[method]
name = "uniform"
rho1 = "1/5"
rho2 = "1/2"

A part [studio] holds what `sfumato studio` keeps besides; here it is passed over.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ReleaseError, SpecError
from ..model.public import Roles

MAX_BYTES = 4 * 2**20
LISTS = {"sensitive": "sensitive", "quasi": "quasi", "drop": "identifying", "keep": "insensitive"}
OTHERS = {"rest": str, "person": str, "max_rows_per_person": int}
SAID_BY = {  # what an option of the command line says, as a line of the file
    "sa": 'sensitive = ["COLUMN"]',
    "qi": 'quasi = ["COLUMN"]',
    "drop": 'drop = ["COLUMN"]',
    "keep": 'keep = ["COLUMN"]',
    "rest": 'rest = "drop"',
    "person": 'person = "COLUMN"',
    "max_rows_per_person": "max_rows_per_person = 1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RolesFile:
    """What a roles file says; `method` None where it names none."""

    roles: Roles
    method: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def read_roles(path: str) -> RolesFile:
    """The file, or SpecError that says what is wrong with it."""
    name = f'the roles file "{Path(path).name}"'
    try:
        if Path(path).stat().st_size > MAX_BYTES:
            raise SpecError(f"{name} is larger than {MAX_BYTES // 2**20} MiB", field="roles")
        document = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"{name} cannot be read as text", field="roles") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{name} is not valid TOML: {error}", field="roles") from None
    odd = [key for key in document if key not in {"roles", "method", "studio"}]
    if odd:
        raise SpecError(f'{name} has a part "{odd[0]}"; parts: roles, method, studio', field="roles")
    roles, method = document.get("roles"), document.get("method", {})
    if not isinstance(roles, dict) or not isinstance(method, dict):
        raise SpecError(f"{name} needs a part [roles], and may have a part [method]", field="roles")
    chosen = method.get("name")
    if method and not isinstance(chosen, str):
        raise SpecError(f"{name} has a part [method] that does not name the method", field="roles")
    options = {key: value for key, value in method.items() if key != "name"}
    return RolesFile(roles=_roles(roles, name), method=chosen, options=options)


def _roles(given: Mapping[str, Any], name: str) -> Roles:
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        if key in LISTS:
            names = [value] if isinstance(value, str) else value
            if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
                raise SpecError(f"{name}: {key} must be a list of column names", field=key)
            arguments[LISTS[key]] = tuple(names)
        elif key in OTHERS:
            if type(value) is not OTHERS[key]:
                what = "a whole number" if OTHERS[key] is int else "text"
                raise SpecError(f"{name}: {key} must be {what}", field=key)
            arguments[key] = value
        else:
            known = ", ".join((*LISTS, *OTHERS))
            raise SpecError(f'{name} has a role "{key}"; roles: {known}', field="roles")
    arguments.setdefault("sensitive", ())
    return Roles(**arguments)


def roles_text(roles: Mapping[str, Any], reasons: Mapping[str, str], method: str) -> str:
    """A roles file with one column a line and, where known, the reason for its role; the method is an example."""
    lines = ["# Roles of the columns: suggestions to be checked by whoever knows the table.", "[roles]"]
    for key, value in roles.items():
        if isinstance(value, list):
            lines.append(f"{key} = [")
            lines += [f"    {quoted(n)},{'  # ' + reasons[n] if n in reasons else ''}" for n in value]
            lines.append("]")
        else:
            lines.append(f"{key} = {quoted(value)}{'  # ' + reasons[value] if value in reasons else ''}")
        if key == "person":
            lines.append(
                "# max_rows_per_person = 1  # rows kept of a person who has several, at random; more: more noise"
            )
    lines += ["", "# [method]", f'# name = "{method}"', '# rho1 = "1/5"', '# rho2 = "1/2"', ""]
    return "\n".join(lines)


def quoted(text: str) -> str:
    """A TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_roles(path: str, text: str) -> None:
    """Write a new file; one that exists is not touched."""
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ReleaseError(f'"{Path(path).name}" exists; name another file for the roles') from None
    except OSError as error:
        raise ReleaseError(f'"{Path(path).name}" cannot be written: {error.strerror}') from None
