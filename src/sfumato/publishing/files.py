"""Files that a custodian writes: roles, method and parameters (TOML), hierarchies and target weights (CSV), questions.

A roles file has names as they are, with commas, spaces and quotes:

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

import csv
import json
import re
import secrets
import tomllib
from collections.abc import Callable, Mapping
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
    file = Path(path)
    partial = file.with_name(f".{file.name}.{secrets.token_hex(6)}.partial")
    try:
        if file.exists() or file.is_symlink():
            raise ReleaseError(f'"{file.name}" exists; name another file for the roles')
        partial.write_text(text, encoding="utf-8")
        partial.rename(file)
    except OSError as error:
        raise ReleaseError(f'"{file.name}" cannot be written: {error.strerror}') from None
    finally:
        partial.unlink(missing_ok=True)


MAX_PARAMETER_BYTES = 64 * 2**20
LEADING_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)  # of a file of SQL


def read_rows(path: str, field: str, about: str = "") -> tuple[tuple[str, ...], ...]:
    """The rows of a CSV file; the separator is ; or , whichever the first line holds. `about` is for messages."""
    name = f'"{Path(path).name}"{about}'
    try:
        if Path(path).stat().st_size > MAX_PARAMETER_BYTES:
            raise SpecError(f"the file {name} is larger than {MAX_PARAMETER_BYTES // 2**20} MiB", field=field)
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"the file {name} cannot be read as text", field=field) from None
    rows = csv.reader(text.splitlines(), delimiter=";" if ";" in text.partition("\n")[0] else ",")
    found = tuple(tuple(cell.strip() for cell in row) for row in rows if any(row))
    if not found:
        raise SpecError(f"the file {name} is empty", field=field)
    return found


def read_column_hierarchy(path: str, column: str) -> tuple[tuple[str, ...], ...]:
    """An ARX-style hierarchy of one of several columns."""
    return read_rows(path, "hierarchies", f' (hierarchy of "{column}")')


def read_hierarchy(path: str) -> tuple[tuple[str, ...], ...]:
    """An ARX-style hierarchy: a value, then its ever wider labels."""
    return read_rows(path, "hierarchy")


def read_target(path: str) -> dict[str, Any]:
    """Weights by value (value,weight), or by part of the table (part,value,weight); a header line is skipped."""
    rows = read_rows(path, "target")
    if rows and rows[0][-1].lower() in {"weight", "mass", "probability"}:
        rows = rows[1:]
    widths = {len(row) for row in rows}
    if widths == {2}:
        return _unique(rows)
    if widths == {3}:
        parts: dict[str, Any] = {}
        for part in dict.fromkeys(row[0] for row in rows):
            parts[part] = _unique(tuple(row[1:] for row in rows if row[0] == part))
        return parts
    raise SpecError(f'"{Path(path).name}" must have the columns value,weight or part,value,weight', field="target")


def _unique(rows: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    weights: dict[str, Any] = {}
    for value, weight in rows:
        if value in weights:
            raise SpecError(f'the target lists "{value}" twice', field="target")
        weights[value] = weight
    return weights


def read_sql(text: str) -> str:
    """The workload with the questions of the file that it names: FILE.sql, or a mix such as ranges:1,FILE.sql:2."""
    if text.lower().endswith(".sql") and ("," not in text or Path(text).exists()):
        return _questions(text)
    files, mix = [], []
    for item in text.split(","):
        kind, _, share = item.rpartition(":") if ":" in item else (item, "", "1")
        named = kind.strip().lower().endswith(".sql")
        files += [kind.strip()] if named else []
        mix.append(f"sql:{share}" if named else item)
    if len(files) != 1:
        raise SpecError("a workload names one file of questions", field="workload")
    return f"{','.join(mix)}; {_questions(files[0])}"


def _questions(path: str) -> str:
    name = f'"{Path(path).name}"'
    try:
        if Path(path).stat().st_size > MAX_PARAMETER_BYTES:
            raise SpecError(f"the file {name} is larger than {MAX_PARAMETER_BYTES // 2**20} MiB", field="workload")
        text = Path(path).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"the file {name} cannot be read as text", field="workload") from None
    text = LEADING_COMMENTS.sub("", text)
    if not text.lower().startswith("select"):
        raise SpecError(f"the file {name} must hold SELECT statements, one for each question", field="workload")
    return text


READERS: dict[str, Callable[[str], Any]] = {"hierarchy": read_hierarchy, "target": read_target, "sql": read_sql}
