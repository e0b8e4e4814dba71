"""The questions that a publisher declares, from text to matrices: `ranges`, or `ranges:0.4,sum:0.4,histogram:0.2`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import SpecError
from ...laws.set_channel import PlannedList
from ...model.private import Watch
from ...model.public import Codes, Domain, Floats
from . import channel_design as matrices
from .channel_design import MOST_VALUES, ROUNDS, Design, optimise

KINDS = ("histogram", "prefixes", "ranges", "sum")
IN_SQL = "questions in SQL (--workload FILE.sql; in Python their text)"
FLOOR = 0.05  # share of the histogram that is always added, so that single values stay answerable
WORKLOAD_FIELD = {  # of the field of a specification
    "help": "questions to be made for: histogram, prefixes, ranges, sum, FILE.sql, or a mix: ranges:1,FILE.sql:2",
    "example": "ranges",
    "file": "sql",
}
SQL = "sql"
ALONE = "histogram"  # the workload for which subset response is the best channel


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredWorkload:
    """Kinds of questions and their shares, which add up to 1."""

    shares: tuple[tuple[str, float], ...]
    sql: str | None = None  # the questions of the kind "sql"
    order: tuple[int, ...] | None = None  # place of every value, where it is not that of the domain (bins)

    @property
    def plain(self) -> bool:
        """Only single values are asked for: no channel beats subset response."""
        return all(kind == ALONE for kind, _ in self.shares)

    def gram(
        self, domain: Domain, gamma: Fraction, values: Codes | None = None, questions: Floats | None = None
    ) -> Floats:
        """G of the mix over the values of a domain, in their order; or as it falls on some of the values."""
        shares = [share for _, share in self.shares]
        grams = []
        for kind, _ in self.shares:
            if kind != SQL:
                grams.append(_gram(kind, domain, self.order))
                continue
            assert questions is not None, "questions in SQL are read before a plan is made"
            grams.append(matrices.questions(_weighed_alike(questions)))
        if values is not None:  # a sub-table may hold no two values that a question tells apart
            own = [(g[np.ix_(values, values)], share) for g, share in zip(grams, shares, strict=True)]
            told = [(g, share) for g, share in own if _told_apart(g)] or [(matrices.histogram(len(values)), 1.0)]
            grams, shares = [g for g, _ in told], [share for _, share in told]
        return matrices.mixture(grams, shares, gamma, FLOOR)


def parse_workload(text: str | None) -> DeclaredWorkload | None:
    """The workload that a text names; None stays None; SpecError for anything else."""
    if text is None:
        return None
    if not isinstance(text, str) or not text.strip():
        raise SpecError(f"workload must be a text such as ranges or ranges:0.5,sum:0.5, got {text!r}", field="workload")
    mix, sql = _parted(text.strip())
    shares: dict[str, float] = {}
    for item in mix.split(","):
        kind, colon, number = (part.strip() for part in item.partition(":"))
        if kind == SQL and sql is None:
            raise SpecError(
                "the questions of the workload sql are missing: ranges:1,sql:2; SELECT ...", field="workload"
            )
        if kind not in KINDS and kind != SQL:
            known = f"{', '.join(KINDS)}, or {IN_SQL}"
            raise SpecError(f'workload "{kind}" is not known; workloads: {known}', field="workload")
        if kind in shares:
            raise SpecError(f'workload "{kind}" is named twice', field="workload")
        try:
            shares[kind] = float(number) if colon else 1.0
        except ValueError:
            raise SpecError(f'the share of "{kind}" must be a number, got "{number}"', field="workload") from None
        if not 0 < shares[kind] < float("inf"):
            raise SpecError(f'the share of "{kind}" must be a finite number above 0, got {number}', field="workload")
    if sql is not None and SQL not in shares:
        raise SpecError("the workload has questions in SQL and gives them no share: ranges:1,sql:2", field="workload")
    whole = sum(shares.values())
    return DeclaredWorkload(shares=tuple((kind, share / whole) for kind, share in shares.items()), sql=sql)


def _parted(text: str) -> tuple[str, str | None]:
    """(kinds with their shares, questions in SQL) of a workload; SQL alone has all of it."""
    if text.lower().startswith("select"):
        return SQL, text
    mix, _, sql = text.partition(";")
    return mix, sql.strip() or None


def check_workload(workload: DeclaredWorkload, domain: Domain, limit: int | None = MOST_VALUES) -> None:
    """Refuse domains on which the workload has no meaning, or that are too large for its search."""
    if workload.plain:
        return
    if len(domain.columns) > 1:
        raise SpecError("a compound value has no order; its only workload is histogram", field="workload")
    name = domain.columns[0]
    if limit is not None and len(domain) > limit:
        raise SpecError(
            f'a workload needs at most {limit} values and "{name}" has {len(domain)}; give --bins, or round it first',
            field="workload",
        )
    if all(kind in {SQL, ALONE} for kind, _ in workload.shares):
        return
    if workload.order is not None:
        if any(kind == "sum" for kind, _ in workload.shares):
            raise SpecError(f'"{name}" is published as bins, which have no sum', field="workload")
        return
    kinds = {type(value) for (value,) in domain.values}
    ordered = kinds - {bool, type(None), str}
    if not ordered or len(kinds) > 1:
        raise SpecError(
            f'"{name}" is not a column of numbers or dates without missing values, so it has no ranges or sums; '
            f"its workloads are histogram and {IN_SQL}",
            field="workload",
        )
    if any(kind == "sum" for kind, _ in workload.shares) and not kinds <= {int, float, Decimal}:
        raise SpecError(f'"{name}" does not hold numbers, so there is no sum of it', field="workload")


def design(
    workload: DeclaredWorkload,
    domain: Domain,
    gamma: Fraction,
    questions: Floats | None = None,
    *,
    watch: Watch | None = None,
) -> Design:
    """The channel made for the workload over the values of a domain; `questions` are those that its SQL asks."""
    check_workload(workload, domain)
    return _watched(workload.gram(domain, gamma, questions=questions), gamma, watch)


def design_within(
    workload: DeclaredWorkload,
    domain: Domain,
    values: Codes,
    gamma: Fraction,
    questions: Floats | None = None,
    *,
    watch: Watch | None = None,
) -> Design:
    """The channel of a sub-table that holds some of the domain's values, made for the questions of the whole."""
    return _watched(workload.gram(domain, gamma, values, questions), gamma, watch)


def _watched(gram: Floats, gamma: Fraction, watch: Watch | None) -> Design:
    """The search; after every round it says how far at most its channel is from the best."""
    if watch is None:
        return optimise(gram, gamma)
    return optimise(gram, gamma, progress=lambda at: watch(f"workload, gap {at.gap:.1%}", at.round, ROUNDS))


def planned_list(found: Design) -> PlannedList:
    """The design's list as a plan states it."""
    weights = tuple(found.channel.weights.tolist())
    return PlannedList(sets=found.channel.sets(), cyclic=False, weights=weights)


def _weighed_alike(questions: Floats) -> Floats:
    """Every question less its mean, of length 1: the variance that it has under subset response is then the same.

    So a file may ask for counts and sums, and the unit of a sum does not decide what the list is made for.
    """
    moved = questions - questions.mean(axis=1, keepdims=True)
    moved = moved / np.abs(moved).max(axis=1, keepdims=True)  # squares of very large and very small numbers stay finite
    return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True))


def _deviations(numbers: Sequence[Any]) -> Floats:
    """Numbers less their mean, which every release answers exactly, over the largest; worked out in fractions."""
    exact = [Fraction(number) for number in numbers]
    mean: Fraction = sum(exact, Fraction(0)) / len(exact)
    largest = max(abs(number - mean) for number in exact)
    return np.array([float((number - mean) / largest) for number in exact])


def _told_apart(gram: Floats) -> bool:
    flat = np.full(len(gram), 1 / len(gram))
    return float(np.trace(matrices.centred(gram, flat))) > 1e-9 * max(float(np.abs(gram).max()), 1e-300)


def _gram(kind: str, domain: Domain, order: tuple[int, ...] | None) -> Floats:
    size = len(domain)
    if order is not None and kind in {"prefixes", "ranges"}:
        return _gram(kind, domain, None)[np.ix_(order, order)]
    if kind == "sum":
        return matrices.weighted_sum(_deviations([value for (value,) in domain.values]))
    return {"histogram": matrices.histogram, "prefixes": matrices.prefixes, "ranges": matrices.ranges}[kind](size)
