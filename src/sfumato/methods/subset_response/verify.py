"""Whether a subset-response release can be what it says: domain, exact guarantee, and counts that the list can make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import SpecError, VerificationError
from ...model.public import Published
from ..shared.published_checks import check_drawn_sets, one_unit, published_sets

if TYPE_CHECKING:
    from .method import SubsetResponsePlan


def check_release(plan: SubsetResponsePlan, published: Published) -> None:
    """Nothing; VerificationError at the first thing that the stated channel does not allow."""
    one_unit(published)
    if plan.values != len(published.evidence.domains[0]):
        raise VerificationError("the channel has another number of values than the published domain")
    grown = plan.gamma**plan.rows_per_person
    if plan.rho1 * grown / (plan.rho1 * grown + 1 - plan.rho1) > plan.rho2:
        raise VerificationError("the stated channel lifts a prior of rho1 above rho2")
    try:
        plan.tables.answers(0)
    except SpecError as error:
        raise VerificationError(f"the list of sets cannot be counted from: {error}") from None
    members, weights = plan.channel.members, plan.channel.weights
    check_drawn_sets(published_sets(published, len(members)), members, weights, plan.gamma, "the sensitive column")
