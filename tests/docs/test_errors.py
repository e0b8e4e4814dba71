"""docs/reference/errors.md: every class has a heading with cause and remedy, and its message is a real one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
from tools import build_error_page
from tools.build_error_page import PAGE, classes, message, page, told

from sfumato import errors


def test_the_page_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, page())


def test_every_class_has_a_heading_with_cause_and_remedy() -> None:
    text = PAGE.read_text(encoding="utf-8")
    every = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.SfumatoError)]
    assert set(classes()) == set(every)
    for found in every:
        section = text.split(f"\n## `{found.__name__}`\n")[1].split("\n## ")[0]
        assert "\n**Cause**: " in section
        assert "\n**Remedy**: " in section
        assert f"Exit code {found.exit_code}." in section


def test_a_class_without_a_remedy_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker itself: a docstring without a remedy, a call that raises nothing, or another class."""
    monkeypatch.setattr(errors.EngineError, "__doc__", "Something.\n\nCause: something.")
    with pytest.raises(KeyError, match="EngineError"):
        told(errors.EngineError)
    with pytest.raises(AssertionError, match="was not raised"):
        message(errors.DataError, lambda: None)
    with pytest.raises(AssertionError, match="ReleaseError was raised"):
        message(errors.DataError, lambda: build_error_page.sf.open_release("nowhere"))
