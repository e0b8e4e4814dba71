"""Whether columns that are said to be coarser are."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ..engines.statements import distinct
from ..errors import VerificationError
from ..model.coarsening import Recoding
from .opened import OpenedRelease

NEAR = 1e-9  # of a step, to which a rounded real number is a multiple


def check_coarser(release: OpenedRelease) -> None:
    """Nothing; VerificationError where a published value is finer than the release says."""
    recodings = release.manifest.recodings()
    columns = {column.name: column for column in release.columns}
    last = {recoding.column: recoding for recoding in recodings}
    for name, recoding in last.items():
        if name not in columns:
            raise VerificationError(f'release.json says that "{name}" was made coarser, which it does not publish')
        column = columns[name]
        if column.released_type is not None:
            continue
        values: Sequence[Any] = column.domain or ()
        if column.domain is None:
            values = release.reader.run(distinct(name, table="release"))["v"].to_pylist()
        before = [r for r in recodings if r.column == name and r is not recoding]
        if any(v is not None and not _fits(v, recoding, before) for v in values):
            raise VerificationError(f'"{name}" holds values that are finer than release.json says')


def _fits(value: Any, recoding: Recoding, before: list[Recoding]) -> bool:
    if recoding.edges:
        return value in recoding.labels
    if recoding.top is not None:
        at_top = float(value) == float(recoding.top)
        return at_top or (float(value) < float(recoding.top) and all(_fits(value, r, []) for r in before))
    if recoding.period is not None:
        return isinstance(value, datetime.date) and _first_day(value, recoding.period)
    assert recoding.step is not None
    if isinstance(value, float):
        return abs(value / float(recoding.step) - round(value / float(recoding.step))) <= NEAR
    return (Fraction(value) / recoding.step).denominator == 1


def _first_day(day: datetime.date, period: str) -> bool:
    if period == "week":
        return day.weekday() == 0
    months = {"year": (1,), "quarter": (1, 4, 7, 10)}.get(period, tuple(range(1, 13)))
    return day.day == 1 and day.month in months
