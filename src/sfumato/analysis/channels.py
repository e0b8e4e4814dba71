"""The functionals of each method that has them, from what its release states; the channel for smoothed tables.

An entry here is what makes a method answer models, tests and quantiles; the others are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedQuery
from ..methods.anatomy.functionals import GroupedValues, GroupFunctionals
from ..methods.shared.linear_functionals import (
    Cells,
    Functionals,
    IndependentRows,
    KroneckerWeights,
    PartWeights,
    keep_or_redraw,
)
from ..methods.splu.functionals import DecoyFunctionals
from ..model.public import Codes, Floats

MOST_DECOY_VALUES = 2_000  # the channel is worked out in full

Make = Callable[[Any, tuple[int, ...], Sequence[Codes], Cells], Functionals]


def exact_rows(cells: Cells) -> Functionals:
    """Nothing randomised is read: the published rows are the true ones."""
    return IndependentRows(cells, KroneckerWeights(axes=(), shape=()))


def caveats_of(release: Any) -> tuple[str, ...]:
    """What a reader of any analysis of this release must know."""
    if release.manifest.method == "anatomy" and release.plan.suppressed:
        return ("records of frequent values were left out: results speak of the published rows",)
    return ()


def _uniform(release: Any, _: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    tables = release.plan.tables
    B = keep_or_redraw(float(tables.p[0]), float(tables.q[0]), np.bincount(classes[0]))
    return IndependentRows(cells, KroneckerWeights(axes=(B,), shape=(len(B),)))


def _small_domain(release: Any, _: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    tables, V = release.plan.tables, int(classes[0].max()) + 1
    blocks = []
    for i in range(len(tables)):
        held, sizes = np.unique(classes[0][tables.domain(i)], return_counts=True)
        blocks.append((held.astype(np.intp), keep_or_redraw(float(tables.p[i]), float(tables.q[i]), sizes)))
    weights = PartWeights(blocks=tuple(blocks), values=V)
    return IndependentRows(cells, weights, weights.state[cells.part, cells.value])


def _randomised_response(release: Any, units: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    axes: list[Floats | None] = []
    for u, class_of in zip(units, classes, strict=True):
        theta = release.plan.thetas[u]
        q = (1 - theta) / len(class_of)
        axes.append(None if theta == 1.0 else keep_or_redraw(theta, q, np.bincount(class_of)))
    shape = tuple(int(c.max()) + 1 for c in classes)
    return IndependentRows(cells, KroneckerWeights(axes=tuple(axes), shape=shape))


def _splu(release: Any, units: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    if len(units) > 1:
        raise UnsupportedQuery("models over several decoy columns at once are not answered", hint="Use one of them.")
    if len(classes[0]) > MOST_DECOY_VALUES:
        raise UnsupportedQuery(f"the column has {len(classes[0])} values; models read up to {MOST_DECOY_VALUES}")
    (channel,) = release.mechanism.channels_of(release.plan, release.evidence, units)
    if not channel.identifiable.all():
        raise UnsupportedQuery("not identifiable: some values are in so many groups that nothing tells who has them")
    one = np.eye(len(channel.active))
    return DecoyFunctionals(
        cells,
        channel=channel.matrix.forward(one),
        inverse=channel.matrix.weights(one),
        published=channel.published,
        total_counts=channel.counts,
        values=len(classes[0]),
        active=channel.active,
    )


def _anatomy(release: Any, _: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    memo = release.evidence.memo
    if "grouped values" not in memo:
        from ..stats.anatomised import groups_of

        side = release.evidence.side
        groups = groups_of(side["group_id"], side["unit0"], len(classes[0]))
        memo["grouped values"] = GroupedValues(groups.members, groups.sizes, groups.values)
    if not memo["grouped values"].identified:
        raise UnsupportedQuery("not identifiable: the groups of this release do not tell some of the values apart")
    return GroupFunctionals(cells, memo["grouped values"])


METHODS: Mapping[str, Make] = {
    "uniform": _uniform,
    "small-domain": _small_domain,
    "randomized-response": _randomised_response,
    "splu": _splu,
    "anatomy": _anatomy,
}
INDEPENDENT = ("uniform", "randomized-response")  # noise that does not depend on any other column
