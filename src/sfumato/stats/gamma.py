"""The amplification limit gamma and the keep probabilities it allows, in exact fractions.

A perturbation on m values that shows the true value with probability p + q and each other value with
probability q amplifies by gamma = (p + q) / q. Whoever holds a prior of at most rho1 for a value then ends
with at most rho2, exactly when gamma <= rho2 (1 - rho1) / (rho1 (1 - rho2)) [docs/explanation/uniform.md, 4].
"""

from __future__ import annotations

from fractions import Fraction

from ..errors import SpecError


def gamma_bound(rho1: Fraction, rho2: Fraction) -> Fraction:
    """The largest amplification that lifts no prior up to `rho1` above `rho2`."""
    if not 0 < rho1 < 1:
        raise SpecError(f"rho1 must lie between 0 and 1, got {rho1}; give a fraction such as 1/13", field="rho1")
    if not rho1 < rho2 < 1:
        raise SpecError(
            f"rho2 must lie between rho1 = {rho1} and 1, got {rho2}; raise rho2 or lower rho1", field="rho2"
        )
    return rho2 * (1 - rho1) / (rho1 * (1 - rho2))


def floor_significant(x: Fraction, digits: int) -> Fraction:
    """`x` > 0 rounded down to `digits` significant decimal digits, exactly."""
    if x <= 0 or digits < 1:
        raise ValueError(f"needs a positive number and at least one digit, got {x} and {digits}")
    # 10**e <= x < 10**(e + 1): the digit counts give e or e + 1, one comparison decides.
    exponent = len(str(x.numerator)) - len(str(x.denominator))
    if x < Fraction(10) ** exponent:
        exponent -= 1
    unit = Fraction(10) ** (exponent - digits + 1)
    return (x // unit) * unit


def rooted_gamma(gamma: Fraction, rows: int, digits: int) -> Fraction:
    """The largest number of `digits` significant digits whose `rows`-th power is at most `gamma` >= 1, exactly.

    A person's rows are randomised independently, so their amplifications multiply: with this one on each of them she
    is held as one row with `gamma` would be [docs/people.md].
    """
    if rows == 1:
        return floor_significant(gamma, digits)
    root = floor_significant(Fraction(float(gamma) ** (1 / rows)), digits)
    unit = Fraction(10) ** (len(str(int(root))) - digits)
    while root**rows > gamma:
        root -= unit
    while (root + unit) ** rows <= gamma:
        root += unit
    return root


def keep_probabilities(gamma: Fraction, m: int) -> tuple[Fraction, Fraction]:
    """(p, q) on `m` values: the true value shows with probability p + q, each other one with q.

    p is the retention probability. gamma = (p + q) / q and p + m q = 1.
    """
    if gamma <= 1:
        raise ValueError(f"gamma must be above 1, got {gamma}")
    if m < 1:
        raise ValueError(f"a domain has at least one value, got {m}")
    q = 1 / (m - 1 + gamma)
    return (gamma - 1) * q, q


def posterior(prior: Fraction, gamma: Fraction) -> Fraction:
    """The largest chance of a value for a reader who gave it `prior` and then sees one output.

    Attained when the output is the value itself; any other output leaves at most the prior.
    """
    return prior * gamma / (prior * gamma + 1 - prior)
