"""Whether a small-domain release can be what it says, sub-table by sub-table."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SpecError, VerificationError
from ...model.public import Published
from ...stats.gamma import gamma_bound
from ...stats.joint_codes import sum_by_group
from ..shared.published_checks import check_drawn_sets, check_floor, one_unit, published_sets, stated_sizes

if TYPE_CHECKING:
    from .specification import SmallDomainPlan


def check_release(plan: SmallDomainPlan, published: Published) -> None:
    """Sub-tables have the stated sizes, two values or more, show no others, and show them as their channel does."""
    one_unit(published)
    stated_sizes(published, plan.sizes, "sub-table")
    values = len(published.evidence.domains[0])
    if plan.mode == "strict" and max(plan.gammas) ** plan.rows_per_person > gamma_bound(plan.rho1, plan.rho2):
        raise VerificationError("a sub-table's gamma is larger than rho1 and rho2 allow")
    for i, (domain, gamma, size) in enumerate(zip(plan.domains, plan.gammas, plan.sizes, strict=True)):
        if len(domain) < 2:
            raise VerificationError(f"sub-table {i} has one value: it hides nothing")
        if domain[-1] >= values:
            raise VerificationError(f"sub-table {i} lists a value outside the published domain")
        if size < len(domain):
            raise VerificationError(f"sub-table {i} lists more values than it has rows: not all of them occur in it")
        # a protected value occurs, so the most frequent one has a record: [docs/explanation/small-domain.md, 3.4]
        if gamma > plan.rho2 * (size - 1) / (1 - plan.rho2):
            raise VerificationError(f"the gamma of sub-table {i} is larger than its size allows")
    if plan.reports is None:
        _check_values(plan, published)
    else:
        _check_sets(plan, published)
    if any(not 0 <= code < values for held in plan.sets for code in held):
        raise VerificationError("a stated set has a value outside the published domain")
    listed = {v for domain in plan.domains for v in domain}
    if len(listed) < values and not published.evidence.domains[0].declared:
        raise VerificationError("the domain was taken from the data, and lists a value that no sub-table has")


def _check_values(plan: SmallDomainPlan, published: Published) -> None:
    """Every sub-table shows its own values, none too rarely for its channel."""
    part, codes, count = published.evidence.totals((0,))
    table = sum_by_group(count, (part, codes[:, 0]), (len(plan.sizes), len(published.evidence.domains[0])))
    for i, (domain, gamma, size) in enumerate(zip(plan.domains, plan.gammas, plan.sizes, strict=True)):
        if table[i, list(domain)].sum() != size:
            raise VerificationError("a row publishes a value that its sub-table does not have")
        q = Fraction(1) / (len(domain) - 1 + gamma)
        check_floor(table[i, list(domain)], float(q), f"sub-table {i}", tests=len(plan.sizes))


def _check_sets(plan: SmallDomainPlan, published: Published) -> None:
    """Every sub-table shows its own sets, none too rarely for its channel, and can be counted from."""
    tables = plan.set_tables
    part, codes, _ = published.evidence.totals((0,))
    if not np.array_equal(tables.part_of(codes[:, 0]), part):
        raise VerificationError("a row publishes a set that its sub-table does not list")
    counts = published_sets(published, int(tables.start[-1]))
    for i, channel in enumerate(tables.channels):
        mine = counts[tables.start[i] : tables.start[i + 1]]
        members, weights = channel.members, channel.weights
        check_drawn_sets(mine, members, weights, plan.gammas[i], f"sub-table {i}", tests=len(plan.sizes))
        try:
            tables.answers(i)
        except SpecError as error:
            raise VerificationError(f"the list of sub-table {i} cannot be counted from: {error}") from None
