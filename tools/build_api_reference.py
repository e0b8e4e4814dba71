"""Writes docs/reference/python.md: the public names of `sfumato`, from their signatures and docstrings.

    python tools/build_api_reference.py

tests/docs/test_reference.py holds the page to the code; `make golden` rewrites it.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sfumato
from sfumato.methods.contract import Specification

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "python.md"
WIDTH = 110
HEAD = """# Python reference

The public names of `import sfumato as sf`, generated from the code by `tools/build_api_reference.py`. A
specification's fields are also the options of the command line (`min_size` is `--min-size`). A `Ratio` is a fraction as
text (`"1/13"`), a number or a `Fraction`. How to use them: [tutorial](../tutorial.md), [methods](../methods/index.md),
[SQL](../sql.md).

Messages are those of the command line, and name its options. In Python:

| option | is |
|---|---|
| `--sa`, `--qi`, `--drop`, `--keep` | `Roles(sensitive=..., quasi=..., identifying=..., insensitive=...)` |
| `--rest`, `--person`, `--max-rows-per-person` | fields of `Roles` |
| `--delimiter`, `--encoding`, `--null`, `--decimal`, `--dates` | fields of `Source` |
| `--types`, `--table`, `--query` | fields of `Source`; `--also`: a list of paths |
| `--bins`, `--round`, `--top-code` | `Source(recode=...)`; see [sources](../sources.md) |
| `--null-as-value`, `--domain` | `null_as_value=True`, `domains={"column": [...]}` |
| `--force`, `--accept-unprotected`, `--test` | `force=True`, `accept_unprotected=True`, `test=True` |
"""
SECTIONS = {
    "Publishing": ("look", "plan", "publish", "Roles", "Source"),
    "Choosing a method": ("recommend", "compare"),
    "Asking": ("open_release", "verify", "Release", "Answer"),
    "Methods": (),  # every specification, in the order of the registry
    "Tables to try": ("datasets",),
    "Errors": ("errors",),
}


def page() -> str:
    """The whole page; KeyError where a public name has no section."""
    public = set(sfumato.__all__) - {"__version__"}
    specifications = _specifications(public)
    sections = SECTIONS | {"Methods": specifications}
    left = public - {name for names in sections.values() for name in names}
    if left:
        raise KeyError(f"no section for {sorted(left)}")
    parts = [HEAD]
    for title, names in sections.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += _entry(name, getattr(sfumato, name))
    return "\n".join(parts).rstrip() + "\n"


def _specifications(public: set[str]) -> tuple[str, ...]:
    from sfumato.methods.registry import BUILT_IN, REGISTRY

    ordered = [REGISTRY[name].spec.__name__ for name in BUILT_IN]
    return tuple(name for name in ordered if name in public)


def _entry(name: str, thing: Any) -> Iterator[str]:
    if isinstance(thing, types.ModuleType):
        yield _doc(thing)
        functions = [
            n for n, f in inspect.getmembers(thing, inspect.isfunction) if f.__module__.startswith(thing.__name__)
        ]
        for found in functions:
            yield f"### `{name}.{found}`\n"
            yield from _callable(f"{name}.{found}", getattr(thing, found))
    elif inspect.isclass(thing):
        method = f", of method [`{thing.method}`](../methods/{thing.method}.md)" if _is_specification(thing) else ""
        yield f"### `{name}`{method}\n"
        yield _doc(thing)
        if dataclasses.is_dataclass(thing):
            yield from _fields(thing)
        if not _is_specification(thing):
            yield from _members(name, thing)
    else:
        yield f"### `{name}`\n"
        yield from _callable(name, thing)


def _is_specification(thing: type) -> bool:
    return issubclass(thing, Specification)


def _doc(thing: Any) -> str:
    """The docstring; lines that are indented in it stay a block of their own."""
    text = inspect.getdoc(thing)
    if not text:
        raise KeyError(f"{thing!r} has no docstring")
    return text + "\n"


def _callable(shown: str, function: Any) -> Iterator[str]:
    signature = inspect.signature(function)
    said: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in said:
            said.append("*")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        said.append(f"{star}{parameter.name}: {parameter.annotation}{default}")
    line = f"{shown}({', '.join(said)}) -> {signature.return_annotation}"
    if len(line) > WIDTH:
        rows = "".join(f"    {part},\n" for part in said)
        line = f"{shown}(\n{rows}) -> {signature.return_annotation}"
    yield f"```py\n{line}\n```\n"
    yield _doc(function)


def _fields(thing: type) -> Iterator[str]:
    """A table of the fields of a dataclass; nothing where there are none."""
    fields = dataclasses.fields(thing)
    if not fields:
        return
    helps = any(field.metadata.get("help") for field in fields)
    yield "| field | type | default |" + (" |" if helps else "")
    yield "|---|---|---|" + ("---|" if helps else "")
    for field in fields:
        default = "required" if field.default is dataclasses.MISSING else f"`{field.default!r}`"
        if field.default_factory is not dataclasses.MISSING:
            default = f"`{field.default_factory()!r}`"
        kind = str(field.type).replace("|", "\\|")
        text = str(field.metadata.get("help", "")).replace("|", "\\|")
        yield f"| `{field.name}` | `{kind}` | {default} |" + (f" {text} |" if helps else "")
    yield ""


def _members(name: str, thing: type) -> Iterator[str]:
    """Public methods and properties that the class itself defines, in the order of the source."""
    for member, value in vars(thing).items():
        if member.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"#### `{name}.{member}`\n"
            assert value.fget is not None
            yield f"```py\n{name}.{member}: {inspect.signature(value.fget).return_annotation}\n```\n"
            yield _doc(value)
        elif isinstance(value, classmethod | types.FunctionType):
            yield f"#### `{name}.{member}`\n"
            yield from _callable(f"{name}.{member}", getattr(thing, member))


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
