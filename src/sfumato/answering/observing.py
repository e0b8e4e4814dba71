"""A question put to the engine: what it needs to see, seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Thread

import pyarrow as pa
from sqlglot import exp

from ..engines.codes import narrow_part_numbers
from ..engines.statements import double, grouped, parsed, rows_of
from ..model.part_cells import PartCells, PartCounts, part_counts
from ..sql.nodes import TRUE, UNKNOWN, Query
from .domain_views import checked_views
from .layout import Views, layout
from .observation import Observation, wanted_now, wanted_of
from .strata import Frame, in_parts
from .subject import Subject

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
FEW_VALUES = 10_000  # combinations of whole numbers, which an engine counts by array


def observe(query: Query, subject: Subject, *, by_row: bool = False) -> Frame:
    """What the engine says to the question, laid out over the domains; `by_row`: parts as the rows have them."""
    views = checked_views(query, subject)
    inside: PartCells | PartCounts | None
    if by_row:
        wanted, inside = wanted_of(query, subject, *subject.reader.source()), None
    else:
        wanted, inside = wanted_now(query, subject)
    with beside(subject.prepare if query.units() else None):
        seen = _counted_by_value(query, subject, wanted, views)
        if seen is None and not by_row and (counted := _counted_by_part(query, subject, wanted)):
            wanted, seen, inside = counted
        elif seen is None:
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


@contextmanager
def beside(work: Callable[[], None] | None) -> Iterator[None]:
    """While rows are counted, what is needed beside them is worked out; what fails there fails again, later."""
    if work is None:
        yield
        return
    thread = Thread(target=_quietly, args=(work,))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _quietly(work: Callable[[], None]) -> None:
    with suppress(Exception):
        work()


def _counted_by_part(
    query: Query, subject: Subject, wanted: Observation
) -> tuple[Observation, pa.Table, PartCounts] | None:
    """Rows that a question counts and tells apart by nothing but their part, as one cell; None: it does not.

    They come in pieces and leave a byte for each part: fresh memory costs more than what is done in it.
    """
    if not (subject.handfuls and wanted.of_rows and wanted.by_row and wanted.part) or query.derived:
        return None
    if wanted.keys or wanted.leaves or len(wanted.moments) > 1:
        return None
    name, pieces = wanted.part, subject.reader.pieces(wanted.statement, text=query.text)
    rows, inside = part_counts(narrow_part_numbers(piece[name], subject.rows) for piece in pieces)
    if inside is None:
        return None
    seen = pa.table({"cell": [0], "m0": [float(rows)]}).slice(0, min(rows, 1))
    return replace(wanted, part=None, cell="cell"), seen, inside


def _counted_by_value(query: Query, subject: Subject, wanted: Observation, views: Views) -> pa.Table | None:
    """What was to be counted by the truth of conditions on changed columns, counted by their values; None: it was not.

    Of the rows themselves, few whole numbers are counted faster than the truth of a condition is found row by row.
    """
    if not wanted.of_rows or not wanted.bits or wanted.raw or wanted.keys or wanted.part is not None:
        return None
    if len(wanted.leaves) > sum(map(len, wanted.bits.values())) or not all(map(subject.whole_numbers, wanted.bits)):
        return None
    if math.prod(len(subject.domains[u]) for u in wanted.bits) > FEW_VALUES:
        return None
    whole = _counted_by_comparison(query, subject, wanted, views)
    if whole is not None:
        return whole
    by_value = wanted_of(query, subject, "release", None, by_value=True)
    found = subject.reader.run(by_value.statement, text=query.text)
    for u, (name,) in by_value.raw.items():
        codes = subject.coders[u].encode([found[name]])
        for i in wanted.bits[u]:
            truth = views.views[u].leaves[i][codes]
            found = found.append_column(wanted.leaves[i], pa.array(truth == TRUE, mask=truth == UNKNOWN))
        found = found.drop_columns([name])
    return found


def _counted_by_comparison(query: Query, subject: Subject, wanted: Observation, views: Views) -> pa.Table | None:
    """The rows that meet one comparison, and those that do not; None where the question asks for more.

    One comparison is counted faster than rows are told apart by anything.
    """
    if len(wanted.leaves) != 1 or len(wanted.bits) != 1 or len(wanted.moments) > 1:
        return None
    ((i, name),), (unit,) = wanted.leaves.items(), wanted.bits
    condition = parsed(query.leaves[i].sql)
    if not isinstance(condition, COMPARISONS) or (views.views[unit].leaves[i] == UNKNOWN).any():
        return None
    if not isinstance(condition.this, exp.Column) or not isinstance(condition.expression, exp.Literal):
        return None
    sums = [(double(exp.CountIf(this=condition.copy())), "v"), (double(rows_of(None)), "m0")]
    found = subject.reader.run(grouped([], sums, table="release", where=query.pushed), text=query.text)
    met, rows = (float(found[column][0].as_py() or 0) for column in ("v", "m0"))  # of no rows DuckDB counts NULL
    counts = {truth: count for truth, count in ((True, met), (False, rows - met)) if count}
    return pa.table({name: pa.array(counts, pa.bool_()), "m0": pa.array(counts.values(), pa.float64())})
