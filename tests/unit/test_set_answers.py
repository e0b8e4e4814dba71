"""Answers from published sets: unbiased whatever the prior, exact covariance, closed form, sub-tables, cumulants."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_array

from sfumato.errors import SpecError
from sfumato.laws.set_channel import channel_of_blocks, channel_of_sets, count_cumulants, set_answers
from sfumato.laws.set_lists import add_up
from sfumato.methods.shared.set_lists import best_list, best_width, hit_rates, total_variance

GAMMA = Fraction(12, 5)
RNG = np.random.default_rng(20141)


def all_subsets(size, width, gamma=GAMMA):
    return channel_of_sets(size, gamma, list(combinations(range(size), width)))


def skewed(size):
    shares = 0.7 ** np.arange(size)
    return shares / shares.sum()


CHANNELS = [
    all_subsets(2, 1),
    all_subsets(7, 3),
    best_list(13, 4).channel(GAMMA),
    best_list(20, 6).channel(Fraction(4)),
    channel_of_sets(5, GAMMA, [(0, 1), (1, 2, 3), (0, 3, 4), (2, 4), (0,), (2,), (3,), (4,)], [5, 3, 1, 2, 2, 3, 4, 5]),
]


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("tuned", [False, True])
def test_unbiased_for_every_value_whatever_the_prior(channel, tuned):
    """E[omega_h | x] = h(x) for every x, by the channel itself: no sampling."""
    answers = set_answers(channel, skewed(channel.size) if tuned else None)
    H = RNG.normal(size=(6, channel.size))
    assert answers.weights(H) @ answers.matrix == pytest.approx(H, abs=1e-10)


def test_unbiased_in_exact_fractions():
    """The (13, 4, 1) list: weights (h(Z) - b H) / (a - b) with the run channel's own a and b, in fractions."""
    channel = best_list(13, 4).channel(GAMMA)
    Q = [[channel.probability(z, x) for x in range(13)] for z in range(13)]
    sets = channel.sets()
    a = sum(Q[z][0] for z in range(13) if 0 in sets[z])
    b = sum(Q[z][0] for z in range(13) if 1 in sets[z])
    h = [Fraction(x * x - 5) for x in range(13)]
    omega = [(sum(h[x] for x in sets[z]) - b * sum(h)) / (a - b) for z in range(13)]
    for x in range(13):
        assert sum(Q[z][x] * omega[z] for z in range(13)) == h[x]
    found = set_answers(channel).weights(np.array([h], dtype=float))[0]
    assert found == pytest.approx([float(w) for w in omega], rel=1e-10)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_constant_is_answered_exactly(channel):
    answers = set_answers(channel, skewed(channel.size))
    ones = np.ones((1, channel.size))
    assert answers.weights(ones) == pytest.approx(np.ones((1, len(channel.weights))), abs=1e-11)
    assert answers.variance(ones) == pytest.approx(np.zeros((1, channel.size)), abs=1e-10)


@pytest.mark.parametrize("channel", CHANNELS)
def test_covariance_is_that_of_the_enumerated_release(channel):
    """v_hk(x) and the third cumulant against moments taken set by set; its unbiased estimate against its mean."""
    answers = set_answers(channel)
    h, k = RNG.normal(size=(2, 1, channel.size))
    omega_h, omega_k = answers.weights(h)[0], answers.weights(k)[0]
    v = answers.covariance(h, k)[0]
    third = answers.third_cumulant(h)[0]
    for x in range(channel.size):
        q = answers.matrix[:, x]
        assert v[x] == pytest.approx(q @ ((omega_h - h[0, x]) * (omega_k - k[0, x])), rel=1e-8, abs=1e-10)
        assert third[x] == pytest.approx(q @ (omega_h - h[0, x]) ** 3, rel=1e-8, abs=1e-8)
    counts = RNG.integers(0, 100, channel.size)
    expected_sets = answers.matrix @ counts  # E of the published histogram
    assert expected_sets @ answers.weights(v[None])[0] == pytest.approx(counts @ v, rel=1e-9)


def closed_form(size, width, gamma, h, k):
    """v_hk(x) of all subsets, flat prior."""
    a, b = (float(rate) for rate in hit_rates(size, gamma, width))
    t, s = h, k
    mean_t, mean_s = (h.sum() - t) / (size - 1), (k.sum() - s) / (size - 1)
    r = 0.0
    if size > 2:
        r = (a * (width - 1) * (size - width) + (1 - a) * width * (size - 1 - width)) / (size - 2)
    both = ((h * k).sum() - t * s) / (size - 1) - mean_t * mean_s
    return (a * (1 - a) * (t - mean_t) * (s - mean_s) + r * both) / (a - b) ** 2


@pytest.mark.parametrize(("size", "width"), [(7, 3), (2, 1), (6, 1), (8, 5)])
def test_closed_form_of_all_subsets(size, width):
    """The list formula equals the closed form; keep's rounding to 2^-32 leaves a relative difference near 1e-9."""
    answers = set_answers(all_subsets(size, width))
    h, k = RNG.normal(size=(2, size))
    found = answers.covariance(h[None], k[None])[0]
    assert found == pytest.approx(closed_form(size, width, GAMMA, h, k), rel=1e-6, abs=1e-7)
    a, b = (float(rate) for rate in hit_rates(size, GAMMA, width))
    for z, held in enumerate(all_subsets(size, width).members):
        assert answers.weights(h[None])[0, z] == pytest.approx((h[held].sum() - b * h.sum()) / (a - b), rel=1e-7)


def test_thirteen_sets_lose_nothing():
    answers = set_answers(best_list(13, 4).channel(GAMMA))
    assert len(answers.matrix) == 13
    assert round(answers.total_variance(np.eye(13)), 4) == 53.3878
    assert answers.worst_variance(np.eye(13)) == pytest.approx(answers.total_variance(np.eye(13)), rel=1e-9)


def test_two_hundred_sets_lose_less_than_a_percent():
    assert best_width(50, GAMMA) == 15
    answers = set_answers(best_list(50, 15).channel(GAMMA))
    assert len(answers.matrix) == 200
    limit = 1.01 * float(total_variance(50, GAMMA, 15))
    assert answers.total_variance(np.eye(50)) <= limit
    assert answers.worst_variance(np.eye(50)) <= limit


def test_cumulants_inside_and_outside():
    """Singletons: a count of k values hits with p + b inside and b outside, as for `uniform`."""
    size, inside = 10, 3
    channel = channel_of_blocks(size, GAMMA, [(0,)])
    h = (np.arange(size) < inside).astype(float)
    found = count_cumulants(set_answers(channel), np.vstack([h, np.zeros(size), np.ones(size)]))
    p = float(channel.keep)
    b = inside * (1 - p) / size
    for hit, v, k in ((b, found.v0[0], found.k0[0]), (p + b, found.v1[0], found.k1[0])):
        assert v == pytest.approx(hit * (1 - hit) / p**2, rel=1e-9)
        assert k == pytest.approx(hit * (1 - hit) * (1 - 2 * hit) / p**3, rel=1e-9)
    assert [found.v0[1], found.v1[1], found.v0[2], found.v1[2]] == pytest.approx([0, 0, 0, 0], abs=1e-10)


@pytest.mark.parametrize(
    "prior", [np.full(6, 1 / 6), np.array([0.5, 0.5, 0, 0, 0, 0]), np.ones(7), np.array([np.nan] * 7)]
)
def test_bad_priors(prior):
    with pytest.raises(SpecError, match="prior"):
        set_answers(all_subsets(7, 3), prior)


def test_a_list_that_cannot_tell_values_apart():
    channel = channel_of_sets(4, GAMMA, [(0, 1), (2, 3)])
    with pytest.raises(SpecError, match="apart"):
        set_answers(channel)


# --- strata, measures, sub-tables ------------------------------------------------------------------------------


def expected_parts(truth):
    """Two sub-tables over one domain of 8 values, with the expected published moments in place of drawn ones.

    `truth[i]` is (T, m_i) weights (counts, sums of g, sums of g^2) per moment.
    """
    lists = [(np.array([0, 2, 3, 5, 7]), all_subsets(5, 2)), (np.array([1, 2, 4, 6]), all_subsets(4, 1))]
    parts = []
    for (values, channel), moments in zip(lists, truth, strict=True):
        answers = set_answers(channel)
        shown = tuple(csr_array(m @ answers.matrix.T) for m in moments)
        parts.append((answers, values, shown))
    return parts


def test_sums_over_strata_and_sub_tables():
    """Expected moments in: exact values, variances and covariances out, for counts and sums of another column."""
    T, products = 3, np.array([[0, 1], [1, 2]])  # counts, sum g, sum g^2
    truth = [[RNG.uniform(50, 100, (T, m)) for _ in range(3)] for m in (5, 4)]
    parts = expected_parts(truth)
    H = np.vstack([np.eye(8)[2], np.arange(8.0), np.ones(8), np.arange(8) > 3])
    measure = np.array([0, 0, 0, 1])
    pairs = np.array([[0, 1], [2, 0], [1, 3]])
    value, variance, covariance = np.zeros((T, 4)), np.zeros((T, 4)), np.zeros((T, 3))
    found = [add_up(answers, shown, H[:, values], measure, products, pairs) for answers, values, shown in parts]
    for (answers, values, _), moments in zip(parts, truth, strict=True):
        h = H[:, values]
        for f in range(4):
            v = answers.variance(h[[f]])[0]
            value[:, f] += moments[products[0, measure[f]]] @ h[f]
            variance[:, f] += moments[products[measure[f], measure[f]]] @ v
        for j, (f1, f2) in enumerate(pairs):
            v = answers.covariance(h[[f1]], h[[f2]])[0]
            covariance[:, j] += moments[products[measure[f1], measure[f2]]] @ v
    assert sum(part.value for part in found) == pytest.approx(value, rel=1e-9)
    assert sum(part.variance for part in found) == pytest.approx(variance, rel=1e-8, abs=1e-7)
    assert sum(part.covariance for part in found) == pytest.approx(covariance, rel=1e-8, abs=1e-6)
    assert all((part.variance[:, 2] == 0).all() for part in found)  # no condition on the value: exact


def test_variance_never_falls_below_what_rows_must_have():
    """Ten rows that all show one value: the unbiased variance is less than any ten true values have."""
    answers = set_answers(all_subsets(10, 1))
    h = np.arange(10.0)[None]
    unbiased = answers.weights(answers.variance(h))[0]
    worst = int(unbiased.argmin())
    assert unbiased[worst] < 0.5 * answers.variance(h).min()
    moments = np.zeros((1, 10))
    moments[0, worst] = 10
    none = np.zeros((0, 2), dtype=np.intp)
    found = add_up(answers, (csr_array(moments),), h, np.array([0]), np.array([[0]]), none)
    assert found.variance[0, 0] == pytest.approx(10 * answers.variance(h).min())


def test_shifts_that_cannot_tell_values_apart() -> None:
    """Every other value: a set and its shifts see nothing but odd and even."""
    with pytest.raises(SpecError, match="twice"):
        channel_of_blocks(300, GAMMA, [list(range(0, 300, 2))])
    set_answers(channel_of_blocks(300, GAMMA, [[0, 1, 150]]))
    with pytest.raises(SpecError, match="tell all values apart"):
        set_answers(channel_of_blocks(300, GAMMA, [[0, 1]]))  # the alternating sum of the values is lost
