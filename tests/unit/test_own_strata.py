"""An aggregate's own strata: what is merged, what is not, and that the parts come back in their places."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from sfumato.answering.functionals import asked_alone, estimate_apart
from sfumato.model.public import Asked, Estimated, Observed

KEYS, VALUES = 3, 4
# (pattern, functional, value): the first functional is the same in all patterns, the others are not
H = np.array(
    [
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2], [0, 0, 0, 0]],
        [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 2], [0, 0, 0, 1]],
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2], [0, 0, 0, 1]],
    ],
    dtype=float,
)


def observed() -> Observed:
    """Every (output row, pattern) twice, as if a finer grouping set had cut it."""
    rng = np.random.default_rng(6)
    key, pattern, _ = (a.ravel() for a in np.indices((KEYS, len(H), 2)))
    stratum, value = (a.ravel() for a in np.indices((len(key), VALUES)))
    moments = rng.integers(1, 30, (len(stratum), 1)).astype(float)
    return Observed(stratum=stratum, part=value % 2, value=value, moments=moments, key=key, pattern=pattern, keys=KEYS)


def asked(chosen: list[int], pairs: list[tuple[int, int]], patterns: list[int] | None = None) -> Asked:
    tables = tuple(csr_array(H[b][chosen]) for b in (patterns if patterns is not None else range(len(H))))
    return Asked(
        units=(0,),
        classes=(np.arange(VALUES, dtype=np.int32),),
        coefficients=tables,
        measure=np.zeros(len(chosen), np.intp),
        products=np.zeros((1, 1), np.intp),
        pairs=np.array(pairs, np.intp).reshape(-1, 2),
        binary=all(bool(np.all(t.data == 1)) for t in tables),
        z=2.0,
    )


def by_stratum(seen: Observed, question: Asked) -> Estimated:
    """Sums of h, and a variance that is taken stratum by stratum: the root of each sum, so that cutting changes it."""
    F = question.functionals
    value, variance = np.zeros((seen.keys, F)), np.zeros((seen.keys, F))
    for t in range(seen.strata):
        here = seen.stratum == t
        h = question.coefficients[seen.pattern[t]].toarray()[:, seen.value[here]]
        total = h @ seen.moments[here, 0]
        value[seen.key[t]] += total
        variance[seen.key[t]] += np.sqrt(total)
    a, b = question.pairs.T
    return Estimated(
        value=value,
        variance=variance,
        low=value - 1,
        high=value + 1,
        covariance=value[:, a] * 1000 + value[:, b],
        caveats=(f"{seen.strata} strata, {'binary' if question.binary else 'weighted'}",),
    )


@pytest.mark.parametrize("chosen", [[0], [1], [3]])
def test_an_aggregate_has_the_error_it_has_alone(chosen):
    together = estimate_apart(by_stratum, observed(), asked([0, 1, 2, 3], []))
    alone = estimate_apart(by_stratum, observed(), asked(chosen, []))
    np.testing.assert_allclose(together.variance[:, chosen], alone.variance)
    np.testing.assert_allclose(together.value, by_stratum(observed(), asked([0, 1, 2, 3], [])).value)


def test_rows_that_an_aggregate_cannot_tell_apart_are_one_stratum():
    found = estimate_apart(by_stratum, observed(), asked([0], []))
    np.testing.assert_allclose(found.variance, np.sqrt(found.value))
    assert found.caveats == (f"{KEYS} strata, binary",)
    finer = estimate_apart(by_stratum, observed(), asked([1], []))
    assert finer.caveats == (f"{2 * KEYS} strata, binary",)


def test_weights_beside_a_count_do_not_make_it_one_of_weights():
    found = estimate_apart(by_stratum, observed(), asked([0, 2], []))
    assert found.caveats == (f"{KEYS} strata, binary", f"{KEYS} strata, weighted")


def test_covariances_come_back_in_their_places():
    """A ratio's two functionals stay together, whatever stands between them."""
    pairs = [(1, 3), (0, 2)]
    found = estimate_apart(by_stratum, observed(), asked([0, 1, 2, 3], pairs))
    for column, (a, b) in enumerate(pairs):
        np.testing.assert_allclose(found.covariance[:, column], found.value[:, a] * 1000 + found.value[:, b])
    assert found.minimum is None
    assert found.maximum is None


def test_units_that_do_not_matter_are_left_out():
    """Of two units each aggregate sees its own; one that needs both sees both; one that needs none keeps the first."""
    a, b = (np.repeat(np.eye(2), 3, axis=1), np.tile(np.eye(3), 2))  # over 2 x 3 joint classes
    tables = (csr_array(np.vstack([a[:1], b[1:2], a[:1] * b[:1], np.ones((1, 6))])),)
    question = Asked(
        units=(4, 7),
        classes=(np.arange(2, dtype=np.int32), np.arange(3, dtype=np.int32)),
        coefficients=tables,
        measure=np.zeros(4, np.intp),
        products=np.zeros((1, 1), np.intp),
        pairs=np.zeros((0, 2), np.intp),
        binary=True,
        z=2.0,
    )
    counts = np.arange(1.0, 7.0)
    seen = Observed(
        stratum=np.zeros(6, np.intp), part=np.zeros(6, np.int64), value=np.arange(6), moments=counts[:, None],
        key=np.zeros(1, np.intp), pattern=np.zeros(1, np.intp), keys=1,
    )  # fmt: skip
    calls = []

    def estimate(mine: Observed, alone: Asked) -> Estimated:
        calls.append((alone.units, alone.shape, alone.functionals))
        return by_stratum(mine, alone)

    found = estimate_apart(estimate, seen, question)
    assert sorted(calls) == [((4,), (2,), 2), ((4, 7), (2, 3), 1), ((7,), (3,), 1)]
    np.testing.assert_allclose(found.value[0], tables[0] @ counts)


def test_one_aggregate_asked_alone_keeps_its_places():
    seen, alone, top, bottom = asked_alone(observed(), asked([0, 1, 2, 3], [(1, 3)]), [3], [1])
    assert (top, bottom, alone.functionals) == ([1], [0], 2)
    together = by_stratum(observed(), asked([0, 1, 2, 3], []))
    found = by_stratum(seen, alone)
    np.testing.assert_allclose(found.value[:, [1, 0]], together.value[:, [3, 1]])
