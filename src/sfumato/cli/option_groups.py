"""Groups of options spelled out: a command takes them as one object, typer as single options under one heading."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_args

from typer.models import OptionInfo

from .options import ENGINE, READING, ROLES, EngineOptions, ReadingOptions, RoleOptions, SourceOptions

GROUPS = {RoleOptions: ROLES, SourceOptions: READING, ReadingOptions: None, EngineOptions: ENGINE}  # and their heading


def typed(function: Callable[..., None]) -> frozenset[str]:
    """The options of a command, as they are typed."""
    kinds = inspect.get_annotations(function, eval_str=True).values()
    hints = [hint for kind in kinds if kind in GROUPS for hint in inspect.get_annotations(kind, eval_str=True).values()]
    parts = [part for hint in (*kinds, *hints) for part in get_args(hint)]
    found = [part for part in parts if isinstance(part, OptionInfo)]
    # the first name of an annotated option stands where the default would
    names = [name for option in found for name in (option.default, *(option.param_decls or ()))]
    return frozenset(name for name in names if isinstance(name, str))


def flattened(function: Callable[..., None], extra: dict[str, Any] | None = None) -> Callable[..., None]:
    """The function as typer takes it: every group of options in its signature spelled out as single options.

    `extra` are options to add at the end (name -> annotation); they arrive as the function's keyword arguments.
    """
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, tuple[type, list[str]]] = {}
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.annotation not in GROUPS:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        fields = dataclasses.fields(parameter.annotation)
        hints = inspect.get_annotations(parameter.annotation, eval_str=True)
        groups[parameter.name] = (parameter.annotation, [f.name for f in fields])
        for hint in hints.values():
            (said,) = hint.__metadata__
            said.rich_help_panel = said.rich_help_panel or GROUPS[parameter.annotation]
        parameters += [
            inspect.Parameter(f.name, parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
            for f in fields
        ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in (extra or {}).items()
    ]

    def call(**arguments: Any) -> None:
        for name, (group, fields) in groups.items():
            arguments[name] = group(**{field: arguments.pop(field) for field in fields})
        function(**arguments)

    call.__doc__, call.__name__ = function.__doc__, function.__name__
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call
