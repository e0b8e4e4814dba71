"""Options of methods: one for every field of their specifications, so that a new method brings its own."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import typer

from ..choosing import DEFAULT
from ..errors import SpecError
from ..model.option_names import said

GENERAL = frozenset({"bins"})  # options of every table, whatever the method
PREFIX = "m_"  # of the parameters that stand for fields of a specification


def asked_method(arguments: list[str]) -> str | None:
    """The one method that the arguments name, or the default; None where all may be needed: help, a roles file."""
    from ..methods import REGISTRY

    if any(a == "--help" or a.split("=")[0] == "--roles" for a in arguments):
        return None
    named = [a.partition("=")[2] for a in arguments if a.startswith("--method=")]
    named += [b for a, b in pairwise(arguments) if a == "--method"]
    method = named[0] if named else DEFAULT
    return method if len(named) < 2 and method in list(REGISTRY) else None


def method_options(
    taken: frozenset[str] = frozenset(), only: str | None = None, own: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Parameter name -> annotation, for every field of every method, or of one, but those that the command reads.

    `own` are the options of the command: SpecError where the one method has a field that would be typed like one.
    """
    from ..methods import REGISTRY
    from ..methods.specifications import fields_of

    found: dict[str, tuple[list[str], str, bool]] = {}
    for name in REGISTRY if only is None else (only,):
        for field in fields_of(REGISTRY[name].spec):
            if field.name in GENERAL:
                continue
            methods, text, flag = found.setdefault(field.name, ([], field.help, field.kind is bool))
            methods.append(name)
            found[field.name] = (methods, text or field.help, flag)
    options = {}
    for name, (methods, help_text, flag) in found.items():
        if name in taken:
            continue
        if said(name) in own:
            if only is None:
                continue
            raise SpecError(
                f'{only} has a field "{name}", but {said(name)} is an option of every method; rename the field',
                field="method",
            )
        text = f"{', '.join(methods)}{': ' + help_text if help_text else ''}"
        option = typer.Option(said(name), help=text, rich_help_panel="Options of methods", show_default=False)
        options[PREFIX + name] = Annotated[bool | None if flag else str | None, option]
    return options


def specification(method: str, options: dict[str, Any]) -> Any:
    """The specification that the options of a command stand for."""
    from ..methods.specifications import build
    from ..publishing.parameter_files import READERS

    given = {name.removeprefix(PREFIX): value for name, value in options.items() if value is not None}
    return build(method, given, said=said, readers=READERS)
