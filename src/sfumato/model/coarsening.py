"""Coarser values before anything else is done: bins, rounding, a highest value. Public: the release states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from ..errors import SpecError
from .names import Ratio, exact, parts

PERIODS = ("year", "quarter", "month", "week")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recoding:
    """How one column was made coarser. One of:

    `edges`: the column became labels of the bins [edge, next edge), the last without upper end.
    `step`: numbers were rounded to the nearest multiple, halves away from zero.
    `period`: dates were set to the first day of their year, quarter, month or week.
    `top`: every larger number became this one.
    """

    column: str
    edges: tuple[float, ...] = ()
    step: Fraction | None = None
    period: str | None = None
    top: Fraction | None = None

    def __post_init__(self) -> None:
        if self.edges and (len(self.edges) < 2 or any(a >= b for a, b in pairwise(self.edges))):
            raise SpecError(f'bins of "{self.column}" need two or more edges that rise', field="bins")
        if self.step is not None and self.step <= 0:
            raise SpecError(f'"{self.column}" can be rounded to a step above 0, not to {self.step}', field="round")
        if self.period is not None and self.period not in PERIODS:
            raise SpecError(f'"{self.column}" can be rounded to {", ".join(PERIODS)}', field="round")
        if sum(x is not None for x in (self.edges or None, self.step, self.period, self.top)) != 1:
            raise SpecError(f'"{self.column}" is recoded in one way at a time', field="round")

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the bins."""
        return tuple(bin_labels(self.edges)) if self.edges else ()

    @property
    def said(self) -> str:
        """In words."""
        if self.edges:
            return f"{self.column}: {len(self.edges)} bins"
        if self.top is not None:
            return f"{self.column}: values above {_plain(self.top)} became {_plain(self.top)}"
        return f"{self.column}: rounded to {self.period or 'multiples of ' + _plain(self.step or Fraction(1))}"


def _plain(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"


def bins(given: Mapping[str, Sequence[Ratio]] | Sequence[str]) -> tuple[Recoding, ...]:
    """Bins by column, or texts such as `age=17,25,35`: a name starts a new list."""
    lists: dict[str, list[Ratio]] = {}
    if isinstance(given, Mapping):
        lists = {column: list(edges) for column, edges in given.items()}
    else:
        for text in given:
            lists |= bin_edges(text)
    return tuple(Recoding(column=c, edges=tuple(float(exact(e, "bins")) for e in lists[c])) for c in lists)


def bin_edges(text: str) -> dict[str, list[Ratio]]:
    """The edges in a text such as `age=17,25,35,hours=0,20,40`: a name starts a new list."""
    found: dict[str, list[Ratio]] = {}
    column = None
    for name, value in parts(text, "bins"):
        if value is not None:
            column = name
            found[column] = []
        if column is None:
            raise SpecError(f'bins are written column=EDGE,EDGE,..., got "{text}"', field="bins")
        found[column].append(name if value is None else value)
    return found


def rounded(given: Mapping[str, Ratio] | Sequence[str]) -> tuple[Recoding, ...]:
    """A step or a period by column, or texts such as `income=1000` and `born=year`."""
    return tuple(
        Recoding(column=column, period=str(value))
        if str(value) in PERIODS
        else Recoding(column=column, step=exact(value, "round"))
        for column, value in _pairs(given, "round", "column=STEP")
    )


def top_coded(given: Mapping[str, Ratio] | Sequence[str]) -> tuple[Recoding, ...]:
    """A highest value by column, or texts such as `age=90`."""
    return tuple(Recoding(column=c, top=exact(v, "top-code")) for c, v in _pairs(given, "top-code", "column=HIGHEST"))


def _pairs(given: Mapping[str, Ratio] | Sequence[str], field: str, form: str) -> list[tuple[str, Ratio]]:
    if isinstance(given, Mapping):
        return list(given.items())
    found: list[tuple[str, Ratio]] = []
    for text in given:
        for name, value in parts(text, field):
            if value is None:
                raise SpecError(f'--{field} is written {form}, got "{text}"', field=field)
            found.append((name, value))
    return found


def in_order(recodings: Sequence[Recoding]) -> tuple[Recoding, ...]:
    """Rounding first, then highest values, then bins; SpecError where a column is recoded twice in one way."""
    rank = [
        (0 if r.step is not None or r.period else 1 if r.top is not None else 2, i) for i, r in enumerate(recodings)
    ]
    ordered = tuple(recodings[i] for _, i in sorted(rank))
    seen = set()
    for (kind, _), recoding in zip(sorted(rank), ordered, strict=True):
        if (kind, recoding.column) in seen:
            raise SpecError(f'"{recoding.column}" is recoded twice in the same way', field="round")
        seen.add((kind, recoding.column))
    return ordered


def bin_labels(edges: Sequence[float]) -> list[str]:
    """Names of the half-open bins from each edge to the next; the last has no upper end."""
    return [f"[{a:g}, {b:g})" for a, b in pairwise(edges)] + [f"[{edges[-1]:g}, inf)"]
