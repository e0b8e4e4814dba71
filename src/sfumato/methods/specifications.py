"""Specifications of methods from named options, as the command line gives them."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SpecError
from ..model.names import listed
from .registry import method_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a specification: `kind` is int, float, bool, tuple or str (raw text, parsed by the specification)."""

    name: str
    kind: type
    required: bool
    help: str
    example: str = ""
    default: Any = None  # of a field that is not required
    file: str | None = None  # the text may name a file of this sort (see publishing.files)


def fields_of(spec: type) -> list[Field]:
    """The fields that options set, in order; those that only Python sets are left out."""
    hints = typing.get_type_hints(spec)
    found = []
    for field in dataclasses.fields(spec):
        if field.metadata.get("python_only"):
            continue
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        text = field.metadata.get("help", "")
        kind, file = _kind(hints[field.name]), field.metadata.get("file")
        default = None if required else field.default
        found.append(
            Field(
                name=field.name,
                kind=kind,
                required=required,
                help=text,
                example=field.metadata.get("example", ""),
                default=default,
                file=file,
            )
        )
    return found


def _kind(hint: Any) -> type:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    options = tuple(o for o in options if o is not type(None))
    if len(options) == 1 and options[0] in {int, float, bool}:
        return typing.cast(type, options[0])
    if len(options) == 1 and typing.get_origin(options[0]) is tuple:
        return tuple
    return str


def build(
    method: str,
    given: Mapping[str, Any],
    *,
    option_name: Callable[[str], str] = str,
    readers: Mapping[str, Callable[[str], Any]] | None = None,
) -> Any:
    """The specification of the method from named options.

    `option_name` tells how a person types an option; `readers[sort]` reads an option that names a file of that sort.
    """
    spec = method_named(method).spec
    fields = {field.name: field for field in fields_of(spec)}
    for name in given:
        if name not in fields:
            known = ", ".join(option_name(n) for n in fields) or "none"
            raise SpecError(f"{option_name(name)} is not an option of {method}; its options: {known}", field=name)
    missing = [name for name, field in fields.items() if field.required and name not in given]
    if missing:
        raise SpecError(f"{method} needs {' and '.join(option_name(n) for n in missing)}", field=missing[0])
    return spec(
        **{name: _convert(value, fields[name], option_name(name), readers or {}) for name, value in given.items()}
    )


def _convert(value: Any, field: Field, option_name: str, readers: Mapping[str, Callable[[str], Any]]) -> Any:
    if (
        field.file is not None
        and field.file in readers
        and isinstance(value, str)
        and (value.lower().endswith((".csv", ".txt")) or _names_questions(field.file, value))
    ):
        return readers[field.file](value)
    if not isinstance(value, str) or field.kind is str:
        return value
    if field.kind is tuple:
        return listed(value, field.name)
    try:
        return field.kind(value)
    except ValueError:
        what = "a whole number" if field.kind is int else "a number"
        raise SpecError(f'{option_name} must be {what}, got "{value}"', field=field.name) from None


def _names_questions(sort: str, value: str) -> bool:
    """Whether a text names a file of SQL, alone or in a mix; not whether it is SQL."""
    return sort == "sql" and ".sql" in value.lower() and not value.strip().lower().startswith("select")
