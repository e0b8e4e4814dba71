"""What `publish` runs where no method is named, and what the more accurate methods would give up.

The default is the most accurate method that holds the readers with any prior on a value and on a set of values:
docs/explanation/readers.md. Errors are foreseen from plans; nothing is published to learn them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ..errors import SfumatoError
from ..methods import REGISTRY
from ..model.public import Candidate, Roles, Trust
from ..publish import Prepared
from ..publishing.randomness import Secret
from ..sql.scalar import quoted
from ..stats.ties import settled
from . import DEFAULT
from .foresee import ExpectedRelease, mean_absolute_error
from .measure import reached
from .setting import Setting, make_setting
from .workload import free_alias

HELD = ("value", "set")  # the readers that the default holds
NOTICED = 0.99  # of the error: less is not worth a word
LINKING = "linking"  # follows from the other columns, which are not looked at here


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """A method at the bound: the expected errors of all values' counts over the rows, and the readers it holds."""

    method: str
    command: str
    error: float
    held: tuple[str, ...]

    def against(self, other: Foreseen) -> str:
        """One line: how much more accurate this is, and what it gives up."""
        lost = ", ".join(reader for reader in other.held if reader not in self.held) or "nothing"
        return (
            f"more accurate: {self.command}: the counts would err by {self.error:.2%} of the rows; it gives up the "
            f"readers {lost}"
        )


def alternatives(
    source: Any, *, roles: Roles, rho1: Fraction, rho2: Fraction, secret: Secret | None = None, **reading: Any
) -> tuple[Foreseen, tuple[Foreseen, ...]]:
    """The default at (rho1, rho2), and the proved methods that would err less, the most accurate first."""
    secret = secret or Secret.fresh()
    alone = replace(roles, quasi=(), insensitive=(), identifying=(), rest="drop")
    names = ", ".join(quoted(name) for name in alone.sensitive)
    counts = f"SELECT {names}, COUNT(*) AS {free_alias(alone.sensitive)} FROM release GROUP BY {names}"
    setting = make_setting(source, roles=alone, bound=rho2, rho1=rho1, workload=counts, secret=secret, **reading)
    found = list(_foreseen(setting, secret))
    own = next(f for f in found if f.method == DEFAULT)
    better = sorted((f for f in found if f.error < NOTICED * own.error), key=lambda f: settled(f.error))
    return own, tuple({f.method: f for f in reversed(better)}.values())[::-1]


def _foreseen(setting: Setting, secret: Secret) -> Iterator[Foreseen]:
    for name, method in REGISTRY.items():
        if method.trust is not Trust.PROVED or not method.foreseeable:
            continue
        try:
            for candidate in method.at_bound(setting.facts, setting.tau, setting.rho1):
                prepared = setting.prepare(candidate, secret)
                if method.guarantee(prepared.planned.public).trust is Trust.PROVED:
                    yield _at(setting, candidate, prepared)
        except SfumatoError:
            if name == DEFAULT:
                raise


def _at(setting: Setting, candidate: Candidate, prepared: Prepared) -> Foreseen:
    truth = setting.workload.truth
    answers = setting.workload.ask(ExpectedRelease(prepared, setting.truth), candidate.estimator)
    errors = mean_absolute_error(answers.value - truth, answers.se)
    readers = reached(prepared, setting)["public_readers"]
    return Foreseen(
        method=candidate.method,
        command=candidate.options(),
        error=float(errors.sum() / truth.sum()),
        held=tuple(r["reader"] for r in readers if r["held"] and r["reader"] != LINKING),
    )
