"""`--explain`: how a question will be answered, without looking at the release's rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engines.statements import DIALECT
from ..methods import AnyMethod
from ..model.public import Domain, Floats, Listed
from ..release.opened import OpenedRelease
from ..sql.nodes import TRUE, Query
from .functionals import Layout, coefficients, functionals
from .observe import Observation

MOST = 4  # sets shown at each end


def explanation(query: Query, wanted: Observation, place: Layout, domains: Sequence[Domain], method: AnyMethod) -> str:
    """What is observed, which weights, which variance formula."""
    lines = [f"method: {method.name} ({method.trust})", f"observe: {wanted.statement.sql(dialect=DIALECT)}"]
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
    if place.units and method.formula:
        lines.append(f"weights and variance: {method.formula}")
    if query.having or query.order or query.limit is not None:
        lines.append("HAVING, ORDER BY and LIMIT apply to the estimates")
    return "\n".join(lines)


def explained(query: Query, wanted: Observation, place: Layout, opened: OpenedRelease) -> str:
    """What is observed, and the weights below it."""
    said = explanation(query, wanted, place, opened.domains, opened.method)
    return "\n".join([said, *shown_weights(query, place, opened)])


def shown_weights(query: Query, place: Layout, opened: OpenedRelease) -> list[str]:
    """Lines about every aggregate that touches a column of sets; none where there is no such column.

    Conditions on other columns are taken as met: they choose rows, not weights.
    """
    found = opened.method.weights(opened.plan, opened.domains)
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
        if aggregate.kind not in {"sum", "ratio"}:
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
    """The largest and the smallest weights, with the values of their sets."""
    order = np.argsort(-weights, kind="stable")
    shown = order if len(order) <= 2 * MOST else np.concatenate([order[:MOST], order[-MOST:]])
    values, lines = opened.domains[unit].values, []
    for place, z in enumerate(shown.tolist()):
        if place == MOST and len(order) > 2 * MOST:
            lines.append(f"  ... {len(order) - 2 * MOST} more in weights.parquet")
        held = [values[v] for v in listed.members[listed.start[z] : listed.start[z + 1]].tolist()]
        text = ", ".join("/".join("NULL" if cell is None else str(cell) for cell in value) for value in held)
        lines.append(f"  {weights[z]:+.4f}  {listed.column} {z}: {text}")
    return lines
