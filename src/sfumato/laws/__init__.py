"""The laws: how rows are drawn, answered, foreseen, attacked and checked. A release states one of them by its name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import ReleaseError
from .contract import Law

if TYPE_CHECKING:
    from pydantic import TypeAdapter

LAWS = {
    "keep-or-redraw": "keep_or_redraw:KeepOrRedraw",
    "set-lists": "set_lists:SetLists",
    "independent-columns": "independent_columns:IndependentColumns",
    "channel": "channel:Channel",
    "distribution-draw": "channel:OverallDraw",
    "decoys": "decoys:Decoys",
    "groups": "groups:DistinctGroups",
    "classes": "classes:Classes",
    "blocks": "blocks:Blocks",
}


def law_named(name: str) -> type[Law]:
    """The law of that name, loaded when it is asked for; ReleaseError where there is none."""
    if name not in LAWS:
        raise ReleaseError(f'the release follows the law "{name[:80]}", which this version of sfumato does not know')
    module, _, kind = LAWS[name].partition(":")
    found: type[Law] = getattr(import_module(f".{module}", __package__), kind)
    return found


@cache
def law_form(law: type[Law]) -> TypeAdapter[Any]:
    """How laws of a kind are written to release.json and read from there."""
    from pydantic import TypeAdapter

    return TypeAdapter(law)


def law_document(law: Law) -> dict[str, Any]:
    """What release.json states about a law: its name and its parameters."""
    return {"name": law.name} | law_form(type(law)).dump_python(law, mode="json", exclude_none=True)


def law_of(document: dict[str, Any]) -> Law:
    """The law that such a document states; pydantic's ValidationError where its parameters are none."""
    parameters = dict(document)
    found: Law = law_form(law_named(str(parameters.pop("name", "")))).validate_python(parameters)
    return found


__all__ = ["LAWS", "Law", "law_document", "law_form", "law_named", "law_of"]
