"""The list of mutants: thirty, each still in the package, each with tests that are there."""

from __future__ import annotations

import pytest
from tests.mutants.__main__ import ROOT, file_of
from tests.mutants.mutants import MUTANTS, Mutant


def test_there_are_thirty() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) == 30


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_text_and_its_tests_are_there(mutant: Mutant) -> None:
    """Whoever changed the text changes it in the list too, and runs `make mutants`."""
    assert file_of(mutant).exists()
    assert mutant.instead != mutant.text
    for test in mutant.tests:
        assert (ROOT / test.partition("::")[0]).exists(), test
