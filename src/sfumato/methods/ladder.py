"""The readers of any method: what its release states about them, and what the custodian knows of her table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..model.private import Known
from ..model.public import Claim, Domain, ReaderBound
from .contract import Method
from .shared.readers import with_domain


def public_readers(
    method: Method[Any, Any], plan: Any, domains: Sequence[Domain], *, rows_per_person: int | None = None
) -> tuple[ReaderBound, ...]:
    """The readers as release.json states them: what follows from the plan and the domains of sensitive columns."""
    claim = replace(method.claim(plan), rows_per_person=rows_per_person)
    declared = all(domain.declared for domain in domains)
    return with_domain(method.readers(plan, claim, None), declared=declared, known=None)


def known_readers(method: Method[Any, Any], plan: Any, claim: Claim, known: Known) -> tuple[ReaderBound, ...]:
    """The readers with the exact figures of this table; for the custodian."""
    declared = all(known.profile.domains[u].declared for u in known.units)
    return with_domain(method.readers(plan, claim, known), declared=declared, known=known)
