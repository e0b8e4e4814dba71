"""The readers of any method: what its release states about them, and what the custodian knows of her table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..model.private import Known
from ..model.public import Claim, Domain, ReaderBound
from .contract import Method
from .shared.readers import list_aside, values_ruled_out, with_domain


def public_readers(
    method: Method[Any, Any],
    plan: Any,
    domains: Sequence[Domain],
    *,
    rows_per_person: int | None = None,
    claim: Claim | None = None,
) -> tuple[ReaderBound, ...]:
    """The readers as release.json states them: what follows from the plan and the domains of sensitive columns.

    `claim` is the pair of bounds to hold, the plan's own where none is given.
    """
    asked = replace(claim or method.claim(plan), rows_per_person=rows_per_person)
    return _with_domains(method, plan, domains, asked, None)


def known_readers(method: Method[Any, Any], plan: Any, claim: Claim, known: Known) -> tuple[ReaderBound, ...]:
    """The readers with the exact figures of this table; for the custodian."""
    domains = [known.profile.domains[u] for u in known.units]
    return _with_domains(method, plan, domains, claim, known)


def _with_domains(
    method: Method[Any, Any],
    plan: Any,
    domains: Sequence[Domain],
    claim: Claim,
    known: Known | None,
) -> tuple[ReaderBound, ...]:
    """The method's readers with what the domains, and a plan that leaves values of them out, tell by themselves."""
    bounds = method.readers(plan, claim, known)
    if plan.law.rules_out(domains):
        bounds = values_ruled_out(bounds)
    bounds = with_domain(bounds, declared=all(domain.declared for domain in domains), known=known)
    return list_aside(bounds, claim)
