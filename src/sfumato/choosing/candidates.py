"""Every method at one bound on the posterior: the prior to start from, and the parameters that make methods equal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from typing import Any

from ..errors import SpecError
from ..methods import REGISTRY, method_named
from ..methods.shared.readers import Found, ladder
from ..model.private import Facts
from ..model.public import Candidate, Claim, ReaderBound
from ..model.ratios import Ratio, exact
from ..stats.gamma import gamma_bound

LAPLACE = "laplace"


def spec_of(candidate: Candidate) -> Any:
    """What `publish` takes."""
    return method_named(candidate.method).spec(**candidate.parameters)


def check_hierarchies(given: Any, names: Iterable[str]) -> None:
    """Raise SpecError where hierarchies are given and none of the methods that are looked at takes them."""
    takers = [name for name, method in REGISTRY.items() if "hierarchies" in {f.name for f in fields(method.spec)}]
    if given and not set(takers) & set(names):
        raise SpecError(
            f"--hierarchies are of {', '.join(takers)}, which is not looked at here (--methods, --trust)",
            field="hierarchies",
        )


def parse_bound(bound: Ratio) -> Fraction:
    """The bound on the posterior, exact, between 0 and 1."""
    tau = exact(bound, "bound")
    if not 0 < tau < 1:
        raise SpecError(f"bound must lie strictly between 0 and 1, got {tau}; state it as 1/6", field="bound")
    return tau


def choose_rho1(facts: Facts, tau: Fraction, given: Ratio | None = None) -> Fraction:
    """The prior that methods with a bound start from: as given, or the largest share below the bound.

    The share is rounded up to 1/k, or to three decimals where 1/k would reach the bound, so that it states no count;
    where that reaches the bound too, it is refused.
    Values above the bound are beyond any method; values above the chosen prior are listed as not protected.
    """
    if given is not None:
        prior = exact(given, "rho1")
        if not 0 < prior < tau:
            raise SpecError(f"rho1 must lie between 0 and the bound {tau}, got {prior}", field="rho1")
        return prior
    below = [c for c in facts.true_counts if c and Fraction(c, facts.rows) < tau]
    if not below:
        raise SpecError(
            f"every sensitive value holds {tau} of the rows or more; no method can bound its posterior there",
            field="bound",
        )
    share = Fraction(max(below), facts.rows)
    rho1 = Fraction(1, int(1 / share))
    if rho1 < tau:
        return rho1
    rounded = Fraction(-((-share.numerator * 1000) // share.denominator), 1000)
    if rounded < tau:
        return rounded
    raise SpecError(
        f"a sensitive value holds almost {tau} of the rows, so that no rounded prior fits below the bound; take a "
        "larger bound, or state the prior yourself (--rho1): it is published",
        field="rho1",
    )


def laplace_readers(claim: Claim) -> tuple[ReaderBound, ...]:
    """The readers of answers whose odds move by gamma(rho1, rho2) at most: nothing is published about a record."""
    reached = Found(posterior=claim.rho2, why="all answers together are the same, up to gamma, whatever a person holds")
    linking = Found(posterior=None, why="a prior sharpened by other columns may be above rho1")
    return ladder(claim, value=reached, histogram=reached, linking=linking, corruption=reached, person=reached)


def epsilon_of(rho1: Fraction, tau: Fraction) -> float:
    """epsilon with e^epsilon = gamma(rho1, tau): odds that start at rho1 end at tau."""
    return math.log(gamma_bound(rho1, tau))
