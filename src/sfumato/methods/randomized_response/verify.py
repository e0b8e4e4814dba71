"""Whether a randomized-response release can be what it says: columns of the scope, and counts that noise can make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import VerificationError
from ...model.public import Claim, Published
from ..shared.published_checks import check_floor, check_roles, published_counts
from .readers import readers

if TYPE_CHECKING:
    from .method import RandomizedResponsePlan

HELD = ("value", "set", "person")
ROLES = {"s": ("sensitive",), "qi": ("quasi",), "both": ("sensitive", "quasi")}


def check_release(plan: RandomizedResponsePlan, published: Published) -> None:
    """The columns that the scope names are randomised, and show every value at least as often as the noise does."""
    domains = published.evidence.domains
    if plan.scope in ROLES:
        check_roles(published, *ROLES[plan.scope])
    elif plan.scope != "given" or not domains:
        raise VerificationError("release.json names no column that was randomised")
    if tuple((d.columns[0], len(d)) for d in domains) != tuple(zip(plan.columns, plan.sizes, strict=True)):
        raise VerificationError("keep probabilities are stated for other columns than those that were randomised")
    if set(plan.baseline) != set(published.with_role("sensitive")):
        raise VerificationError("release.json states baselines of other columns than the sensitive ones")
    if plan.rho1 is not None and plan.rho2 is not None:
        claim = Claim(rho1=plan.rho1, rho2=plan.rho2, rows_per_person=plan.rows_per_person)
        if not all(r.held for r in readers(plan.sensitive(), claim, None, searched=False) if r.reader in HELD):
            raise VerificationError("the sensitive columns are kept more often than rho1 and rho2 allow")
    noisy = [u for u, keep in enumerate(plan.keep) if keep < 1]
    for u in noisy:
        q = (1 - plan.keep[u]) / (plan.sizes[u] - 1)
        check_floor(published_counts(published, u), q, f'column "{plan.columns[u]}"', tests=len(noisy))
