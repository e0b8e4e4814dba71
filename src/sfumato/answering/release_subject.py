"""An open release as a question sees it."""

from __future__ import annotations

from ..model.public import ADDED
from ..release.opened import OpenedRelease, as_stated
from ..sql.nodes import Schema
from .subject import Subject


def subject_of(opened: OpenedRelease) -> Subject:
    """The release with its method's estimate and bounds."""
    method, plan, people = opened.method, opened.plan, opened.manifest.people.noun()
    schema = Schema(
        types=opened.types,
        units={name: u for u, domain in enumerate(opened.domains) for name in domain.columns},
        hidden=frozenset(c.name for c in opened.columns if c.role in ADDED),
    )
    return Subject(
        method=method.name,
        schema=schema,
        domains=opened.domains,
        coders=opened.coders,
        reader=opened.reader,
        lumpable=method.lumpable and not any(opened.listed),
        withheld=method.withheld,
        part=opened.part,
        whole=method.whole,
        handfuls=method.handfuls,
        by_number=method.by_number,
        sets={u: len(sets) for u, sets in enumerate(opened.listed) if sets is not None},
        estimate=as_stated()(lambda observed, asked: method.estimate(plan, opened.evidence, observed, asked)),
        bound=as_stated()(lambda *question: method.bound(plan, opened.evidence, *question)),
        estimators=method.estimators,
        functionals=as_stated()(lambda cells, units: method.functionals(plan, opened.evidence, cells, units)),
        rows=opened.manifest.rows,
        prepare=(lambda: _prepare(opened)) if method.withheld else None,
        prepare_sums=(lambda cells: method.prepare_sums(plan, opened.evidence, cells)) if method.withheld else None,
        caveats=(*method.caveats(plan), *people.caveats),
        sampling=people.sampling,
    )


def _prepare(opened: OpenedRelease) -> None:
    """Work out what estimates need of the values that are published by group; everything else waits for them."""
    opened.method.prepare(opened.plan, opened.evidence)
