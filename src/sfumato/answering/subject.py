"""What a question is asked of: an open release, or one that a plan only foresees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import pyarrow as pa

from ..engines.codes import Coder
from ..engines.contract import Reader
from ..errors import SpecError
from ..laws.contract import Bounds
from ..laws.functionals import Cells, CodedUnit, Functionals
from ..model.public import ADDED, Asked, Domain, Estimated, Observed
from ..release.opened import OpenedRelease, as_stated
from ..sql.nesting import Nested
from ..sql.nodes import Query, Schema
from .functionals import Views

# (kind, observed, asked, functionals above, functionals below, share of a quantile)
Bound = Callable[[str, Observed, Asked, Sequence[int], Sequence[int], float | None], Bounds | None]

Made = TypeVar("Made")

POPULATION = "population"  # the estimator that `--population` stands for


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What was found out about questions without looking at rows."""

    again: bool = False  # the same texts come again: what follows `shown` is kept
    shown: dict[int, pa.Table] = field(default_factory=dict)  # columns of a unit on its domain
    queries: dict[str, Query] = field(default_factory=dict)  # texts as they were read
    views: dict[str, Views] = field(default_factory=dict)  # of these queries
    wanted: dict[tuple[object, ...], object] = field(default_factory=dict)  # what they need to see, by text and way

    def query_of(self, text: str, read: Callable[[], Query | Nested]) -> Query | Nested:
        """The question of a text, read once where it comes again."""
        if text in self.queries:
            return self.queries[text]
        found = read()
        if self.again and isinstance(found, Query):
            self.queries[text] = found
        return found

    def views_of(self, query: Query, look: Callable[[], Views]) -> Views:
        """How a question sees the domains, looked at once where it was kept."""
        if self.queries.get(query.text) is not query:
            return look()
        if query.text not in self.views:
            self.views[query.text] = look()
        return self.views[query.text]

    def wanted_of(self, query: Query, way: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """What a question needs to see of a release that is looked at in some way, made once where it was kept."""
        if self.queries.get(query.text) is not query:
            return make()
        key = (query.text, *way)
        if key not in self.wanted:
            self.wanted[key] = make()
        return cast("Made", self.wanted[key])


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Rows to observe, domains to lay out over, and the law's estimate and bounds."""

    method: str
    schema: Schema
    domains: tuple[Domain, ...]
    coders: tuple[Coder, ...]
    reader: Reader
    lumpable: bool
    withheld: bool
    part: str | None
    sets: Mapping[int, int]  # unit whose cells show sets of values -> number of listed sets
    estimate: Callable[[Observed, Asked], Estimated]
    bound: Bound
    functionals: Callable[[Cells, Sequence[CodedUnit]], Functionals | None]
    rows: int
    estimators: tuple[str, ...]  # that a question may name
    additive: bool = False  # estimates of an output row do not depend on the strata that its rows are cut into
    by_number: bool = False  # bounds need the numbers that are added up row by row
    caveats: tuple[str, ...] = ()  # that every answer carries
    sampling: tuple[str, ...] = ()  # those of errors of a population
    known: Remembered = field(default_factory=Remembered, repr=False)

    def said(self, target: str) -> tuple[str, ...]:
        """The caveats of an answer whose errors are those of a target."""
        return (*self.caveats, *(self.sampling if target == POPULATION else ()))

    def check_estimator(self, name: str | None) -> None:
        """Nothing; SpecError for an estimator that the method does not have."""
        if name is None or name in self.estimators:
            return
        if name == POPULATION:
            message = f"{self.method} does not give errors for a population (--population); leave it out"
        else:
            others = f", or take one of {', '.join(self.estimators)}" if self.estimators else ": it has one only"
            message = f'{self.method} has no estimator "{name}"; leave it out{others}'
        raise SpecError(message, field="estimator")


class KnownQuestions:
    """What was found out about the same questions, for all subjects whose columns and domains agree."""

    def __init__(self) -> None:
        self._known: list[tuple[Schema, tuple[Domain, ...], Remembered]] = []

    def told(self, subject: Subject) -> Subject:
        """The subject, which knows what was found out at others before it, and lets later ones know."""
        for schema, domains, known in self._known:
            if (schema, domains) == (subject.schema, subject.domains):
                return replace(subject, known=known)
        known = Remembered(again=True)
        self._known.append((subject.schema, subject.domains, known))
        return replace(subject, known=known)


def rows_left_out(rows: int) -> tuple[str, ...]:
    """What every answer says about them; nothing where there are none."""
    if not rows:
        return ()
    said = "1 row was" if rows == 1 else f"{rows:,} rows were"
    return (f"{said} left out of the release; answers are about the published ones",)


def subject_of(opened: OpenedRelease) -> Subject:
    """The release with its law's estimate and bounds."""
    law, people = opened.law, opened.manifest.people.noun()
    schema = Schema(
        types=opened.types,
        units={name: u for u, domain in enumerate(opened.domains) for name in domain.columns},
        hidden=frozenset(c.name for c in opened.columns if c.role in ADDED),
    )
    return Subject(
        method=opened.manifest.method,
        schema=schema,
        domains=opened.domains,
        coders=opened.coders,
        reader=opened.reader,
        lumpable=law.lumpable,
        withheld=law.withheld,
        part=opened.part,
        additive=law.additive,
        by_number=law.by_number,
        sets={u: len(sets) for u, sets in enumerate(opened.listed) if sets is not None},
        estimate=as_stated()(lambda observed, asked: law.estimate(opened.evidence, observed, asked)),
        bound=as_stated()(lambda *question: law.bound(opened.evidence, *question)),
        estimators=law.estimators,
        functionals=as_stated()(lambda cells, units: law.functionals(opened.evidence, cells, units)),
        rows=opened.manifest.rows,
        caveats=(*rows_left_out(law.suppressed), *people.caveats),
        sampling=people.sampling,
    )


def nothing_randomised(
    *, method: str, schema: Schema, domains: tuple[Domain, ...], reader: Reader, rows: int
) -> Subject:
    """Rows that are as they are: a question about them is read and laid out, and nothing of it is estimated."""
    return Subject(
        method=method,
        schema=schema,
        domains=domains,
        coders=(),
        reader=reader,
        lumpable=False,
        withheld=False,
        part=None,
        sets={},
        estimate=_nothing_to_estimate,
        bound=no_bounds,
        functionals=no_functionals,
        rows=rows,
        estimators=(),
    )


def _nothing_to_estimate(_: Observed, __: Asked) -> Estimated:
    raise AssertionError("nothing is randomised")


def no_bounds(*_: object) -> None:
    """Of a subject that knows no certain bounds."""


def no_functionals(*_: object) -> None:
    """Of a subject that knows no sums over true rows."""
