"""One name is one column, in every role."""

from __future__ import annotations

import pytest

import sfumato as sf


@pytest.mark.parametrize("role", ["sensitive", "quasi", "identifying", "insensitive"])
def test_a_text_names_one_column_never_its_letters(role: str) -> None:
    one = sf.Roles(**({"sensitive": "s"} | {role: "ab"}))
    assert getattr(one, role) == ("ab",)
    assert one == sf.Roles(**({"sensitive": ["s"]} | {role: ["ab"]}))
