"""Losses round up, keep probabilities round down, thresholds are exact."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import sfumato
from sfumato.errors import PlanError
from sfumato.laws.keep_or_redraw import KeepOrRedraw
from sfumato.methods.uniform import METHOD as uniform
from sfumato.stats.gamma import floor_significant, gamma_bound

shares = st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(999, 1000), max_denominator=1000)


@given(shares, shares, st.integers(2, 500))
def test_channel_that_runs_never_exceeds_rho2(first: Fraction, second: Fraction, values: int) -> None:
    """The sampler's own numbers, taken as exact: a 32-bit threshold for p, else one of the values."""
    rho1, rho2 = sorted((first, second))
    if rho1 == rho2:
        return
    gamma = floor_significant(gamma_bound(rho1, rho2), 3)
    if gamma <= 1:
        return
    plan = uniform.plan_type(rho1=rho1, rho2=rho2, law=KeepOrRedraw(values=values, gammas=(gamma,)))
    ((keep, share),) = plan.law.channels
    p, q = Fraction(int(float(keep) * 2**32), 2**32), Fraction(float(share))
    redraw = (1 - p) / values
    assert p <= keep
    for prior in (rho1, rho1 / 2):
        assert prior * (p + redraw) / (prior * (p + redraw) + (1 - prior) * redraw) <= rho2
    assert abs(redraw - q) <= Fraction(1, 2**31)
    stated = uniform.guarantee(plan).parameters["posterior"]
    exact = rho1 * gamma / (rho1 * gamma + 1 - rho1)
    assert Fraction(stated) >= exact - Fraction(1, 10**15)


def test_share_equal_to_rho1_is_protected_exactly(tmp_path: Path) -> None:
    """One value holds 1/3 of 9 rows: protected at rho1 = 1/3 and not at the next smaller fraction."""
    pq.write_table(pa.table({"s": list("aaabbbbbb")}), tmp_path / "t.parquet")
    source = tmp_path / "t.parquet"
    options = ("--sa", "s", "--method", "uniform", "--rho2", "9/10")
    assert sfumato("plan", source, *options, "--rho1", "1/3").code == 0
    assert sfumato("plan", source, *options, "--rho1", "333333333333333333/1000000000000000000").code == 3


@pytest.mark.parametrize("text", ["1/13", "0.1", "1e-1"])
def test_fractions_stay_exact(text: str, tmp_path: Path) -> None:
    values = [f"v{i:02}" for i in range(40)] * 5
    pq.write_table(pa.table({"s": values}), tmp_path / "t.parquet")
    options = ("--sa", "s", "--method", "uniform", "--rho1", text, "--rho2", "1/2")
    done = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *options)
    assert done.code == 0, done.text
    manifest = json.loads((tmp_path / "out" / "release.json").read_text())
    assert Fraction(manifest["guarantee"]["parameters"]["rho1"]) == Fraction(text)


def test_too_close_parameters_are_refused() -> None:
    with pytest.raises(PlanError):
        _plan_with(Fraction(1, 2), Fraction(5001, 10_000))


def _plan_with(rho1: Fraction, rho2: Fraction) -> None:
    import numpy as np

    from sfumato.model.private import Histogram, Profile
    from sfumato.model.public import Domain

    domain = Domain(columns=("s",), values=(("a",), ("b",)))
    counts = Histogram(codes=np.array([[0], [1]], dtype=np.int32), true_counts=np.array([5, 5]))
    spec = uniform.spec(rho1=rho1, rho2=rho2)
    uniform.plan(spec, Profile(rows=10, domains=(domain,), histograms=(counts,)), np.random.default_rng(1))
