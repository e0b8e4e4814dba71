"""The JSON Schema of release.json, made from the types that read and write it.

`python -m tools.build_release_schema` prints it; the copy that is shipped is checked by a test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sfumato.methods.registry import BUILT_IN, REGISTRY
from sfumato.release.manifest import Manifest

FILE = Path(__file__).parents[1] / "src" / "sfumato" / "release" / "release.schema.json"


def release_schema() -> dict[str, Any]:
    """The schema: the common part, and for each method the shape of its parameters."""
    schema = Manifest.model_json_schema()
    definitions = schema.setdefault("$defs", {})
    rules = []
    for name in BUILT_IN:
        method = REGISTRY[name]
        plan = TypeAdapter(method.plan_type).json_schema(mode="serialization", ref_template=f"#/$defs/{name}.{{model}}")
        definitions |= {f"{name}.{key}": value for key, value in plan.pop("$defs", {}).items()}
        definitions[f"{name} parameters"] = plan | {"additionalProperties": False}
        rules.append(
            {
                "if": {"properties": {"method": {"const": name}}},
                "then": {"properties": {"parameters": {"$ref": f"#/$defs/{name} parameters"}}},
            }
        )
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "release.json of a sfumato release"}
    return title | {k: v for k, v in schema.items() if k != "title"} | {"allOf": rules}


def text() -> str:
    """The schema as it is shipped."""
    return json.dumps(release_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(text(), end="")  # noqa: T201 - this is what the command is for
