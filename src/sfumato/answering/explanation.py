"""`--explain`: how a question will be answered, without looking at the release's rows."""

from __future__ import annotations

from collections.abc import Sequence

from ..engines.statements import DIALECT
from ..methods import AnyMethod
from ..model.public import Domain
from ..sql.nodes import Query
from .layout import Layout, functionals
from .observation import Observation


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
