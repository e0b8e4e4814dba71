"""What a question is asked of: an open release, or one that a plan only foresees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..engines.codes import Coder
from ..engines.contract import Reader
from ..errors import ReleaseError, SpecError
from ..laws.contract import Bounds
from ..laws.functionals import Cells, CodedUnit, Functionals
from ..model.public import ADDED, Asked, Domain, Estimated, Observed, People
from ..release.opened import UNANSWERABLE, OpenedRelease, stated_by_a_stranger
from ..sql.nodes import Schema

# (kind, observed, asked, functionals above, functionals below, share of a quantile)
Bound = Callable[[str, Observed, Asked, Sequence[int], Sequence[int], float | None], Bounds | None]
COARSER = "made coarser before publishing: "


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
    by_number: bool = False  # bounds need the numbers that are added up row by row
    caveats: tuple[str, ...] = ()  # that every answer carries
    sampling: tuple[str, ...] = ()  # those of errors of a population
    coarsened: tuple[tuple[str, str], ...] = ()  # (column, how it was made coarser before it was published)

    def said(self, target: str, columns: Iterable[str]) -> tuple[str, ...]:
        """The caveats of an answer about some columns, whose errors are those of a target."""
        named = {name.lower() for name in columns}
        coarser = tuple(COARSER + said for name, said in self.coarsened if name.lower() in named)
        return (*self.caveats, *coarser, *(self.sampling if target == "population" else ()))

    def check_estimator(self, name: str | None) -> None:
        """Raise SpecError for an estimator that the method does not have."""
        if name is None or name in self.estimators:
            return
        others = f", or take one of {', '.join(self.estimators)}" if self.estimators else ": it has one only"
        raise SpecError(f'{self.method} has no estimator "{name}"; leave it out{others}', field="estimator")


def subject_of(opened: OpenedRelease) -> Subject:
    """The release with its law's estimate and bounds."""
    law, people = opened.law, People(**dict(opened.manifest.people))
    stated = stated_by_a_stranger(ReleaseError, UNANSWERABLE)
    schema = Schema(
        types=opened.types,
        units={name: u for u, domain in enumerate(opened.domains) for name in domain.columns},
        hidden=frozenset(c.name for c in opened.columns if c.role in ADDED),
    )
    left_out: tuple[str, ...] = ()
    if law.suppressed:
        rows = "1 row was" if law.suppressed == 1 else f"{law.suppressed:,} rows were"
        left_out = (f"{rows} left out of the release; answers are about the published ones",)
    return Subject(
        method=opened.manifest.method,
        schema=schema,
        domains=opened.domains,
        coders=opened.coders,
        reader=opened.reader,
        lumpable=law.lumpable,
        withheld=law.withheld,
        part=opened.part,
        by_number=law.by_number,
        sets={u: len(sets) for u, sets in enumerate(opened.listed) if sets is not None},
        estimate=stated(lambda observed, asked: law.estimate(opened.evidence, observed, asked)),
        bound=stated(lambda *question: law.bound(opened.evidence, *question)),
        estimators=law.estimators,
        functionals=stated(lambda cells, units: law.functionals(opened.evidence, cells, units)),
        rows=opened.manifest.rows,
        caveats=(*left_out, *people.caveats),
        sampling=people.sampling,
        coarsened=tuple((r.column, r.said) for r in opened.manifest.recodings()),
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
