"""Whether a uniform release can be what it says: domain, exact guarantee, and counts that the channel can make."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ...errors import VerificationError
from ...model.public import Published
from ..shared.published_checks import check_floor, one_unit, published_counts

if TYPE_CHECKING:
    from .method import UniformPlan


def check_release(plan: UniformPlan, published: Published) -> None:
    """Nothing; VerificationError at the first thing that the stated channel does not allow."""
    one_unit(published)
    m = len(published.evidence.domains[0])
    if plan.values != m:
        raise VerificationError("the channel has another number of values than the published domain")
    # gamma = (p + q) / q with p + m q = 1, from the definition
    q = Fraction(1) / (m - 1 + plan.gamma)
    p = 1 - m * q
    rise = plan.rho1 * (p + q) / (plan.rho1 * (p + q) + (1 - plan.rho1) * q)
    if p <= 0 or rise > plan.rho2:
        raise VerificationError("the stated channel lifts a prior of rho1 above rho2")
    check_floor(published_counts(published), float(q), "the sensitive column")
