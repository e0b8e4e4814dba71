"""The JSON Schema of release.json: generated from the code, shipped in the package, true of releases."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from commands import METHODS, sfumato
from sfumato.release.manifest import Manifest
from tables import ROLES, people

SCHEMA = Path(str(files("sfumato.release") / "release.schema.json"))


def test_shipped_schema_is_the_generated_one(golden: Callable[[Path, str], None]) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Manifest.model_json_schema()}
    golden(SCHEMA, json.dumps(schema, indent=1) + "\n")


@pytest.fixture(scope="module", params=["uniform", "anatomy", "small-domain"])
def manifest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("schema")
    pq.write_table(people(), folder / "t.parquet")
    options = ("--method", request.param, *METHODS[request.param])
    done = sfumato("publish", folder / "t.parquet", folder / "out", *ROLES, *options)
    assert done.code == 0, done.text
    return dict(json.loads((folder / "out" / "release.json").read_text()))


def test_releases_obey_the_schema(manifest: dict[str, object]) -> None:
    jsonschema.validate(manifest, json.loads(SCHEMA.read_text()))


@pytest.mark.parametrize("spoil", ["rows", "method", "guarantee", "extra"])
def test_the_schema_rejects_what_is_no_release(manifest: dict[str, object], spoil: str) -> None:
    wrong = {**manifest, "extra": 1} if spoil == "extra" else {k: v for k, v in manifest.items() if k != spoil}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, json.loads(SCHEMA.read_text()))
