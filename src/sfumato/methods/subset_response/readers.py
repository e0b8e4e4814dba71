"""The ladder of readers for `subset-response`: what each ends with, from the plan, or from the plan and the table."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ...model.public import Integers
from ..shared.restricted import protected_codes
from ..shared.set_readers import cell_posterior, prior_posterior, table_posterior
from .method import SubsetResponsePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Posteriors:
    """The largest posterior that each reader reaches about a protected value; None where the table decides."""

    value: Fraction
    set: Fraction
    histogram: Fraction | None
    linking: Fraction | None
    corruption: Fraction
    person: Fraction


def posteriors(
    plan: SubsetResponsePlan,
    *,
    true_counts: Integers | None = None,
    cells: Integers | None = None,
    rows_per_person: int = 1,
) -> Posteriors:
    """Every reader at once. `true_counts` are those of the domain, `cells` (cells of the other columns, values).

    Single values and sets of values end alike, and knowing other records does not help: records are independent.
    """
    channel, rho1 = plan.channel, plan.rho1
    one = prior_posterior(channel, rho1)
    protected = [] if true_counts is None else protected_codes(true_counts, rho1).tolist()
    return Posteriors(
        value=one,
        set=one,
        histogram=None if true_counts is None else table_posterior(channel, true_counts, protected),
        linking=None if true_counts is None or cells is None else cell_posterior(channel, cells, protected),
        corruption=one,
        person=prior_posterior(channel, rho1, rows_per_person),
    )
