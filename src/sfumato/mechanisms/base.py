"""The contract of a mechanism: a module with these names. One file, one registry line, one test file, one page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..model.private import Batch, Needs, Profile, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Guarantee, Observed, Roles, Trust


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Planned:
    """A plan in its two halves: what the release states, and what `apply` needs besides and nobody else may see."""

    public: Any
    work: Work


class Mechanism(Protocol):
    """What `publish` and `query` ask of a mechanism. Every function is pure; randomness is an argument."""

    NAME: str  # as typed on the command line
    TITLE: str
    TRUST: Trust
    LUMPABLE: bool  # values the question does not tell apart may be counted together
    PART: str | None  # name of the sub-table or group id column in data.parquet, if there is one
    WITHHELD: bool  # the changed units are not in data.parquet but in sensitive.parquet, by group
    Spec: type  # frozen dataclass: what the publisher asks for; its fields are the command line's options
    Plan: type  # frozen dataclass, JSON-serialisable: the public half

    def needs(self, spec: Any, roles: Roles) -> Needs:
        """Which columns are coded together and which joint counts planning looks at."""

    def plan(self, spec: Any, profile: Profile, rng: np.random.Generator) -> Planned:
        """The plan for these counts, or PlanError where the guarantee cannot be reached."""

    def apply(self, plan: Any, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """The batch as it is published."""

    def released_domains(self, plan: Any, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
        """Domain of what is published for each unit (the same, unless values are generalised)."""

    def guarantee(self, plan: Any) -> Guarantee:
        """What the channel in the plan promises."""

    def estimate(self, plan: Any, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Estimates of the asked functionals, with variance, interval, covariances and, where known, bounds."""

    def report(self, plan: Any, work: Work, profile: Profile) -> dict[str, Any]:
        """What the custodian wants to see before publishing; may hold true counts; never written to a release."""
