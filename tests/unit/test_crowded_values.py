"""A value in nearly every decoy group leaves a channel that is hardly known: answers name it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.laws.decoy_channel import closed_form_channel, rebuild_channel
from sfumato.laws.decoys import LEAST_MARGIN, margins

ROWS, SIZE = 6_000, 4
CROWDED = "'wide' is in nearly every group"
ROLES = sf.Roles(sensitive="s", rest="quasi")


def histogram(top: int) -> np.ndarray:
    return np.array([top, *np.diff(np.linspace(0, ROWS - top, 9).astype(int))], dtype=np.int64)


def test_the_distance_from_every_group_is_what_estimates_divide_by() -> None:
    """M without M's first direction is that of any values; along it M shrinks as the margin does, to 0 at 0."""
    limit = ROWS // SIZE
    for top in (limit - 1, limit - 10, limit - 100):
        channel = closed_form_channel(np.arange(9), histogram(top), SIZE)
        (margin, *others) = margins(channel)
        assert margin == pytest.approx((limit - top) / np.sqrt(top * (1 - 1 / SIZE)))
        assert min(others) > LEAST_MARGIN
        # Two states, the value or another: 1 / size of its records show it, and `other` of the rest; f M = f.
        other = top * (1 - 1 / SIZE) / (ROWS - top)
        away = (limit - top) / (ROWS - top)
        assert 1 / SIZE - other == pytest.approx(away)
        e = np.eye(9)[0]
        through = channel.matrix.forward(e)
        assert through[0] - through[1:] @ histogram(top)[1:] / (ROWS - top) == pytest.approx(away)
    assert not rebuild_channel(histogram(limit), SIZE, seed=1).identifiable.any()


def table(top: int) -> pa.Table:
    rng = np.random.default_rng(3)
    names = np.array(["wide", *(f"v{i}" for i in range(8))])
    s = np.repeat(names, histogram(top))
    return pa.table({"s": s, "sex": np.where(rng.random(ROWS) < 0.5, "m", "f"), "age": 20 + rng.integers(0, 50, ROWS)})


def said(release: sf.Release) -> list[tuple[str, ...]]:
    """The caveats of every kind of answer that reads who has which value."""
    return [
        release.sql("SELECT COUNT(*) AS n FROM release WHERE sex = 'm' AND s = 'v1'").caveats,
        release.sql("SELECT s, AVG(age) AS a FROM release GROUP BY s").caveats,
        release.sql("SELECT COUNT(*) FILTER (WHERE s = 'wide') / COUNT(*) AS a FROM release GROUP BY sex").caveats,
        release.compare(share="s = 'v1'", by="sex").caveats,
        release.compare(mean="age", by="s").caveats,
        release.fit("age ~ C(s)").caveats,
        release.test("sex", "s").caveats,
        release.quantile("age", [0.5], where="s = 'wide'").caveats,
        release.crosstab("sex", "s").caveats,
    ]


def test_a_value_in_nearly_every_group_is_named_by_every_answer() -> None:
    release = sf.publish(table(1_440), roles=ROLES, method=sf.Splu(gamma=SIZE), seed=2)
    for caveats in said(release):
        assert [c for c in caveats if CROWDED in c and "1 in 4 rows" in c], caveats
    for exact in ("SELECT COUNT(*) AS n FROM release WHERE s = 'wide'", "SELECT s, COUNT(*) FROM release GROUP BY s"):
        assert not release.sql(exact).caveats  # totals are published


def test_ordinary_releases_say_nothing_of_it() -> None:
    release = sf.publish(table(1_000), roles=ROLES, method=sf.Splu(gamma=SIZE), seed=2)
    assert not [c for caveats in said(release) for c in caveats if "every group" in c]
    adult = sf.datasets.adult().select(["age", "sex", "occupation"])
    roles = sf.Roles(sensitive="occupation", rest="quasi")
    adult_release = sf.publish(adult, roles=roles, method=sf.Splu(gamma=4), seed=1, null_as_value=True)
    assert not adult_release.compare(share="occupation = 'Sales'", by="sex").caveats
    assert not adult_release.fit("age ~ C(sex) + {occupation == 'Sales'}", where="occupation IS NOT NULL").caveats
