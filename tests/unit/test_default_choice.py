"""What `publish` runs without `--method`: the most accurate that holds any prior, on a value and on a set."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from commands import sfumato as run
from sfumato.choosing import DEFAULT
from sfumato.choosing.measure import measure
from sfumato.choosing.recommend import HELD, alternatives
from sfumato.choosing.setting import make_setting
from sfumato.methods import REGISTRY
from sfumato.model.public import Trust
from sfumato.publishing.randomness import Secret


def table(seed: int, values: int, rows: int = 2000) -> pa.Table:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(values, 5.0))
    disease = np.concatenate([np.arange(values), rng.choice(values, size=rows - values, p=shares)])
    return pa.table({"disease": [f"d{i:02d}" for i in disease], "sex": rng.choice(["f", "m"], size=rows)})


@pytest.mark.parametrize(("seed", "values"), [(1, 6), (2, 9), (3, 20), (4, 45)])
def test_no_proved_method_that_holds_as_much_errs_less(seed: int, values: int) -> None:
    roles = sfumato.Roles(sensitive="disease", quasi=("sex",))
    own, better = alternatives(table(seed, values), roles=roles, rho1=Fraction(1, 3), rho2=Fraction(3, 5))
    assert own.method == DEFAULT
    assert set(HELD) <= set(own.held)
    for found in better:
        assert found.error < own.error
        assert not set(HELD) <= set(found.held), f"{found.method} holds as much and errs less"
    assert [f.error for f in better] == sorted(f.error for f in better)


def test_the_default_is_proved() -> None:
    assert REGISTRY[DEFAULT].trust is Trust.PROVED


def test_publish_names_what_would_err_less_and_what_it_gives_up(tmp_path: Path) -> None:
    source, out = tmp_path / "t.parquet", tmp_path / "out"
    pq.write_table(table(5, 15, rows=30_000), source)
    said = ["publish", source, out, "--sa", "disease", "--qi", "sex", "--rho1", "1/5", "--rho2", "1/2"]
    found = run(*said)
    assert found.code == 0, found.err
    assert f"{DEFAULT}: no --method was given" in found.out
    own, better = alternatives(
        source,
        roles=sfumato.Roles(sensitive="disease", quasi=("sex",)),
        rho1=Fraction(1, 5),
        rho2=Fraction(1, 2),
    )
    assert better, "this table has a more accurate alternative"
    for other in better:
        assert other.against(own) in found.out
    named = run(*said, "--force", "--method", DEFAULT)
    assert named.code == 0
    assert "no --method was given" not in named.out
    assert sfumato.open_release(out).manifest.method == DEFAULT


def odd() -> pa.Table:
    """A table whose columns have the names that questions of our own would give to counts and their errors."""
    rows = table(6, 6, rows=240)
    return pa.table({"n": rows["disease"], "N_se": rows["sex"]})


def test_a_sensitive_column_named_like_a_count_is_published(tmp_path: Path) -> None:
    pq.write_table(odd(), tmp_path / "t.parquet")
    options = ["--sa", "n", "--qi", "N_se", "--rho1", "1/3", "--rho2", "3/5"]
    found = run("publish", tmp_path / "t.parquet", tmp_path / "out", *options)
    assert found.code == 0, found.text


@pytest.mark.parametrize("name", list(REGISTRY))
def test_every_method_is_foreseen_on_columns_named_like_counts(name: str) -> None:
    roles = sfumato.Roles(sensitive="n", quasi=("N_se",))
    setting = make_setting(odd(), roles=roles, bound="3/5", conditions=2)
    for candidate in REGISTRY[name].at_bound(setting.facts, setting.tau, setting.rho1):
        found = measure(setting, candidate, 1, Secret.from_seed(1))
        assert found["applicable"], found["reason"]


def test_a_question_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    pq.write_table(odd(), tmp_path / "t.parquet")
    (tmp_path / "q.sql").write_text("SELECT n, COUNT(*) AS n FROM release GROUP BY n", encoding="utf-8")
    options = ["--sa", "n", "--qi", "N_se", "--bound", "3/5", "--workload", tmp_path / "q.sql"]
    found = run("recommend", tmp_path / "t.parquet", *options)
    assert found.code == 2
    assert "alias" in found.err
