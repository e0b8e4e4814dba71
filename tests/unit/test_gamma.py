"""Exact checks of the amplification limit, its rounding and the keep probabilities (docs/explanation/uniform.md)."""

from fractions import Fraction as F

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import SpecError
from sfumato.stats.gamma import floor_significant, gamma_bound, keep_probabilities, posterior

open_unit = st.fractions(min_value=0, max_value=1, max_denominator=10**6).filter(lambda x: 0 < x < 1)


def test_gamma_of_the_papers_parameters():
    assert gamma_bound(F(1, 13), F(1, 6)) == F(12, 5)
    assert gamma_bound(F(1, 3), F(2, 3)) == 4
    assert gamma_bound(F(1, 6), F(2, 3)) == 10


@pytest.mark.parametrize(
    ("rho1", "rho2", "field"),
    [(F(0), F(1, 2), "rho1"), (F(-1), F(1, 2), "rho1"), (F(1), F(2), "rho1"), (F(1, 2), F(1, 2), "rho2"),
     (F(1, 2), F(1, 3), "rho2"), (F(1, 2), F(1), "rho2")],
)  # fmt: skip
def test_bad_parameters_are_named(rho1, rho2, field):
    with pytest.raises(SpecError, match=field) as caught:
        gamma_bound(rho1, rho2)
    assert caught.value.field == field


@given(open_unit, open_unit)
def test_posterior_reaches_rho2_exactly_and_no_smaller_prior_exceeds_it(a, b):
    rho1, rho2 = min(a, b), max(a, b)
    if rho1 == rho2:
        return
    gamma = gamma_bound(rho1, rho2)
    assert posterior(rho1, gamma) == rho2
    assert posterior(rho1 / 2, gamma) < rho2
    assert posterior(rho1, floor_significant(gamma, 3)) <= rho2


def test_percentages_for_gamma_5():
    domain = (77, 70, 50, 14, 9, 7, 6, 2)
    pairs = [keep_probabilities(F(5), m) for m in domain]
    assert [round(100 * p) for p, _ in pairs] == [5, 5, 7, 22, 31, 36, 40, 67]
    assert [round(100 * q) for _, q in pairs] == [1, 1, 2, 6, 8, 9, 10, 17]
    p, q = keep_probabilities(F(5), 15000)
    assert (q, p + q) == (F(1, 15004), F(5, 15004))  # 6.66e-5 and 3.33e-4
    p, q = keep_probabilities(F(5), 5390)
    assert (p, q, p + q) == (F(4, 5394), F(1, 5394), F(5, 5394))


@given(st.fractions(min_value=F(101, 100), max_value=10**6), st.integers(1, 10**6))
def test_keep_probabilities_are_a_channel_with_that_gamma(gamma, m):
    p, q = keep_probabilities(gamma, m)
    assert p + m * q == 1
    assert (p + q) / q == gamma


@pytest.mark.parametrize("bad", [(F(1), 3), (F(1, 2), 3), (F(2), 0)])
def test_impossible_channels_are_refused(bad):
    with pytest.raises(ValueError):
        keep_probabilities(*bad)


@pytest.mark.parametrize(
    ("x", "digits", "floor"),
    [(F(12, 5), 3, F(12, 5)), (F(240099, 100000), 3, F(12, 5)), (F(239999, 100000), 3, F(239, 100)),
     (F(10), 2, F(10)), (F(109, 10), 2, F(10)), (F(123456), 3, F(123000)), (F(999, 1000), 2, F(99, 100)),
     (F(1, 7), 3, F(142, 1000)), (F(1), 1, F(1)), (F(101, 100), 2, F(1))],
)  # fmt: skip
def test_floor_significant_worked(x, digits, floor):
    assert floor_significant(x, digits) == floor


@given(st.fractions(min_value=F(1, 10**9), max_value=10**9), st.integers(1, 6))
def test_floor_significant_is_the_largest_short_number_below(x, digits):
    low = floor_significant(x, digits)
    exponent = 0
    while power_of_ten(exponent + 1) <= low:
        exponent += 1
    while power_of_ten(exponent) > low:
        exponent -= 1
    unit = power_of_ten(exponent - digits + 1)
    assert low <= x < low + unit
    assert (low / unit).denominator == 1
    assert floor_significant(low, digits) == low


def power_of_ten(exponent):
    return F(10) ** exponent


@pytest.mark.parametrize("bad", [(F(0), 3), (F(-1), 3), (F(1), 0)])
def test_floor_significant_refuses(bad):
    with pytest.raises(ValueError):
        floor_significant(*bad)
