"""Which columns move and how far: limits from rho1 and rho2, categories, the search for keep probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

import numpy as np

from ...errors import DataError, PlanError, SpecError
from ...model.private import Profile
from ...model.public import Domain
from ...model.ratios import stated_share
from ...stats.gamma import floor_significant, gamma_bound
from ...stats.joint_codes import sum_by_group
from .disclosure import RiskCells, infimum, views
from .keep_search import KeepPlan, search_keep
from .specification import SCOPES, RandomizedResponse

MOST_NUMBERS = 100  # distinct numbers a column may have without bins or a declared domain


def moving(spec: RandomizedResponse, profile: Profile) -> list[bool]:
    """Which units may move; the same rule as in `needs`."""
    given, sensitive = spec.keeps(), set(profile.sensitive)
    if given:
        return [domain.columns[0] in given for domain in profile.domains]
    return [spec.scope == "both" or (spec.scope == "s") == (u in sensitive) for u in range(len(profile.domains))]


def check_categories(domain: Domain) -> None:
    """Refuse a column of numbers that stands for a quantity: bins or a declared domain make it categories."""
    if domain.declared:
        return
    values = [v[0] for v in domain.values if v[0] is not None]
    fractional = any(isinstance(v, float | Decimal) for v in values)
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if fractional or (whole and len(values) > MOST_NUMBERS):
        raise DataError(
            f'column "{domain.columns[0]}" holds {len(values)} different numbers; give public bins '
            f"(--bins {domain.columns[0]}=EDGE,EDGE,...) or declare its domain (--domain)",
            column=domain.columns[0],
        )


def cells_of(profile: Profile) -> RiskCells:
    """The distinct cells of the table as the risk functions take them."""
    histogram = profile.histograms[0]
    return RiskCells(
        codes=histogram.codes.astype(np.int64),
        true_counts=histogram.true_counts,
        sizes=tuple(len(domain) for domain in profile.domains),
    )


def most_frequent(cells: RiskCells, unit: int) -> float:
    """The share of the unit's most frequent value as a release may state it, rounded up."""
    count = sum_by_group(cells.true_counts, cells.codes[:, unit], cells.sizes[unit])
    return stated_share(int(count.max()), int(count.sum()))


def keep_limit(rho1: Fraction, rho2: Fraction, size: int, cells: int) -> float:
    """The largest keep probability, rounded down, of one of a person's sensitive cells, whose gammas multiply.

    gamma^cells <= gamma(rho1, rho2), and keep / other = gamma with (size - 1) other = 1 - keep. A person has as many
    cells as there are sensitive columns, times her rows.
    """
    whole = gamma_bound(rho1, rho2)
    gamma = floor_significant(whole, 3)
    if cells > 1:  # the root, rounded down by whole thousandths
        steps = int(float(whole) ** (1 / cells) * 1000) + 1
        while Fraction(steps, 1000) ** cells > whole:
            steps -= 1
        gamma = Fraction(steps, 1000)
    if gamma <= 1:
        raise PlanError(
            f"rho1 = {rho1} and rho2 = {rho2} are too close: gamma rounds down to {float(gamma):g}"
            + (f" for {cells} sensitive cells of a person; lower --max-rows-per-person" if cells > 1 else "")
        )
    keep = gamma / (gamma + size - 1)
    for digits in range(3, 13):
        cut = Fraction(keep.numerator * 10**digits // keep.denominator, 10**digits)
        if cut * size > 1:
            return float(cut)
    raise PlanError(f"rho1 = {rho1} and rho2 = {rho2} are too close for a column of {size} values")


def limits_of(spec: RandomizedResponse, profile: Profile) -> dict[int, float]:
    """The largest keep probability of every sensitive unit; none where no rhos are given."""
    rhos = spec.rhos()
    if rhos is None:
        return {}
    if spec.scope == "qi":
        raise SpecError('scope "qi" leaves the sensitive columns as they are: rho2 cannot be held', field="scope")
    cells = len(profile.sensitive) * profile.rows_per_person
    return {u: keep_limit(*rhos, len(profile.domains[u]), cells) for u in profile.sensitive}


def searched(
    spec: RandomizedResponse, profile: Profile, randomised: list[bool], tau: Fraction, limits: Mapping[int, float]
) -> KeepPlan:
    """The keep probabilities of least error at this risk, or the refusal with the scope that could reach it."""
    cells = cells_of(profile)
    sensitive = list(profile.sensitive)
    quasi = [u for u in range(len(cells.sizes)) if u not in sensitive]
    seen = views(cells, quasi=quasi, sensitive=sensitive, randomised=randomised)
    try:
        return search_keep(seen, sizes=cells.sizes, randomised=randomised, tau=tau, limits=limits)
    except PlanError as refusal:
        reached = {}
        for scope in SCOPES:
            moves = [scope == "both" or (scope == "s") == (u in sensitive) for u in range(len(cells.sizes))]
            others = views(cells, quasi=quasi, sensitive=sensitive, randomised=moves)
            reached[scope] = infimum(others, moves)
        able = [scope for scope, low in reached.items() if low < tau and scope != spec.scope]
        hint = f"scope {' or '.join(able)} could reach it" if able else "no scope reaches it: merge or drop columns"
        raise PlanError(f"scope {spec.scope}: {refusal}; {hint}", limit=refusal.limit) from None
