"""Whether a small-domain release can be what it says, sub-table by sub-table."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ...errors import VerificationError
from ...model.public import Published
from ..shared.published_checks import check_floor, one_unit, stated_sizes

if TYPE_CHECKING:
    from .method import SmallDomainPlan


def check_release(plan: SmallDomainPlan, published: Published) -> None:
    """Sub-tables have the stated sizes, two values or more, show no others, and show them as their channel does."""
    one_unit(published)
    stated_sizes(published, plan.sizes, "sub-table")
    values = len(published.evidence.domains[0])
    part, codes, count = published.evidence.totals((0,))
    table = np.zeros((len(plan.sizes), values), dtype=np.int64)
    np.add.at(table, (part, codes[:, 0]), count)
    for i, (domain, gamma, size) in enumerate(zip(plan.domains, plan.gammas, plan.sizes, strict=True)):
        if len(domain) < 2:
            raise VerificationError(f"sub-table {i} has one value: it hides nothing")
        if domain[-1] >= values:
            raise VerificationError(f"sub-table {i} lists a value outside the published domain")
        if table[i, list(domain)].sum() != size:
            raise VerificationError("a row publishes a value that its sub-table does not have")
        if size < len(domain):
            raise VerificationError(f"sub-table {i} lists more values than it has rows: not all of them occur in it")
        # a protected value occurs, so the most frequent one has a record: [docs/explanation/small-domain.md, 3.4]
        if gamma > plan.rho2 * (size - 1) / (1 - plan.rho2):
            raise VerificationError(f"the gamma of sub-table {i} is larger than its size allows")
        q = Fraction(1) / (len(domain) - 1 + gamma)
        check_floor(table[i, list(domain)], float(q), f"sub-table {i}", tests=len(plan.sizes))
    if any(not 0 <= code < values for held in plan.sets for code in held):
        raise VerificationError("a stated set has a value outside the published domain")
    listed = {v for domain in plan.domains for v in domain}
    if len(listed) < values and not published.evidence.domains[0].declared:
        raise VerificationError("the domain was taken from the data, and lists a value that no sub-table has")
