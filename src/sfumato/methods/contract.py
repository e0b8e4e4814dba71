"""The contract of a method: one object, checked by the type checker.

A method plans: what a publisher asks for, what a table allows, what is promised. How rows are then drawn, answered,
foreseen, attacked and checked belongs to the law that its plan names (`laws/contract.py`), which a release states.
A method is pure: no file, clock, engine or generator of its own; randomness is an argument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from ..laws import Law
from ..model.private import Facts, Known, Needs, Profile, Work
from ..model.public import Candidate, Claim, Curve, Guarantee, Published, ReaderBound, Roles, Trust


class Specification:
    """What a publisher asks of a method: a frozen dataclass whose fields are the command line's options."""

    __slots__ = ()
    method: ClassVar[str]  # name of the method it belongs to


class Plan(Protocol):
    """What a release states: a frozen dataclass that survives JSON, and the law that its rows follow."""

    @property
    def law(self) -> Law:
        """How rows are drawn and answered."""


S = TypeVar("S", bound=Specification)
P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Planned(Generic[P]):
    """A plan in its two halves: what the release states, and what drawing needs besides and nobody else may see."""

    public: P
    work: Work

    @property
    def law(self) -> Law:
        """How rows are drawn and answered."""
        return self.public.law


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs(Generic[S]):
    """What a specification brings besides options: the files that it names, read; bins; questions.

    `edges` are the lower edges of the bins of columns that are published as bins. `questions` is SQL whose questions
    the plan is made for, one statement each; planning finds them in the profile.
    """

    spec: S
    edges: Mapping[str, Sequence[float]] = field(default_factory=dict)
    questions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """How the shared suites call a method on a small table of people with columns disease, age and sex.

    `options` is the same on the command line, where a small table wants other parameters; `bad` are arguments that,
    laid over `spec`, must be refused.
    """

    spec: Mapping[str, Any]
    bad: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, str] = field(default_factory=dict)


ReadRows = Callable[[str, str], tuple[tuple[str, ...], ...]]  # (file, column it is for) -> its rows


class Method(ABC, Generic[S, P]):
    """What publishing, verifying and choosing ask of a method."""

    unseen: tuple[str, ...] = ()  # forgeries that the bundle alone cannot show, beside those that no bundle can
    several_rows: bool = False  # a person with several rows is held too, not only one row of hers

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
    def guarantee(self, plan: P) -> Guarantee:
        """What the channel in the plan promises."""

    @abstractmethod
    def readers(self, plan: P, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """How far each reader of docs/explanation/readers.md gets, in the order of `READERS`.

        `known` None: what follows from the release alone; else the exact figures for this table.
        """

    @abstractmethod
    def report(self, plan: P, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        """What the custodian wants to see before publishing; may hold true counts; never written to a release.

        All of it is in `plan --json`; `full` adds what is long. Drawn for people is "expected_error", which every
        report has: "values" and, for each, "total", "among_1_percent" and "among_10_percent" (`shared.restricted`);
        where there are some also "sub_tables", "amplification", "groups" with "groups_in_all", "audit", and lines of
        "notes" and "warnings".
        """

    @abstractmethod
    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """The method's own entry at a bound on the posterior, then its variants; SpecError where it has none."""

    # --- what only some methods need ------------------------------------------------------------------------------

    def inputs(self, spec: S, read: ReadRows) -> Inputs[S]:
        """The specification with the files it names read by `read`, its bins and its questions."""
        return Inputs(spec=spec)

    def verify(self, plan: P, published: Published) -> None:
        """Raise VerificationError where the release is not what the promise needs, beyond what its law checks."""

    def claim(self, plan: P) -> Claim:
        """The prior and the posterior that the plan names; nothing where it names none."""
        return Claim()

    def rows_held(self, plan: P) -> int | None:
        """Rows of one person that the plan holds together; None where the losses of any number of them add."""
        return 1

    def curves(self, plan: P) -> tuple[Curve, ...]:
        """Lines that a report draws."""
        return ()
