"""Whether a target-distribution release can be what it says: exact blocks, groups of the columns it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...errors import PlanError, ReleaseError, SpecError, VerificationError
from ...model.public import Published
from ...stats.joint_codes import distinct_cells
from ..shared.published_checks import one_unit, stated_sizes
from . import target_parsing as parsing
from .block_columns import HIGH, LOW, WORDS
from .targets import leaf_probabilities

if TYPE_CHECKING:
    from .blockwise import OpenBlocks
    from .method import TargetDistributionPlan


def check_release(plan: TargetDistributionPlan, published: Published, release: OpenBlocks) -> None:
    """The published blocks are exactly P-private; groups have the rows they state and are made as they say."""
    one_unit(published)
    _check_side(published)
    for part in plan.parts:
        weights = np.array(part.weights, dtype=np.int64)
        if leaf_probabilities(release.bounder.blocks.tree, weights) != part.probabilities:
            raise VerificationError("the stated target is not the one that its weights give")
    try:
        release.check(
            [np.array(part.weights, dtype=np.int64) for part in plan.parts], np.array(plan.group_part, dtype=np.int64)
        )
    except (PlanError, ReleaseError) as error:
        raise VerificationError(f"the published groups do not keep the guarantee: {error}") from None
    stated_sizes(published, plan.group_rows, "group")
    _check_groups(plan, published)


def _check_side(published: Published) -> None:
    """sensitive.parquet says beside each block the same words or ends everywhere."""
    side = published.evidence.side
    for name in {LOW, HIGH, WORDS} & set(side):
        pairs = set(zip(side["block"].tolist(), side[name].tolist(), strict=True))
        if len(pairs) > len(np.unique(side["block"])):
            raise VerificationError(f'"{name}" of sensitive.parquet says different things of one block')


def _check_groups(plan: TargetDistributionPlan, published: Published) -> None:
    """Rows that agree on the columns that groups are made of are in one group."""
    try:
        columns = tuple(
            dict.fromkeys(parsing.parse_rule(rule).column for rule in (*plan.target_by, *plan.partition_by))
        )
    except SpecError as error:
        raise VerificationError(f"release.json makes groups by no rule: {error}") from None
    known = {column.name for column in published.columns if column.role in {"quasi", "insensitive"}}
    if not set(columns) <= known:
        raise VerificationError("release.json makes groups of a column that is not published")
    if not columns:
        if len(plan.group_rows) > 1:
            raise VerificationError("release.json names no column that groups are made of, and several groups")
        return
    codes, _ = published.counted((*columns, "group_id"))
    cells, _ = distinct_cells(codes[:, :-1])
    if len(cells) < len(codes):
        raise VerificationError("rows that agree on the columns that groups are made of are in different groups")
