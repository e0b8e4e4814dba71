"""A question put to the engine: what it needs to see, seen."""

from __future__ import annotations

from ..sql.nodes import Query
from .domain_views import checked_views
from .layout import layout
from .observation import wanted_now, wanted_of
from .strata import Frame, in_parts
from .subject import Subject


def observe(query: Query, subject: Subject, *, by_row: bool = False) -> Frame:
    """What the engine says to the question, laid out over the domains; `by_row`: parts as the rows have them."""
    views = checked_views(query, subject)
    if by_row:
        wanted, inside = wanted_of(query, subject, *subject.reader.source()), None
    else:
        wanted, inside = wanted_now(query, subject)
    seen = in_parts(subject.reader.run(wanted.statement, text=query.text), wanted, subject.rows)
    return Frame(
        query=query,
        wanted=wanted,
        seen=seen,
        place=layout(query.units(), views.views, lumpable=subject.lumpable, sets=subject.sets),
        codes={u: subject.coders[u].encode([seen[c] for c in names]) for u, names in wanted.raw.items()},
        labels=views.labels,
        inside=inside,
    )
