"""The contract of a law: how rows are drawn, answered, foreseen, attacked and checked.

A law is a frozen dataclass whose fields are its public parameters. A release states them beside the method's, so that
whoever knows the laws can read the release of a method they have never seen. It checks itself when it is made: it comes
back from a stranger's release.json. It is pure: no file, clock, engine or generator of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..model.private import Batch, Profile, Released, Work
from ..model.public import (
    Asked,
    Domain,
    Estimated,
    Evidence,
    Floats,
    Likelihood,
    Listed,
    Observed,
    Published,
    SetWeights,
)
from ..model.types import ColumnType

if TYPE_CHECKING:  # questions in SQL need none of it
    from .expected import Foresight
    from .functionals import Cells, CodedUnit, Functionals

Bounds = tuple[Floats, Floats, tuple[str, ...]]  # certain bounds, and what to say about them


class Law(ABC):
    """What publishing, asking, attacking and verifying ask of a law; a default says "not this one"."""

    __slots__ = ()

    name: ClassVar[str]  # as release.json states it
    formula: ClassVar[str] = ""  # weights and variance, for --explain
    lumpable: ClassVar[bool] = False  # values the question does not tell apart may be counted together
    withheld: ClassVar[bool] = False  # the changed units are not in data.parquet but in sensitive.parquet, by group
    by_number: ClassVar[bool] = False  # bounds need the numbers that a question adds up row by row
    classes: ClassVar[bool] = False  # rows with equal published quasi-identifiers form classes that show true values
    plan_draws: ClassVar[bool] = False  # the plan itself is random: every release needs its own
    independent_rows: ClassVar[bool] = False  # given its true value and part, what a row shows depends on no other row
    estimators: ClassVar[tuple[str, ...]] = ()  # that a question may ask for besides the law's own

    # --- what every law does --------------------------------------------------------------------------------------

    @abstractmethod
    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """The batch as it is published."""

    @abstractmethod
    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Estimates of the asked functionals, with variance, interval, covariances and, where known, bounds."""

    @abstractmethod
    def check(self, published: Published) -> None:
        """Raise VerificationError where the published rows or groups are not what the law makes."""

    # --- what is published ----------------------------------------------------------------------------------------

    @property
    def part(self) -> str | None:
        """Name of the column of data.parquet that tells the sub-table or group of a row; None where there is none."""
        return None

    def released_domains(self, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
        """Domain of what is published for each unit: the same, unless values are generalised."""
        return domains

    def beside(self, domains: tuple[Domain, ...]) -> Mapping[str, ColumnType] | None:
        """Columns of sensitive.parquet besides the part; None: the sensitive columns."""
        return None

    def listed(self, domains: tuple[Domain, ...]) -> tuple[Listed | None, ...]:
        """For each unit whose cells show sets of values the published list: released codes then number its sets."""
        return (None,) * len(domains)

    def weights(self) -> SetWeights | None:
        """What readers without sfumato count with; None where cells show no sets."""
        return None

    def generalised(self, unit: int) -> tuple[int, ...] | None:
        """Published code of every value of the unit, where values are generalised; None elsewhere."""
        return None

    def rules_out(self, domains: Sequence[Domain]) -> bool:
        """Whether the law tells that a value of the sensitive columns' domains is no record's."""
        return False

    @property
    def suppressed(self) -> int:
        """Rows of the table that were left out; answers are about the others."""
        return 0

    def retention(self) -> float | None:
        """The share of sensitive values that stay as they are, averaged over records; None where none has a meaning."""
        return None

    # --- what readers can work out --------------------------------------------------------------------------------

    def bound(
        self,
        evidence: Evidence,
        kind: str,
        observed: Observed,
        asked: Asked,
        top: Sequence[int],
        bottom: Sequence[int],
        share: float | None,
    ) -> Bounds | None:
        """Certain bounds of a ratio or an order statistic of the functionals; None where there are none."""
        return None

    def functionals(self, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals | None:
        """Sums over the true rows with their covariances, for models, tests and quantiles; None where their errors are
        not known. UnsupportedQuery where they are, but not for these units.
        """
        return None

    def axes(self) -> tuple[float, ...] | None:
        """theta of every unit, where units are randomised independently and uniformly; None elsewhere."""
        return None

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood | None:
        """What the bundle tells about a record of the unit, for attacks; None where rows show true values."""
        return None

    # --- what the custodian can work out --------------------------------------------------------------------------

    @property
    def foreseeable(self) -> bool:
        """Whether the law has a `foresee` of its own; if not, only a trial release tells its errors."""
        return type(self).foresee is not Law.foresee

    def foresee(self, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight | None:
        """The answers to expect, by algebra; None where only a trial release can tell."""
        return None

    def channel(self, work: Work, profile: Profile) -> Floats | None:
        """Chance that a record with true code x is published with code y, for unit 0, averaged over the records of x
        as this plan sends them; None where values are not published row by row.
        """
        return None
