"""A question put to the engine: what it needs to see, seen."""

from __future__ import annotations

import pyarrow as pa

from ..model.types import Kind
from ..sql.nodes import TRUE, UNKNOWN, Query
from .domain_views import checked_views
from .layout import Views, layout
from .observation import Observation, wanted_now, wanted_of
from .strata import Frame, in_parts
from .subject import Subject

FEW_VALUES = 1_000  # whole numbers that an engine counts by array


def observe(query: Query, subject: Subject, *, by_row: bool = False) -> Frame:
    """What the engine says to the question, laid out over the domains; `by_row`: parts as the rows have them."""
    views = checked_views(query, subject)
    if by_row:
        wanted, inside = wanted_of(query, subject, *subject.reader.source()), None
    else:
        wanted, inside = wanted_now(query, subject)
    seen = _counted_by_value(query, subject, wanted, views)
    if seen is None:
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


def _counted_by_value(query: Query, subject: Subject, wanted: Observation, views: Views) -> pa.Table | None:
    """What was to be counted by the truth of conditions on one column, counted by its values; None: it was not.

    Of the rows themselves, few whole numbers are counted faster than the truth of a condition is found row by row.
    """
    if len(wanted.bits) != 1 or wanted.raw or wanted.part is not None or wanted.keys:
        return None
    ((u, leaves),) = wanted.bits.items()
    columns = subject.coders[u].domain.columns
    if len(columns) != 1 or len(subject.domains[u]) > FEW_VALUES or len(wanted.leaves) > len(leaves):
        return None
    if subject.schema.types[columns[0]].kind is not Kind.INTEGER or not wanted.of_rows:
        return None
    by_value = wanted_of(query, subject, "release", None, by_value=True)
    found = subject.reader.run(by_value.statement, text=query.text)
    (name,) = by_value.raw[u]
    codes = subject.coders[u].encode([found[name]])
    for i in leaves:
        truth = views.views[u].leaves[i][codes]
        found = found.append_column(wanted.leaves[i], pa.array(truth == TRUE, mask=truth == UNKNOWN))
    return found.drop_columns([name])
