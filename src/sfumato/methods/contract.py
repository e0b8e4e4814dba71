"""The contract of a method: one object, checked by the type checker.

What every method must say is abstract; what only some can do has a default that says "not this one". Nothing of a
method is found by looking for names: a part that may be missing would be missing where it matters.
A method is pure: no file, clock, engine or generator of its own; randomness is an argument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from ..model.likelihood import Likelihood
from ..model.private import Batch, Facts, Known, Needs, Profile, Released, Work
from ..model.public import (
    Asked,
    Candidate,
    Claim,
    Curve,
    Domain,
    Estimated,
    Evidence,
    Floats,
    Guarantee,
    Listed,
    Observed,
    Published,
    ReaderBound,
    Roles,
    SetWeights,
    Trust,
)
from ..model.types import ColumnType

if TYPE_CHECKING:  # questions in SQL need none of it
    from ..laws.functionals import Cells, CodedUnit, Functionals


class Specification:
    """What a publisher asks of a method: a frozen dataclass whose fields are the command line's options."""

    __slots__ = ()
    method: ClassVar[str]  # name of the method it belongs to


S = TypeVar("S", bound=Specification)
P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Planned(Generic[P]):
    """A plan in its two halves: what the release states, and what `apply` needs besides and nobody else may see."""

    public: P
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """How the shared suites call a method on a small table of people with columns disease, age and sex.

    `options` is the same on the command line, where a small table wants other parameters; `bad` are arguments that,
    laid over `spec`, must be refused.
    """

    spec: Mapping[str, Any]
    bad: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """The answers that a plan leads to, before anything is published.

    `answer` takes what the *original* table shows and gives the mean of the estimate with its true standard error.
    `lump`: values that the question does not tell apart may be counted together before the channel acts.
    """

    lump: bool
    answer: Callable[[Observed, Asked], Estimated]
    functionals: Callable[[Cells, Sequence[CodedUnit]], Functionals | None] | None = None  # of models; None: unknown


Bounds = tuple[Floats, Floats, tuple[str, ...]]  # certain bounds, and what to say about them
ReadRows = Callable[[str, str], tuple[tuple[str, ...], ...]]  # (file, column it is for) -> its rows


class Method(ABC, Generic[S, P]):
    """What publishing, asking, verifying and choosing ask of a method."""

    formula: str = ""  # weights and variance, for --explain
    lumpable: bool = False  # values the question does not tell apart may be counted together
    part: str | None = None  # name of the sub-table or group id column in data.parquet, if there is one
    adds: tuple[str, ...] = ()  # columns of sensitive.parquet besides the part: no sensitive column may be called so
    withheld: bool = False  # the changed units are not in data.parquet but in sensitive.parquet, by group
    additive: bool = False  # estimates of an output row do not depend on the strata that its rows are cut into
    by_number: bool = False  # bounds need the numbers that a question adds up row by row (`Observed.numbers`)
    classes: bool = False  # rows with equal published quasi-identifiers form classes that show true values
    plan_draws: bool = False  # the plan itself is random: every release needs its own
    unseen: tuple[str, ...] = ()  # forgeries that the bundle alone cannot show, beside those that no bundle can
    independent_rows: bool = False  # given its true value and its part, what a row shows depends on no other row
    several_rows: bool = False  # a person with several rows is held too, not only one row of hers
    estimators: tuple[str, ...] = ()  # names that a question may ask for besides the method's own; others are refused

    # --- what every method says, each as an attribute of its class ----------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """As typed on the command line."""

    @property
    @abstractmethod
    def title(self) -> str:
        """As people read it."""

    @property
    @abstractmethod
    def trust(self) -> Trust:
        """How far the promise carries."""

    @property
    @abstractmethod
    def answers(self) -> str:
        """What an answer carries, for tables."""

    @property
    @abstractmethod
    def spec(self) -> type[S]:
        """The specification: its fields are the options."""

    @property
    @abstractmethod
    def plan_type(self) -> type[P]:
        """A frozen dataclass that survives JSON: the public half of a plan."""

    @property
    @abstractmethod
    def example(self) -> Example:
        """How the shared suites call the method."""

    # --- what every method does -----------------------------------------------------------------------------------

    @abstractmethod
    def needs(self, spec: S, roles: Roles) -> Needs:
        """Which columns are coded together and which joint counts planning looks at."""

    @abstractmethod
    def plan(self, spec: S, profile: Profile, rng: np.random.Generator) -> Planned[P]:
        """The plan for these counts, or PlanError where the guarantee cannot be reached."""

    @abstractmethod
    def apply(self, plan: P, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """The batch as it is published."""

    @abstractmethod
    def guarantee(self, plan: P) -> Guarantee:
        """What the channel in the plan promises."""

    @abstractmethod
    def readers(self, plan: P, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """How far each reader of docs/explanation/readers.md gets, in the order of `READERS`.

        `known` None: what follows from the release alone; else the exact figures for this table.
        """

    @abstractmethod
    def estimate(self, plan: P, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Estimates of the asked functionals, with variance, interval, covariances and, where known, bounds."""

    @abstractmethod
    def verify(self, plan: P, published: Published) -> None:
        """Nothing; raises VerificationError where the published rows or groups are not what the plan allows."""

    @abstractmethod
    def report(self, plan: P, work: Work, profile: Profile) -> dict[str, Any]:
        """What the custodian wants to see before publishing; may hold true counts; never written to a release.

        All of it is in `plan --json`. Drawn for people is "expected_error", which every report has: "values" and, for
        each, "total", "among_1_percent" and "among_10_percent" (`shared.restricted`); where there are some also
        "sub_tables", "amplification", "groups" with "groups_in_all", "audit", and lines of "notes" and "warnings".
        """

    @abstractmethod
    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """The method's own entry at a bound on the posterior, then its variants; SpecError where it has none."""

    # --- what only some methods can do --------------------------------------------------------------------------

    @property
    def foreseeable(self) -> bool:
        """Whether the method has a `foresee` of its own; if not, only a trial release tells its errors."""
        return type(self).foresee is not Method.foresee

    def released_domains(self, plan: P, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
        """Domain of what is published for each unit: the same, unless values are generalised."""
        return domains

    def beside(self, plan: P, domains: tuple[Domain, ...]) -> Mapping[str, ColumnType] | None:
        """Columns of sensitive.parquet besides the part, of those that `adds` names; None: the sensitive columns."""
        return None

    def listed(self, plan: P, domains: tuple[Domain, ...]) -> tuple[Listed | None, ...]:
        """For each unit whose cells show sets of values the published list: released codes then number its sets."""
        return (None,) * len(domains)

    def weights(self, plan: P, domains: tuple[Domain, ...]) -> SetWeights | None:
        """What readers without sfumato count with; None where cells show no sets."""
        return None

    def bound(
        self,
        plan: P,
        evidence: Evidence,
        kind: str,
        observed: Observed,
        asked: Asked,
        top: Sequence[int],
        bottom: Sequence[int],
        share: float | None,
    ) -> Bounds | None:
        """Certain bounds of a ratio or an order statistic of the functionals; None where the method has none."""
        return None

    def caveats(self, plan: P) -> tuple[str, ...]:
        """What every answer from such a release must say, exact ones too."""
        return ()

    def foresee(self, plan: P, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight | None:
        """The answers to expect, by algebra; None where only a trial release can tell."""
        return None

    def functionals(self, plan: P, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals | None:
        """Sums over the true rows with their covariances, for models, tests and quantiles; None where the method does
        not know their errors. UnsupportedQuery where it does, but not for these units.
        """
        return None

    def channel(self, plan: P, work: Work, profile: Profile) -> Floats | None:
        """Chance that a record with true code x is published with code y, for unit 0, averaged over the records of x
        as this plan sends them.

        None where values are not published row by row.
        """
        return None

    def law(self, plan: P, evidence: Evidence, unit: int) -> Likelihood | None:
        """What the bundle tells about a record of the unit; None where rows show true values, or the method gives none.

        For attacks (`sfumato audit`): it is a reader's knowledge, rebuilt from the bundle alone.
        """
        return None

    def generalised(self, plan: P, unit: int) -> tuple[int, ...] | None:
        """Published code of every value of the unit, where values are generalised; None elsewhere."""
        return None

    def axes(self, plan: P) -> tuple[float, ...] | None:
        """theta of every unit, where units are randomised independently and uniformly; None elsewhere."""
        return None

    def retention(self, plan: P) -> float | None:
        """The share of sensitive values that stay as they are, averaged over records; None where none has a meaning."""
        return None

    def claim(self, plan: P) -> Claim:
        """The prior and the posterior that the plan names; nothing where it names none."""
        return Claim()

    def rules_out(self, plan: P, domains: Sequence[Domain]) -> bool:
        """Whether the plan tells that a value of the sensitive columns' domains is no record's."""
        return False

    def rows_held(self, plan: P) -> int | None:
        """Rows of one person that the plan holds together; None where the losses of any number of them add."""
        return 1

    def edges(self, spec: S) -> Mapping[str, Sequence[float]]:
        """Lower edges of the bins of columns that are published as bins."""
        return {}

    def questions(self, spec: S) -> str | None:
        """SQL whose questions the plan is made for, one statement each; planning finds them in the profile."""
        return None

    def with_files(self, spec: S, read: ReadRows) -> S:
        """The specification with the files it names read by `read`."""
        return spec

    def full_report(self, plan: P, work: Work, profile: Profile) -> dict[str, Any]:
        """What the report leaves out because it is long."""
        return {}

    def curves(self, plan: P) -> tuple[Curve, ...]:
        """Lines that a report draws."""
        return ()
