"""Analyses of odd tables by every method: a finite number with an error above 0, or a refusal of ours; never a warning.

28 and 600 rows, a value of two rows, collinear, constant, separated and heavy-tailed columns, weights that are 0,
negative or missing, far levels.
"""

from __future__ import annotations

import json
import math
import warnings
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError, UnsupportedQuery
from sfumato.methods import REGISTRY
from sfumato.methods.registry import BUILT_IN

METHODS = {
    "uniform": lambda rows: sf.UniformPerturbation(rho1="1/3", rho2="2/3"),
    "small-domain": lambda rows: sf.SmallDomain(rho1="1/3", rho2="2/3", min_size=max(20, rows // 8)),
    "splu": lambda rows: sf.Splu(gamma=3),
    "anatomy": lambda rows: sf.Anatomy(l=2),
    "randomized-response": lambda rows: sf.RandomizedResponse(scope="s", keep={"s": 0.7}),
    "l-diversity": lambda rows: sf.LDiversity(l=2),
    "target-distribution": lambda rows: sf.TargetDistribution(),
    "distribution-draw": lambda rows: sf.DistributionDraw(),
}
SILENT = {"target-distribution", "distribution-draw"}  # no errors of sums over true rows
PLAIN = {"l-diversity"}  # publishes the sensitive column as it is: sums over it are exact
FITS: list[tuple[str, dict[str, Any]]] = [
    ("x ~ C(s)", {}),
    ("x ~ C(s)", {"target": "table", "level": 0.99}),
    ("x ~ C(s) + x2", {}),  # the terms determine the outcome
    ("x2 ~ x + const", {}),
    ("y ~ x + C(s)", {"family": "binomial", "level": 0.5}),
    ("sep ~ x + C(s)", {"family": "binomial"}),
    ("y ~ C(s)", {"family": "binomial", "where": "y = 1"}),
    ("cnt ~ C(s) + C(g)", {"family": "poisson"}),
    ("s ~ x", {"family": "multinomial"}),
    ("{s == 1} ~ x", {"family": "binomial"}),
    ("{s == 1} ~ C(s)", {"family": "binomial"}),
    ("x ~ C(s)", {"weights": "w0"}),
    ("x ~ C(s)", {"weights": "wneg"}),
    ("x ~ C(s)", {"weights": "wnull"}),
    ("x ~ C(s) + C(rare)", {}),
    ("big ~ C(s)", {}),
    ("x ~ 1", {"where": "s = 1"}),
    ("x ~ s", {"where": "rare = 'r'"}),
]
OTHERS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("test", ("g", "s"), {}),
    ("test", ("rare", "s"), {}),
    ("test", ("const", "s"), {}),
    ("quantile", ("s", [0.0, 0.5, 1.0]), {}),
    ("quantile", ("big", [0.1, 0.9]), {"where": "s = 1", "by": ["g"]}),
    ("correlation", ("s", "big"), {}),
    ("correlation", ("s", "const"), {}),
    ("correlation", ("s", "x"), {"where": "rare = 'r'"}),
    ("compare", (), {"by": "s", "mean": "x"}),
    ("compare", (), {"by": "rare", "share": "s = 1"}),
    ("compare", (), {"by": "s", "share": "s = 1"}),  # known without error
    ("compare", (), {"by": "s", "mean": "big", "level": 0.99}),
]


def odd(rows: int) -> pa.Table:
    rng = np.random.default_rng(11)
    s = np.r_[np.arange(6), rng.integers(0, 6, rows - 6)]
    x, at = rng.normal(size=rows), np.arange(rows)
    whole = {"s": s, "y": x + s > 1, "sep": x > 0, "cnt": rng.poisson(2, rows)}
    return pa.table(
        {name: pa.array(np.asarray(v, np.int32)) for name, v in whole.items()}
        | {"g": np.where(rng.random(rows) < 0.5, "a", "b"), "rare": np.where(at < 2, "r", "o")}
        | {"x": x, "x2": 2 * x, "const": np.ones(rows), "big": np.round(rng.lognormal(5, 3, rows), 2)}
        | {"w0": np.zeros(rows), "wneg": np.where(at % 7 == 0, -1.0, 1.0)}
        | {"wnull": pa.array([None if i % 5 == 0 else 1.0 for i in range(rows)])}
    )


@cache
def published(method: str, rows: int) -> sf.Release | None:
    roles = sf.Roles(
        sensitive="s",
        quasi=["g", "rare"],
        insensitive=["y", "sep", "cnt", "x", "x2", "const", "big", "w0", "wneg", "wnull"],
    )
    try:
        return sf.publish(odd(rows), roles=roles, method=METHODS[method](rows), seed=3, accept_unprotected=True)
    except SfumatoError:
        return None  # too small a table for this method


def numbers_in(document: Any) -> list[float]:
    if isinstance(document, dict):
        return [n for part in document.values() for n in numbers_in(part)]
    if isinstance(document, list | tuple):
        return [n for part in document for n in numbers_in(part)]
    return [document] if isinstance(document, float) else []


def test_every_built_in_method_is_tried() -> None:
    assert set(METHODS) == set(BUILT_IN)
    assert all(published(method, 600) is not None for method in METHODS)


@pytest.mark.parametrize("rows", [28, 600])
@pytest.mark.parametrize("method", METHODS)
def test_an_analysis_is_finite_or_refused(method: str, rows: int) -> None:
    release, answered = published(method, rows), 0
    if release is None:
        pytest.skip("refused to publish")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for formula, options in FITS:
            try:
                fit = release.fit(formula, **options)
            except SfumatoError:
                continue
            answered += "C(s)" in formula
            assert np.isfinite(fit.estimates).all(), formula
            exact = "s" not in formula.replace("const", "").replace("sep", "") and "where" not in options
            assert (fit.bse > 0).all() or exact or method in PLAIN, (formula, options)
            share = fit.noise.to_numpy()
            assert (share[np.isfinite(share)] <= 1 + 1e-9).all(), formula
            fit.summary()
        for what, arguments, options in OTHERS:
            try:
                found = getattr(release, what)(*arguments, **options)
            except SfumatoError:
                continue
            answered += 1
            document = found.to_dict()
            assert all(math.isfinite(n) for n in numbers_in(document)), (what, arguments, options)
            json.dumps(document, allow_nan=False)
    assert answered >= 4 or method in SILENT or rows == 28


@pytest.mark.parametrize("method", sorted(SILENT))
def test_methods_without_errors_refuse_by_name(method: str) -> None:
    release = published(method, 600)
    assert release is not None
    with pytest.raises(UnsupportedQuery, match=method):
        release.fit("x ~ C(s)")


def test_the_built_in_methods_are_registered() -> None:
    assert set(BUILT_IN) <= set(REGISTRY)
