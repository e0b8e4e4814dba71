"""The JSON Schema of release.json, made from the types that read and write it.

`python -m tools.build_release_schema` prints it; the copy that is shipped is checked by a test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sfumato.laws import LAWS, law_form, law_named
from sfumato.methods.registry import BUILT_IN, REGISTRY
from sfumato.release.manifest import Manifest
from sfumato.release.opened import plan_form

FILE = Path(__file__).parents[1] / "src" / "sfumato" / "release" / "release.schema.json"


def release_schema() -> dict[str, Any]:
    """The schema: the common part, and for each method and each law the shape of its parameters."""
    schema = Manifest.model_json_schema()
    definitions = schema.setdefault("$defs", {})
    rules = []
    for name in BUILT_IN:
        _define(definitions, f"{name} parameters", plan_form(REGISTRY[name]), without="law")
        rules.append(_where({"method": {"const": name}}, "parameters", f"{name} parameters"))
    for name in LAWS:
        _define(definitions, f"{name} law", law_form(law_named(name)), name=name)
        rules.append(_where({"law": {"properties": {"name": {"const": name}}}}, "law", f"{name} law"))
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "release.json of a sfumato release"}
    return title | {k: v for k, v in schema.items() if k != "title"} | {"allOf": rules}


def _define(
    definitions: dict[str, Any],
    key: str,
    form: TypeAdapter[Any],
    *,
    without: str | None = None,
    name: str | None = None,
) -> None:
    """Add the shape of what `form` writes; `without` a property of it, with the `name` beside it."""
    shape = form.json_schema(mode="serialization", ref_template=f"#/$defs/{key}.{{model}}")
    inner = shape.pop("$defs", {})
    if without is not None:
        shape["properties"].pop(without)
        shape["required"] = [field for field in shape["required"] if field != without]
        inner = {k: v for k, v in inner.items() if f'"#/$defs/{key}.{k}"' in json.dumps(shape)}
    if name is not None:
        shape["properties"] = {"name": {"const": name}} | shape.get("properties", {})
        shape["required"] = ["name", *shape.get("required", [])]
    definitions |= {f"{key}.{k}": v for k, v in inner.items()}
    definitions[key] = shape | {"additionalProperties": False}


def _where(condition: dict[str, Any], property_: str, shape: str) -> dict[str, Any]:
    return {"if": {"properties": condition}, "then": {"properties": {property_: {"$ref": f"#/$defs/{shape}"}}}}


def text() -> str:
    """The schema as it is shipped."""
    return json.dumps(release_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(text(), end="")  # noqa: T201 - this is what the command is for
