"""Generated questions over Adult against DuckDB on the original, for every method.

Exact numbers and certain bounds must hold without exception. Intervals: about a thousand numbers a method, many of
which share rows, so their coverage varies more than binomially; the bands are wide for that reason and catch gross
faults (intervals 30 % too narrow cover 83 %). `python -m benchmarks.differential` asks thousands of questions.
"""

from __future__ import annotations

import pytest
from benchmarks.differential import EVERYTHING, METHODS, judge, run

OVERALL = (0.89, 0.995)
FEATURE = 0.83
LEAST = 100  # numbers, for a feature to be judged by itself


@pytest.mark.slow
@pytest.mark.parametrize("method", list(METHODS))
def test_questions_against_the_original(method: str) -> None:
    scores = run(method, questions=60, releases=2)
    whole = scores[EVERYTHING]
    assert not whole.faults, whole.faults[0]
    assert whole.exact > 50
    assert whole.intervals + whole.bounds > 500
    if whole.intervals:
        assert OVERALL[0] <= whole.coverage <= OVERALL[1]
        for feature, score in scores.items():
            assert score.intervals < LEAST or score.coverage >= FEATURE, (feature, score.coverage)


def test_the_judge_rejects_wrong_numbers() -> None:
    """The comparison itself tells right from wrong."""
    row = {"n": 10.0, "n_se": 0.0, "n_low": 10.0, "n_high": 10.0}
    assert judge(row, "n", 10, "")[0] == "exact"
    assert judge(row, "n", 11, "")[0] == "fault"
    row |= {"n_se": 2.0, "n_low": 6.0, "n_high": 14.0}
    assert [judge(row, "n", true, "")[0] for true in (6, 15)] == ["covered", "missed"]
    assert judge(row | {"n_min": 0.0, "n_max": 12.0}, "n", 13, "")[0] == "fault"
    assert judge(row | {"n": None, "n_se": None}, "n", 15, "", certain=True)[0] == "fault"
    assert judge(row | {"n": None, "n_se": None}, "n", 15, "")[0] == "missed"
