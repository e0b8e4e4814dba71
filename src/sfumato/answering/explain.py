"""What a question asks of the values before rows are looked at: a text for `--explain`, numbers for a workload."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlglot
from sqlglot.errors import SqlglotError

from ..engines.contract import Reader
from ..engines.statements import DIALECT
from ..errors import SfumatoError, SpecError
from ..model.public import Domain, Floats, Listed
from ..release.opened import OpenedRelease
from ..sql.nodes import FALSE, TRUE, Query, Schema
from ..sql.parse import parse
from ..stats.ties import as_printed
from .covariance import LINEAR
from .functionals import coefficients, functionals
from .observe import Layout, Observation, layout, look_at_domains
from .subject import Subject, nothing_randomised

MOST = 4  # sets shown at each end


def explained(query: Query, wanted: Observation, place: Layout, opened: OpenedRelease) -> str:
    """What is observed, which weights, which variance formula."""
    manifest, domains = opened.manifest, opened.domains
    lines = [
        f"method: {manifest.method} ({manifest.guarantee.trust})",
        f"observe: {wanted.statement.sql(dialect=DIALECT)}",
    ]
    if not place.units:
        lines.append("no randomised column is touched: the answer is exact")
    for u, size in zip(place.units, place.shape, strict=True):
        names = ", ".join(domains[u].columns)
        lines.append(f"classes: {names} has {len(domains[u])} values, which the question sorts into {size}")
    plain = [leaf.sql for leaf in query.leaves if leaf.unit is None]
    if plain:
        lines.append("strata: rows that agree on " + "; ".join(plain))
    for aggregate in query.aggregates:
        above, below = functionals(aggregate)
        how = {
            "sum": f"sum of {len(above)} weighted count(s)",
            "ratio": f"ratio of weighted sums ({len(above)} over {len(below)}), delta method with covariance",
            "direct": "exact, by the engine",
        }.get(aggregate.kind, "")
        if not how:
            inverted = "certain bounds, or an interval from the values whose tests do not reject"
            how = inverted if place.units else "exact, by the engine"
        lines.append(f"{aggregate.name or aggregate.text}: {how}")
    lines += [f"{d.name}: computed from aggregates, delta method with their covariances" for d in query.derived]
    if place.units and opened.law.formula:
        lines.append(f"weights and variance: {opened.law.formula}")
    if query.having or query.order or query.limit is not None:
        lines.append("HAVING, ORDER BY and LIMIT apply to the estimates")
    return "\n".join([*lines, *shown_weights(query, place, opened)])


def shown_weights(query: Query, place: Layout, opened: OpenedRelease) -> list[str]:
    """Lines about every aggregate that touches a column of sets; none where there is no such column.

    Conditions on other columns are taken as met: they choose rows, not weights.
    """
    found = opened.law.weights()
    unit = next((u for u in place.units if opened.listed[u] is not None), None)
    if found is None or unit is None:
        return []
    listed = opened.listed[unit]
    assert listed is not None
    table: Floats = np.zeros((len(listed), len(opened.domains[unit])))
    table[found.set_id, found.value] = found.weight
    met = np.full((1, len(query.leaves)), TRUE, dtype=np.int8)
    lines = []
    for aggregate in query.aggregates:
        if aggregate.kind not in LINEAR:
            continue
        for side in (side for side in functionals(aggregate) if side):
            (matrix,), _ = coefficients(query, list(side), query.sets[0], place, met)
            told = [row for row in matrix.toarray() if np.ptp(row) > 0]
            if told:
                more = f", the first of {len(told)}" if len(told) > 1 else ""
                lines.append(f"weights of {aggregate.name or aggregate.text}{more}, by set:")
                lines += _by_set(table @ told[0], listed, opened, unit)
    return lines


def _by_set(weights: Floats, listed: Listed, opened: OpenedRelease, unit: int) -> list[str]:
    """The largest and the smallest weights, with the values of their sets; sets that print alike by number."""
    weights = as_printed(weights, 4)
    order = np.argsort(-weights, kind="stable")
    shown = order if len(order) <= 2 * MOST else np.concatenate([order[:MOST], order[-MOST:]])
    values, lines = opened.domains[unit].values, []
    for place, z in enumerate(shown.tolist()):
        if place == MOST and len(order) > 2 * MOST:
            lines.append(f"  ... {len(order) - 2 * MOST} more in sets.parquet")
        held = [values[v] for v in listed.members[listed.start[z] : listed.start[z + 1]].tolist()]
        text = ", ".join("/".join("NULL" if cell is None else str(cell) for cell in value) for value in held)
        lines.append(f"  {weights[z]:+.4f}  {listed.column} {z}: {text}")
    return lines


# --- declared ---------------------------------------------------------------------------------------------------------
# Questions that a publisher declares beforehand, as numbers for the values of the domain that will be changed.


def declared_questions(text: str, schema: Schema, domain: Domain, reader: Reader) -> Floats:
    """(questions, values): h of every linear question; a ratio counts as its numerator and its denominator.

    Conditions on other columns choose rows, not values, and are taken as met; where that leaves nothing to ask (an OR
    that another column decides), as not met. SpecError names what cannot be used.
    """
    subject = nothing_randomised(method="", schema=schema, domains=(domain,), reader=reader, rows=0)
    rows = [row for statement in _statements(text) for row in _coefficients(statement, subject)]
    told = [row for row in rows if np.ptp(row) > 0]  # the others are answered exactly by every release
    if not told:
        raise SpecError("the workload asks nothing about the sensitive column", field="workload")
    return np.array(told)


def _statements(text: str) -> list[str]:
    try:
        found = [part.sql(dialect=DIALECT) for part in sqlglot.parse(text, dialect=DIALECT) if part is not None]
    except SqlglotError:
        raise SpecError(
            "the workload cannot be read as SQL; give one SELECT for each question", field="workload"
        ) from None
    return found


def _coefficients(statement: str, subject: Subject) -> list[Floats]:
    try:
        query = parse(statement, subject.schema)
        views = look_at_domains(query, subject).views
    except SfumatoError as error:
        raise SpecError(f'"{statement}" cannot be declared: {error.args[0]}', field="workload") from None
    odd = next((a for a in query.aggregates if a.kind not in LINEAR), None)
    if odd is not None:
        raise SpecError(f'"{statement}" cannot be declared: {odd.text} is not a sum over rows', field="workload")
    if not query.units():
        return []
    place = layout(query.units(), views, lumpable=False)
    for leaf in (TRUE, FALSE):
        met = np.full((1, len(query.leaves)), leaf, dtype=np.int8)
        rows = [row for keys in query.sets for row in _rows(query, keys, place, met)]
        if any(np.ptp(row) > 0 for row in rows):
            break
    return rows


def _rows(query: Query, keys: tuple[int, ...], place: Any, met: Any) -> list[Floats]:
    wanted = [f for aggregate in query.aggregates for side in functionals(aggregate) for f in side]
    (matrix,), _ = coefficients(query, wanted, keys, place, met)
    return list(matrix.toarray())
