"""The registry: built-in methods, one line each in the order people see, then those of installed packages.

A method is loaded when it is first asked for. Another package adds one by an entry point of the group
`sfumato.methods` whose name is the method's and whose value is its object: `my-method = "my_package:METHOD"`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import SpecError
from ..model.names import listed
from .contract import Method, Specification

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


AnyMethod = Method[Any, Any]
GROUP = "sfumato.methods"
BUILT_IN = {
    "subset-response": "subset_response",
    "uniform": "uniform",
    "small-domain": "small_domain",
    "splu": "splu",
    "target-distribution": "target_distribution",
    "randomized-response": "randomized_response",
    "anatomy": "anatomy",
    "l-diversity": "l_diversity",
    "distribution-draw": "distribution_draw",
}


class Registry(Mapping[str, AnyMethod]):
    """Name -> method, loaded on first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, AnyMethod] = {}

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        """Entry points of other packages; a built-in name is not theirs to take."""
        from importlib.metadata import entry_points  # which reads e-mail and archives

        return {point.name: point for point in entry_points(group=GROUP) if point.name not in BUILT_IN}

    def __getitem__(self, name: str) -> AnyMethod:
        if name not in self._loaded:
            if name in BUILT_IN:
                self._loaded[name] = import_module(f".{BUILT_IN[name]}", __package__).METHOD
            elif name in self._plugins:
                self._loaded[name] = _load(self._plugins[name])
            else:
                raise KeyError(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*BUILT_IN, *sorted(self._plugins)])

    def __len__(self) -> int:
        return len(BUILT_IN) + len(self._plugins)


def _load(point: EntryPoint) -> AnyMethod:
    """The object an entry point names, or one line about what is wrong with it."""
    try:
        found = point.load()
        fits = isinstance(found, Method) and found.name == found.spec.method == point.name
    except Exception as error:
        raise SpecError(
            f'the method "{point.name}" of another package cannot be loaded ({type(error).__name__})', field="method"
        ) from error
    if not fits:
        raise SpecError(f'"{point.value}" is not a method called "{point.name}"', field="method")
    return found


REGISTRY = Registry()


def method_named(name: str) -> AnyMethod:
    """The method of that name, or SpecError with the names there are."""
    try:
        return REGISTRY[name]
    except KeyError:
        raise SpecError(f'there is no method "{name}"; methods: {", ".join(REGISTRY)}', field="method") from None


def method_of(spec: object) -> AnyMethod:
    """The method whose specification this is."""
    if not isinstance(spec, Specification):
        raise SpecError(
            f"a {type(spec).__name__} is not the specification of a method; give one such as "
            'sf.SubsetResponse(rho1="1/5", rho2="1/2")',
            field="method",
        )
    return method_named(spec.method)


# Specifications of methods from named options, as the command line gives them.


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
