"""Every method at one bound on the posterior: the parameters that make it equal, and what it gives away beyond it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .errors import SpecError
from .mechanisms import REGISTRY
from .model.numbers import Ratio, exact
from .stats.gamma import gamma_bound

LAPLACE = "laplace"
GROUP_ROWS = 50  # target-distribution: groups are made of columns while they hold this many rows on average
NUMBERS = 20  # l-diversity: integer columns with more values than this get interval hierarchies
WORK_LIMIT = 100_000_000  # target-distribution: a second or two of choosing fakes
INTERVALS = "interval:5/10/20/40"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One method with its parameters. `variant` "" is the method's own entry, others stand beside it."""

    method: str
    parameters: Mapping[str, Any]
    variant: str = ""
    estimator: str | None = None
    equal: bool = True  # False: shown beside the others, but it does not hold the bound
    releases: int | None = None  # 1 where every release of a plan is the same; None: as many as wanted

    def spec(self) -> Any:
        """What `publish` takes."""
        return REGISTRY[self.method].Spec(**self.parameters)

    def options(self) -> str:
        """The parameters as typed on the command line."""
        said = [f"--method {self.method}"]
        for name, value in self.parameters.items():
            text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            if isinstance(value, Mapping):
                text = ",".join(f"{k}={v}" for k, v in value.items())
            said.append(f"--{name.replace('_', '-')} {text}")
        return " ".join(said)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Facts:
    """What choosing parameters looks at: true counts of sensitive values, sizes of the other columns' domains."""

    rows: int
    counts: tuple[int, ...]
    sizes: Mapping[str, int]  # quasi-identifier -> number of values
    integers: frozenset[str]  # those that hold integers
    hierarchies: Mapping[str, Any] | str | None = None


# What a release gives away at an equal bound. Keys: survives a reader who knows other records' true values; the group
# or sub-table of a record is not published; the bound holds for every predicate about the value, not for single values.
GIVES: dict[str, dict[str, Any]] = {
    "uniform": {"survives_corruption": True, "hides_group": True, "every_predicate": True},
    "small-domain": {"survives_corruption": True, "hides_group": False, "every_predicate": True},
    "splu": {"survives_corruption": False, "hides_group": True, "every_predicate": False},
    "target-distribution": {"survives_corruption": False, "hides_group": False, "every_predicate": False},
    "randomized-response": {"survives_corruption": True, "hides_group": True, "every_predicate": True},
    "anatomy": {"survives_corruption": False, "hides_group": False, "every_predicate": False},
    "l-diversity": {"survives_corruption": False, "hides_group": False, "every_predicate": False},
    "distribution-draw": {"survives_corruption": True, "hides_group": True, "every_predicate": True},
    LAPLACE: {"survives_corruption": True, "hides_group": True, "every_predicate": True},
}
WHY: dict[str, str] = {
    "uniform": "every record is randomised by itself; other records tell nothing about it",
    "small-domain": "every record is randomised by itself inside a published sub-table, whose values are known; "
    "a small sub-table of known composition breaks the bound",
    "splu": "a reader who knows many records narrows the decoys of the others",
    "target-distribution": "a reader who knows the algorithm or rows of the group learns more",
    "randomized-response": "every cell is randomised by itself; epsilon holds for every predicate, the bound itself is "
    "on the paper's disclosure risk, not on a posterior",
    "anatomy": "publishes every true value inside a known group: knowing all members but one reveals the last",
    "l-diversity": "publishes every true value inside a class: members known, or values ruled out, reveal the others",
    "distribution-draw": "published values do not depend on the records; nothing is promised, nothing is kept",
    LAPLACE: "nothing is published; each answered question spends epsilon, so many questions need many times the noise",
}


def parse_bound(bound: Ratio) -> Fraction:
    """The bound on the posterior, exact, between 0 and 1."""
    tau = exact(bound, "bound")
    if not 0 < tau < 1:
        raise SpecError(f"bound must lie strictly between 0 and 1, got {tau}; state it as 1/6", field="bound")
    return tau


def choose_rho1(facts: Facts, tau: Fraction, given: Ratio | None = None) -> Fraction:
    """The prior that `uniform` and `small-domain` start from: as given, or the largest share below the bound.

    The share is rounded up to 1/k, or to three decimals where 1/k would reach the bound, so that it states no count.
    Values above the bound are beyond any method; values above the chosen prior are listed as not protected.
    """
    if given is not None:
        return exact(given, "rho1")
    below = [c for c in facts.counts if c and Fraction(c, facts.rows) < tau]
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
    return rounded if rounded < tau else share


def epsilon_of(rho1: Fraction, tau: Fraction) -> float:
    """epsilon with e^epsilon = gamma(rho1, tau): odds that start at rho1 end at tau."""
    return math.log(gamma_bound(rho1, tau))


def candidates(method: str, tau: Fraction, facts: Facts, rho1: Fraction) -> list[Candidate]:
    """The method's own entry first, then its variants; empty where the bound has no meaning for it."""
    whole = int(1 / tau)
    rhos = {"rho1": str(rho1), "rho2": str(tau)}
    if whole < 2 and method in {"anatomy", "splu", "l-diversity"}:
        raise SpecError(f"groups of one would meet the bound {tau}; this method needs a bound of 1/2 or less")
    if method == "uniform":
        return [Candidate(method=method, parameters=rhos)]
    if method == "small-domain":
        paper = rhos | {"mode": "paper"}
        return [Candidate(method=method, parameters=rhos), Candidate(method=method, parameters=paper, variant="paper")]
    if method == "splu":
        return [Candidate(method=method, parameters={"gamma": whole})]
    if method == "anatomy":
        own: dict[str, Any] = {"l": whole}
        plain = Candidate(method=method, parameters=own, variant="plain estimate", estimator="plain", releases=2)
        return [Candidate(method=method, parameters=own), plain]
    if method == "randomized-response":
        risk: dict[str, Any] = {"risk": str(tau), "scope": "both"}
        alone = Candidate(method=method, parameters=risk | {"scope": "s"}, variant="sensitive column only")
        return [Candidate(method=method, parameters=risk), alone]
    if method == "l-diversity":
        hierarchies = facts.hierarchies or {
            c: INTERVALS for c, m in facts.sizes.items() if c in facts.integers and m > NUMBERS
        }
        base: dict[str, Any] = {"l": whole, "hierarchies": hierarchies}
        return [
            Candidate(
                method=method, parameters=base | {"kind": kind}, variant=variant, releases=1, equal=kind == "frequency"
            )
            for kind, variant in (("frequency", ""), ("entropy", "entropy"), ("distinct", "distinct"))
        ]
    if method == "target-distribution":
        by: dict[str, Any] = {"partition_by": _partition(facts), "work_limit": WORK_LIMIT}
        return [Candidate(method=method, parameters=by, releases=1)]
    if method == "distribution-draw":
        return [Candidate(method=method, parameters={})]
    raise SpecError(f"compare knows no parameters of {method} for a bound")


def _partition(facts: Facts) -> tuple[str, ...]:
    """Columns of few values, while groups hold enough rows on average."""
    chosen: Sequence[str] = sorted((c for c, m in facts.sizes.items() if m > 1), key=lambda c: facts.sizes[c])
    taken, groups = [], 1
    for column in chosen[:3]:
        groups *= facts.sizes[column]
        if groups * GROUP_ROWS > facts.rows:
            break
        taken.append(column)
    return tuple(taken)


def integer_type(kind: str) -> bool:
    """Whether a DuckDB type holds integers."""
    return kind.upper().lstrip("U") in {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
