"""What methods share: fields of specifications, bins, and a restricted (rho1, rho2) guarantee with its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np

from ...errors import PlanError, SpecError, VerificationError
from ...model.coarsening import bin_edges, bin_labels
from ...model.names import Ratio, exact
from ...model.private import Facts, Needs, Profile
from ...model.public import Candidate, Claim, Domain, Floats, Guarantee, Integers, Roles, Trust, value_label
from ...stats.gamma import gamma_bound, rooted_gamma
from ..contract import Method, Plan, S
from .readers import round_up

# --- option help ------------------------------------------------------------------------------------------------------
# What a field of a specification says of itself, for the command line and the reference: a sentence and an example.


def told(says: str, example: str, **more: object) -> dict[str, object]:
    """The metadata of a field; `python_only=True` keeps it from the command line, roles files and the studio."""
    return {"help": says, "example": example, **more}


RHO1 = told("what a reader may believe of a value before, at most", "1/5")
RHO2 = told("what she may believe of it after, at most", "1/2")


# --- column bins ------------------------------------------------------------------------------------------------------
# Bins that a specification gives for columns of numbers: `age=17,25,35,hours=0,20,40`.


Bins = Mapping[str, Sequence[Ratio]] | str | None
BINS_FIELD = {"help": "column=EDGE,EDGE,...,column=EDGE,... for columns of numbers", "example": "age=0,18,40,65"}


def parse_bins(bins: Bins) -> dict[str, tuple[float, ...]]:
    """Lower edges of the bins of each binned column; the last bin has no upper end."""
    if bins is None:
        return {}
    if not isinstance(bins, Mapping | str):
        raise SpecError(f"bins are written column=EDGE,EDGE,..., got {bins!r}", field="bins")
    given = bins if isinstance(bins, Mapping) else bin_edges(bins)
    for column, edges in given.items():
        if isinstance(edges, str) or not isinstance(edges, Sequence):
            raise SpecError(f'bins of "{column}" must be a list of edges, got {edges!r}', field="bins")
    found = {column: tuple(float(exact(e, "bins")) for e in edges) for column, edges in given.items()}
    for column, edges in found.items():
        if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
            raise SpecError(f'bins of "{column}" need two or more edges that rise', field="bins")
    return found


def bin_order(edges: Mapping[str, Sequence[float]], domain: Domain) -> tuple[int, ...] | None:
    """The place of every value of a domain among the bins of its column; None where it has no bins, or other values."""
    if len(domain.columns) > 1 or domain.columns[0] not in edges:
        return None
    places = {label: place for place, label in enumerate(bin_labels(edges[domain.columns[0]]))}
    found = tuple(places.get(str(value), -1) for (value,) in domain.values)
    return None if -1 in found else found


# --- groups at bound --------------------------------------------------------------------------------------------------
# Parameters at a bound for methods that hide a record among others.


def group_size(tau: Fraction) -> int:
    """The smallest whole l with 1/l <= tau: groups of l hold the bound, smaller ones do not."""
    return -(-tau.denominator // tau.numerator)


GAMMA_DIGITS = 3  # significant digits of the gamma that follows from rho1 and rho2

# arguments that every such method must refuse
BAD_RHOS: tuple[dict[str, Any], ...] = (
    {"rho1": 0},
    {"rho1": -1},
    {"rho1": "1/2"},
    {"rho1": "2/3"},
    {"rho2": 1},
    {"rho1": "1/0"},
    {"rho1": "many"},
    {"rho1": float("nan")},
    {"rho1": True},
    {"rho2": None},
)


class RestrictedPlan(Plan, Protocol):
    """A plan that names rho1 and rho2."""

    @property
    def rho1(self) -> Fraction: ...

    @property
    def rho2(self) -> Fraction: ...


R = TypeVar("R", bound=RestrictedPlan)


class RestrictedMethod(Method[S, R]):
    """A method that lifts no prior up to rho1 above rho2, for the sensitive columns taken together as one value."""

    trust = Trust.PROVED
    answers = "estimate, interval"

    def needs(self, spec: S, roles: Roles) -> Needs:
        """The sensitive columns, taken together as one value."""
        return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))

    def claim(self, plan: R) -> Claim:
        """rho1 and rho2 as planned."""
        return Claim(rho1=plan.rho1, rho2=plan.rho2)

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Priors up to rho1 end at tau."""
        return (Candidate(method=self.name, parameters={"rho1": str(rho1), "rho2": str(tau)}),)


def check_grown(plan: RestrictedPlan, grown: Fraction) -> None:
    """Raise VerificationError where odds that grow so far lift rho1 above rho2."""
    if plan.rho1 * grown / (plan.rho1 * grown + 1 - plan.rho1) > plan.rho2:
        raise VerificationError("the stated channel lifts a prior of rho1 above rho2")


def table_report(profile: Profile, rho1: Fraction, gamma: Fraction, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The one table of a report, as a sub-table; `shown` says what is kept."""
    return {
        "id": 0,
        "size": profile.rows,
        "domain": [value_label(v) for v in profile.domains[0].values],
        "counts": profile.true_counts().tolist(),
        "rho1": str(rho1),
        "gamma": float(gamma),
        **shown,
    }


def parse_rhos(rho1: Ratio, rho2: Ratio) -> tuple[Fraction, Fraction]:
    """Both parameters as exact fractions, 0 < rho1 < rho2 < 1, or SpecError."""
    first, second = exact(rho1, "rho1"), exact(rho2, "rho2")
    gamma_bound(first, second)
    return first, second


def row_gamma(rho1: Fraction, rho2: Fraction, rows: int) -> Fraction:
    """The gamma of one row that holds a person with this many rows to (rho1, rho2), rounded down."""
    gamma = rooted_gamma(gamma_bound(rho1, rho2), rows, GAMMA_DIGITS)
    if gamma > 1:
        return gamma
    if rows == 1:
        raise PlanError(f"rho1 = {rho1} and rho2 = {rho2} are too close: gamma rounds down to {gamma}")
    raise PlanError(
        f"{rows} rows per person leave a row a gamma of {gamma}: nothing would be kept; "
        "lower --max-rows-per-person, or raise rho2"
    )


def protected_codes(true_counts: Integers, rho1: Fraction) -> Integers:
    """Codes of the occurring values whose share is at most rho1, compared in integers."""
    n = int(true_counts.sum())
    occurring = np.flatnonzero(true_counts)
    keep = [int(c) * rho1.denominator <= rho1.numerator * n for c in true_counts[occurring]]
    return occurring[np.array(keep, dtype=bool)].astype(np.int64)


def check_protectable(true_counts: Integers, rho1: Fraction) -> Integers:
    """The protected codes; refuses a table in which nothing can or would be hidden."""
    if np.count_nonzero(true_counts) < 2:
        raise PlanError("the sensitive column has one distinct value; nothing can be hidden")
    protected = protected_codes(true_counts, rho1)
    if not len(protected):
        least = Fraction(int(true_counts[true_counts > 0].min()), int(true_counts.sum()))
        raise PlanError(
            f"no sensitive value has a share of at most rho1 = {rho1}, so nothing would be protected; "
            f"rho1 must be at least {least}",
            limit=least,
        )
    return protected


def protection(profile: Profile, rho1: Fraction) -> dict[str, Any]:
    """Which values the guarantee covers, for the custodian."""
    counts, values = profile.true_counts(), profile.domains[0].values
    return {"protected": [value_label(values[c]) for c in sorted(protected_codes(counts, rho1).tolist())]}


def errors_of(se: Floats, profile: Profile) -> dict[str, Any]:
    """The `expected_error` of a report, from the standard error of every value's total: that of each value, and of its
    count among 1 % and 10 % of the rows.

    Every term of the variance is proportional to the rows asked about, so among a share a of the rows, chosen without
    regard to the value, the error is sqrt(a) times the total's.
    """
    return {
        "values": [value_label(v) for v in profile.domains[0].values],
        "total": se.tolist(),
        "among_1_percent": (se * np.sqrt(0.01)).tolist(),
        "among_10_percent": (se * np.sqrt(0.1)).tolist(),
    }


def restricted_guarantee(
    rho1: Fraction,
    rho2: Fraction,
    reached: Fraction,
    trust: Trust,
    *,
    rows: int = 1,
    extra_not_covered: tuple[str, ...] = (),
) -> Guarantee:
    """The text of the promise; `reached` is the largest posterior of the channel that runs, over a person's `rows`."""
    if reached > rho2:
        raise PlanError(f"the channel would reach a posterior of {float(reached):.6g}, above rho2 = {rho2}")
    return Guarantee(
        model="restricted posterior",
        parameters={"rho1": str(rho1), "rho2": str(rho2), "posterior": round_up(reached)},
        statement=(
            f"A reader who gave a sensitive value at most {rho1} before seeing a record's published value "
            f"gives it at most {rho2} after."
            if rows == 1
            else f"A reader who gave anything about the sensitive values of a person at most {rho1} before seeing the "
            f"published values of her rows, up to {rows} of them, gives it at most {rho2} after."
        ),
        assumptions=(
            "the reader's knowledge of the record is a prior over the sensitive values",
            "she looks at the published value of that record, and knows no other record's true value",
            "the table is published once",
        ),
        not_covered=(
            f"sensitive values that hold more than {rho1} of the table",
            "priors above rho1, for example sharpened by the record's other columns",
            "the histogram of the sensitive column, which is treated as public knowledge",
            "columns that are published as they are",
            *extra_not_covered,
        ),
        trust=trust,
    )
