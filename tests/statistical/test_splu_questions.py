"""Coverage of splu's intervals through plan, draw and query, for all kinds of questions.

30 releases of one table of 8,000 rows; the condition goes with the sensitive value. False alarm: ALPHA for each
question's bias and ALPHA for the pooled coverage. A channel for another gamma must be caught.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from benchmarks.redrawn import Redrawn
from scipy import stats

import sfumato as sf
from constants import ALPHA, SEED
from sfumato.query import Release

pytestmark = pytest.mark.slow

RELEASES, ROWS, VALUES = 30, 8000, 10
QUESTIONS = (
    "SELECT COUNT(*) AS n FROM release WHERE s = 7 AND sex = 'f'",
    "SELECT COUNT(*) AS n FROM release WHERE s = 1 AND sex = 'f'",
    "SELECT COUNT(*) AS n FROM release WHERE s IN (2, 5, 8) AND sex = 'm'",
    "SELECT COUNT(*) AS n FROM release WHERE s >= 4",
    "SELECT COUNT(*) AS n FROM release WHERE (s = 7 AND sex = 'f') OR (s = 0 AND sex = 'm')",
    "SELECT COUNT(*) AS n FROM release WHERE s = 3 OR sex = 'f'",
    "SELECT SUM(age) AS n FROM release WHERE s = 6",
    "SELECT SUM(age) AS n FROM release WHERE s = 6 AND sex = 'f'",
    "SELECT SUM(s) AS n FROM release WHERE sex = 'f'",
    "SELECT AVG(age) AS n FROM release WHERE s = 6",
    "SELECT AVG(s) AS n FROM release WHERE sex = 'f'",
    "SELECT AVG(CASE WHEN s = 7 THEN 1 ELSE 0 END) AS n FROM release WHERE sex = 'f'",
)


def table() -> pa.Table:
    rng = np.random.default_rng(SEED)
    shares = 0.88 ** np.arange(VALUES)
    s = rng.choice(VALUES, size=ROWS, p=shares / shares.sum())
    sex = np.where(rng.random(ROWS) < np.linspace(0.1, 0.9, VALUES)[s], "f", "m")
    return pa.table({"s": pa.array(s, pa.int32()), "sex": sex, "age": pa.array(rng.integers(18, 90, ROWS) + 2 * s)})


def answers(release: Release) -> np.ndarray:
    found = [release.sql(question).rows()[0] for question in QUESTIONS]
    return np.array([[row["n"], row["n_low"], row["n_high"]] for row in found], dtype=float)


@pytest.fixture(scope="module")
def runs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Answers (releases, questions, 3), those of a reader who believes another gamma, and the truth."""
    source = table()
    with duckdb.connect() as con:
        con.register("release", source)
        truth = [con.execute(question).fetchall()[0][0] for question in QUESTIONS]
    good, bad = [], []
    many = Redrawn(source, roles=sf.Roles(sensitive="s", quasi=["sex", "age"]), method=sf.Splu(gamma=4))
    for k in range(RELEASES):
        good.append(answers(many.release(SEED + k)))
        if k < RELEASES // 3:
            opened = many.release(SEED + k).opened
            opened.law = replace(opened.law, gamma={"s": 3})
            bad.append(answers(Release(opened)))
    return np.array(good), np.array(bad), np.array(truth, dtype=float)


def bias(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    error = found[:, :, 0] - truth
    return np.abs(error.mean(axis=0)) / (error.std(axis=0, ddof=1) / np.sqrt(len(error)))


def test_every_question_is_answered_without_bias(runs):
    good, bad, truth = runs
    limit = stats.norm.isf(ALPHA / 2)
    assert (bias(good, truth) < limit).all(), dict(zip(QUESTIONS, bias(good, truth), strict=True))
    assert bias(bad, truth).max() > limit


def test_intervals_cover(runs):
    """Pooled over all questions; one question's coverage must lie above 0.85 with a false alarm of ALPHA."""
    good, _, truth = runs
    covered = (good[:, :, 1] <= truth) & (truth <= good[:, :, 2])
    per_release = covered.mean(axis=1)
    margin = stats.norm.isf(ALPHA / 2) * per_release.std(ddof=1) / np.sqrt(RELEASES)
    assert 0.93 - margin < covered.mean() < 0.98 + margin
    least = stats.binom.ppf(ALPHA / len(QUESTIONS), RELEASES, 0.93) / RELEASES
    assert (covered.mean(axis=0) >= least).all(), dict(zip(QUESTIONS, covered.mean(axis=0), strict=True))


def test_few_rows_are_covered_too():
    """400 blocks of 20 rows, all ten values, 10 releases: 40,000 intervals, weakly dependent within a release.

    Coverage must lie above 0.93 less 6 standard errors of its mean over releases; that of intervals moved up by a sixth
    of their width must not.
    """
    source = table().append_column("block", pa.array(np.arange(ROWS) % 400, pa.int32()))
    ask = "SELECT block, s, COUNT(*) AS n FROM release GROUP BY block, s ORDER BY block, s"
    true = np.bincount(source["block"].to_numpy() * VALUES + source["s"].to_numpy(), minlength=400 * VALUES)
    held, moved = [], []
    many = Redrawn(source, roles=sf.Roles(sensitive="s", quasi=["sex", "age", "block"]), method=sf.Splu(gamma=4))
    for k in range(10):
        answer = many.release(SEED + 1000 + k).sql(ask).to_pandas()
        low, width = answer.n_low, answer.n_high - answer.n_low
        held.append(((low <= true + 1e-9) & (true <= answer.n_high + 1e-9)).mean())
        moved.append(((low + width / 6 <= true) & (true <= answer.n_high + width / 6)).mean())
    margin = 6 * np.std(held, ddof=1) / np.sqrt(10)
    assert margin < 0.03
    assert 0.93 - margin < np.mean(held) < 0.98
    assert np.mean(moved) < 0.93 - margin
