"""Whether a splu release can be what it says: groups fit the domains, no value shows more often than they allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import VerificationError
from ...model.public import Published
from ..shared.published_checks import check_ceiling, check_roles, published_counts

if TYPE_CHECKING:
    from .method import SpluPlan


def check_release(plan: SpluPlan, published: Published) -> None:
    """Groups of gamma records with different values fit; a value shows at most as if every group held it.

    A record shows one of the gamma or more different values of its group, each equally likely: a set of k values with
    a chance of at most k / gamma, whatever the groups are.
    """
    check_roles(published, "sensitive")
    domains = published.evidence.domains
    if any(len(domain.columns) != 1 for domain in domains):
        raise VerificationError("every sensitive column must be a unit of its own")
    for u, (size, domain) in enumerate(zip(plan.sizes, domains, strict=True)):
        if size > len(domain) or size > published.rows:
            raise VerificationError(
                f'gamma = {size} is more than the values of "{domain.columns[0]}" or the rows: no group has them'
            )
        where = f'column "{domain.columns[0]}"'
        check_ceiling(published_counts(published, u), 1 / size, where, tests=len(domains))
