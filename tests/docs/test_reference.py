"""docs/reference/python.md is what tools/build_api_reference.py makes of the code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.build_api_reference import PAGE, page

import sfumato as sf
from sfumato.cli.options import RoleOptions, SourceOptions, option_names


def test_the_page_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, page())


def test_every_public_name_is_on_it() -> None:
    text = page()
    for name in set(sf.__all__) - {"__version__", "datasets", "errors"}:
        assert f"\n### `{name}`" in text
    assert all(f"| `{field.name}` |" in text for field in dataclasses.fields(sf.SmallDomain))
    assert {"Release.sql", "Answer.to_json", "datasets.adult"} <= {
        line.split("`")[1] for line in text.split("\n#")[1:] if "`" in line
    }


def test_a_public_name_without_a_section_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sf, "__all__", [*sf.__all__, "somewhere_else"])
    with pytest.raises(KeyError, match="somewhere_else"):
        page()


def test_options_that_messages_name_have_their_python() -> None:
    """Whoever reads `--null-as-value` in an exception finds what to write."""

    def both(roles: RoleOptions, where: SourceOptions) -> None:
        """A command with these options."""

    text = page()
    options = option_names(both) | {"--null-as-value", "--domain", "--test", "--force"}
    assert len(options) > 20
    assert {option for option in options - {"--roles"} if f"`{option}`" not in text} == set()
