"""Estimates from a channel that the release states, of any form: exact on expected counts, errors by enumeration."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from sfumato.laws.channel import Channel
from sfumato.model.public import Asked, Domain, Estimated, Evidence, Observed

CHANCES = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.5, 0.1, 0.3], [0.2, 0.2, 0.6, 0.0], [0.05, 0.05, 0.1, 0.8]])
TRUE = np.array([400.0, 150.0, 30.0, 20.0])
QUESTIONS = np.array([[1.0, 0, 0, 0], [0, 1, 0, 1], [2, -1, 0, 3]])
PAIRS = np.array([(0, 1), (0, 2), (1, 2)])


def asked_of(shown: np.ndarray) -> Estimated:
    """The questions, asked of rows that show so many of each value."""
    values = np.arange(4)
    observed = Observed(
        stratum=np.zeros(4, dtype=np.intp),
        part=np.zeros(4, dtype=np.int64),
        value=values,
        moments=shown[:, None],
        key=np.zeros(1, dtype=np.intp),
        pattern=np.zeros(1, dtype=np.intp),
        keys=1,
    )
    asked = Asked(
        units=(0,),
        classes=(values.astype(np.int32),),
        coefficients=(csr_array(QUESTIONS),),
        measure=np.zeros(3, dtype=np.intp),
        products=np.zeros((1, 1), dtype=np.intp),
        pairs=PAIRS,
        binary=False,
        z=1.96,
    )
    domain = Domain(columns=("s",), values=tuple((f"v{i}",) for i in values))
    evidence = Evidence(rows=int(shown.sum()), domains=(domain,), totals=lambda _: (), side={})
    return Channel.of(CHANCES).estimate(evidence, observed, asked)


def test_expected_counts_give_back_the_truth_and_its_errors() -> None:
    """Whatever a row shows, it counts with the weights whose mean under every true value is what is asked."""
    found = asked_of(TRUE @ CHANCES)
    np.testing.assert_allclose(found.value[0], QUESTIONS @ TRUE, rtol=1e-9)
    weights = np.linalg.inv(CHANCES) @ QUESTIONS.T  # (shown, question)

    def covariance(a: int, b: int) -> float:
        products = CHANCES @ (weights[:, a] * weights[:, b])
        return float(TRUE @ (products - QUESTIONS[a] * QUESTIONS[b]))

    np.testing.assert_allclose(found.variance[0], [covariance(f, f) for f in range(3)], rtol=1e-9)
    np.testing.assert_allclose(found.covariance[0], [covariance(a, b) for a, b in PAIRS], rtol=1e-9)
    assert (found.low < found.value).all()
    assert (found.value < found.high).all()
