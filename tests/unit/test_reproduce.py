"""reproduce: findings have verdicts and reasons; what needs no larger table is reproduced here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from commands import sfumato
from sfumato.errors import SpecError
from sfumato.papers import PAPERS, findings, markdown, render, reproduce

EXPLAINED = {findings.DIFFERS, findings.PAPER, findings.LOST, findings.NO_DATA, findings.CLOSE}


def check(document: dict[str, Any]) -> None:
    """Every difference has its line, every verdict is known."""
    assert document["findings"]
    for finding in document["findings"]:
        assert finding["verdict"] in findings.VERDICTS
        assert finding["note"] or finding["verdict"] not in EXPLAINED, finding["item"]
    assert document["title"] in render(document)
    assert markdown(document).count("\n") == len(document["findings"]) + 1


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)


def test_splu_without_larger_tables(no_data: None) -> None:
    document = reproduce("splu")
    check(document)
    by = {f["item"]: f for f in document["findings"]}
    assert by["Figure 4, gamma 10, error 0.3, T_E 0.05: T_f"]["ours"] == "41"
    assert by["Figures 7 to 9"]["verdict"] == findings.NO_DATA


@pytest.mark.slow
def test_distribution_needs_no_larger_table(no_data: None) -> None:
    document = reproduce("distribution")
    check(document)
    assert findings.DIFFERS not in document["counts"]
    by = {f["item"]: f for f in document["findings"]}
    assert by["Figure 2, average of zip 912**"]["ours"] == "[110/3K, 160/3K]"


def test_pp_examples_are_exact() -> None:
    from sfumato.papers import pp_paper as pp

    found = [*pp.section_1(), *pp.examples()]
    assert {f.verdict for f in found} == {findings.REPRODUCED, findings.TREND, findings.PAPER}


def test_rr_original_associations_are_exact() -> None:
    from sfumato.papers import rr_paper as rr

    assert {f.verdict for f in rr.original()} == {findings.REPRODUCED}


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_on_the_larger_tables(paper: str, data_dir: object) -> None:
    check(reproduce(paper))


def test_the_command(no_data: None) -> None:
    done = sfumato("reproduce", "splu", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["paper"] == "splu"
    assert sfumato("reproduce", "nothing").code == 2
    with pytest.raises(SpecError):
        reproduce("nothing")
