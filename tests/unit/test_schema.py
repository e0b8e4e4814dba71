"""The JSON Schema of release.json: generated, shipped, and true of real releases."""

from __future__ import annotations

import json

import jsonschema
import pytest
from tools.build_release_schema import FILE, release_schema, text

import sfumato as sf
from sfumato.methods import REGISTRY
from sfumato.methods.registry import BUILT_IN, build
from tables import MARK, people


def test_shipped_copy_is_current(update_golden: bool) -> None:
    if update_golden:
        FILE.write_text(text(), encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == text(), "make golden writes it"


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(release_schema())


@pytest.mark.parametrize("name", list(REGISTRY))
def test_real_releases_obey_it(name: str) -> None:
    spec = build(name, REGISTRY[name].example.options)
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
    release = sf.publish(people(), roles=roles, method=spec, seed=1)
    stated = json.loads((release.path / "release.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(release_schema())
    validator.validate(stated)
    foreign = [{"parameters": {"nonsense": 1}}] if name in BUILT_IN else []  # a plug-in's parameters are its own
    for broken in ({"rows": -1}, {"extra": 1}, {"files": {"../x": {}}}, *foreign):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(stated | broken)
