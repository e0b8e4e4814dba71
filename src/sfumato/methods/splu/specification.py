"""What a publisher asks of splu: group sizes, thresholds, the grouping rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from ...errors import SpecError
from ...model.names import parts
from ...model.ratios import Ratio, exact
from ..contract import Specification
from ..shared.option_help import told

RULES = {"random": "random-margins", "largest": "largest-buckets"}
MOST_GAMMA, LEAST_EPSILON, MOST_ALPHA = 1000, Fraction(1, 1000), 10_000
T_E = Fraction(1, 20)  # how seldom a total of T_f or more may be missed by epsilon


def parse_gamma(gamma: int | str | Mapping[str, int], columns: tuple[str, ...] | None = None) -> tuple[int, ...]:
    """gamma of every sensitive column: one number for all, or "occupation=5,age=8"."""
    if isinstance(gamma, str) and "=" in gamma:
        gamma = {name: _whole(text) for name, text in parts(gamma, "gamma")}
    if not isinstance(gamma, Mapping):
        return (_whole(gamma),) * (1 if columns is None else len(columns))
    found = {name: _whole(value) for name, value in gamma.items()}
    if columns is None:
        return tuple(found.values())
    for name in (*columns, *found):
        if name not in found or name not in columns:
            where = "has no gamma" if name in columns else "is not a sensitive column"
            raise SpecError(f'"{name}" {where}; give one for each of: {", ".join(columns)}', field="gamma")
    return tuple(found[name] for name in columns)


def _whole(value: object) -> int:
    try:
        number = int(value) if isinstance(value, str | int) and not isinstance(value, bool) else 0
    except ValueError:
        number = 0
    if not 2 <= number <= MOST_GAMMA:
        raise SpecError(f"gamma must be a whole number from 2 to {MOST_GAMMA}, got {value!r}", field="gamma")
    return number


def check_thresholds(epsilon: Fraction, alpha: int, t_e: Fraction) -> None:
    if not LEAST_EPSILON <= epsilon < 1:
        raise SpecError(f"epsilon must lie between {LEAST_EPSILON} and 1, got {epsilon}", field="epsilon")
    if isinstance(alpha, bool) or not isinstance(alpha, int) or not 1 <= alpha <= MOST_ALPHA:
        raise SpecError(f"alpha must be a whole number from 1 to {MOST_ALPHA}, got {alpha!r}", field="alpha")
    if not 0 < t_e < 1:
        raise SpecError(f"t_e must lie strictly between 0 and 1, got {t_e}", field="t_e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Splu(Specification):
    """Decoy groups of gamma; epsilon and alpha say what T_p and T_f are computed for.

    `silent` allows a value that is in every group: the release then says nothing about who has it.
    """

    method: ClassVar[str] = "splu"

    gamma: int | str | Mapping[str, int] = field(
        metadata=told("values in a decoy group, or one number a column; 1/gamma bounds a guess", "5")
    )
    epsilon: Ratio = field(default="3/10", metadata=told("relative error that T_p and T_f speak of", "1/10"))
    alpha: int = field(default=3, metadata=told("totals up to this one are small: hidden", "5"))
    grouping: str = field(
        default="random", metadata=told("random: by random margins; largest: from the largest buckets", "largest")
    )
    silent: bool = field(default=False, metadata={"help": "allow a value that is in every group"})

    def __post_init__(self) -> None:
        parse_gamma(self.gamma)
        check_thresholds(exact(self.epsilon, "epsilon"), self.alpha, T_E)
        if self.grouping not in RULES:
            raise SpecError(f'grouping must be one of {", ".join(RULES)}, got "{self.grouping}"', field="grouping")
