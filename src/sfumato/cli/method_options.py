"""Options of methods: one for every field of their specifications, so that a new method brings its own."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

from ..choosing import DEFAULT
from ..errors import SpecError
from ..model.option_names import said
from .teaching import option

if TYPE_CHECKING:
    from ..methods.specifications import Field

GENERAL = frozenset({"bins"})  # options of every table, whatever the method
PARAMETERS = "Parameters of"
METAVARS = {int: "NUMBER", float: "NUMBER", tuple: "COLUMNS"}
PREFIX = "m_"  # of the parameters that stand for fields of a specification


def asked_method(arguments: list[str]) -> str | None:
    """The one method that the arguments name, or the default; None where all may be needed: help, a roles file."""
    from ..methods import REGISTRY
    from ..methods.registry import BUILT_IN

    if any(a == "--help" or a.split("=")[0] == "--roles" for a in arguments):
        return None
    named = [a.partition("=")[2] for a in arguments if a.startswith("--method=")]
    named += [b for a, b in pairwise(arguments) if a == "--method"]
    method = named[0] if named else DEFAULT
    known = method in BUILT_IN or method in list(REGISTRY)  # which reads what every installed package offers
    return method if len(named) < 2 and known else None


def method_options(
    taken: frozenset[str] = frozenset(), only: str | None = None, own: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Parameter name -> annotation, for every field of every method, or of one, but those that the command reads.

    `own` are the options of the command: SpecError where the one method has a field that would be typed like one.
    """
    from ..methods import REGISTRY
    from ..methods.specifications import fields_of

    found: dict[str, dict[str, Field]] = {}  # name of a field -> method -> the field as the method has it
    for name in REGISTRY if only is None else (only,):
        for field in fields_of(REGISTRY[name].spec):
            if field.name not in GENERAL:
                found.setdefault(field.name, {})[name] = field
    options = {}
    for name, fields in found.items():
        if name in taken:
            continue
        if said(name) in own:
            if only is None:
                continue
            raise SpecError(
                f'{only} has a field "{name}", but {said(name)} is an option of every method; rename the field',
                field="method",
            )
        first, flag = next(iter(fields.values())), any(f.kind is bool for f in fields.values())
        required = all(f.required for f in fields.values())
        made = option(
            said(name),
            "; ".join(part for part in (_helps(fields), "required" if required else "") if part),
            example="" if flag else first.example,
            without=not flag and not required and _defaults(fields),
            metavar=None if flag else METAVARS.get(first.kind, "TEXT"),
            rich_help_panel=f"{PARAMETERS} {', '.join(fields)}",
        )
        options[PREFIX + name] = Annotated[bool | None if flag else str | None, made]
    return options


def _helps(fields: dict[str, Field]) -> str:
    """What the option does: one sentence where the methods agree, else by method."""
    said_by = {method: field.help for method, field in fields.items()}
    if len(set(said_by.values())) == 1:
        return next(iter(said_by.values()))
    return "; ".join(f"{method}: {text}" for method, text in said_by.items())


def _defaults(fields: dict[str, Field]) -> str:
    """What holds without the option: one word where the methods agree, else by method."""
    by_default: dict[str, list[str]] = {}
    for method, field in fields.items():
        by_default.setdefault("required" if field.required else _shown(field.default), []).append(method)
    first, *others = by_default
    return "; ".join((first, *(f"{default} for {', '.join(by_default[default])}" for default in others)))


def _shown(default: Any) -> str:
    return "none" if default in (None, ()) else str(default)


def specification(method: str, options: dict[str, Any]) -> Any:
    """The specification that the options of a command stand for."""
    from ..methods.specifications import build
    from ..publishing.files import READERS

    given = {name.removeprefix(PREFIX): value for name, value in options.items() if value is not None}
    return build(method, given, said=said, readers=READERS)
