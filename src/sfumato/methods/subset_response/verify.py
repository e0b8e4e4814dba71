"""Whether a subset-response release can be what it says: domain, exact guarantee, and counts that the list can make."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ...errors import SpecError, VerificationError
from ...model.public import Published
from ..shared.published_checks import check_set_floor, one_unit, published_sets

if TYPE_CHECKING:
    from .method import SubsetResponsePlan


def check_release(plan: SubsetResponsePlan, published: Published) -> None:
    """Nothing; VerificationError at the first thing that the stated channel does not allow."""
    one_unit(published)
    if plan.values != len(published.evidence.domains[0]):
        raise VerificationError("the channel has another number of values than the published domain")
    members, weights = plan.channel.members, plan.channel.weights
    # from the definition: Pr[Z | x] = n_Z (1 + (gamma - 1) [x in Z]) / (N + (gamma - 1) K)
    covered = {int(weights @ members[:, x]) for x in range(plan.values)}
    if len(covered) != 1:
        raise VerificationError("the listed sets do not cover all values alike: the channel is none")
    grown = plan.gamma**plan.rows_per_person
    if plan.rho1 * grown / (plan.rho1 * grown + 1 - plan.rho1) > plan.rho2:
        raise VerificationError("the stated channel lifts a prior of rho1 above rho2")
    try:
        plan.tables.answers(0)
    except SpecError as error:
        raise VerificationError(f"the list of sets cannot be counted from: {error}") from None
    whole = Fraction(int(weights.sum())) + (plan.gamma - 1) * covered.pop()
    check_set_floor(published_sets(published, len(members)), weights / float(whole), "the sensitive column")
