"""What only the custodian can check of a release: that it is a release of this table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..engines.contract import Engine
from ..errors import VerificationError
from ..model.public import Codes
from ..release.opened import OpenedRelease
from ..stats.joint_codes import joint_ranks
from ..stats.tails import FALSE_ALARM, chernoff
from .score import Truth, linked, read_truth
from .view import ReleaseView, look

ENOUGH = 50  # records that can be told apart


def check_truth(release: OpenedRelease, source: Any, *, engine: Engine | None = None) -> Iterator[str]:
    """Lines that say what holds; VerificationError at the first thing that does not."""
    view = look(release)
    truth = read_truth(view, source, engine=engine)
    fewer, left_out = truth.rows - view.rows, release.manifest.people.rows_left_out
    if fewer < left_out or (fewer > left_out and not release.law.suppressed):
        raise VerificationError(f"the release has {view.rows} rows, the table {truth.rows}")
    yield f"truth: {view.rows:,} of {truth.rows:,} rows"
    if (truth.sensitive < 0).any() and not fewer:
        raise VerificationError("the table holds sensitive values that the release does not list")
    yield "truth: every sensitive value of the table is in the published domain"
    if fewer == 0:
        _same_multiset(view, truth)
        if view.not_looked_at:
            yield f"truth: not looked at (bytes, NaN, dates beyond calendars): {', '.join(view.not_looked_at)}"
        yield f"truth: {len(view.untouched)} columns that are published as they are hold the table's cells, together"
        yield from _channel(view, truth)
    else:
        yield "truth: rows were left out, so that cells and noise are not compared"


def _same_multiset(view: ReleaseView, truth: Truth) -> None:
    if not view.untouched:
        return
    both = [np.concatenate([f.codes, truth.features[f.name]]) + 1 for f in view.untouched]
    joint, _ = joint_ranks(both, view.rows + truth.rows)
    if not np.array_equal(np.sort(joint[: view.rows]), np.sort(joint[view.rows :])):
        raise VerificationError("columns that are published as they are hold other cells than the table")


def _channel(view: ReleaseView, truth: Truth) -> Iterator[str]:
    """Records that can be told apart, against the chance that the release states for what they show."""
    if view.law.exact:
        yield from _parts(view, truth)
        return
    if view.law.silent:
        yield "truth: what a row shows does not depend on its record; nothing to compare"
        return
    rows, records = linked(view, truth)
    values = truth.sensitive[records]
    chance = view.law.chance(view.part[rows], view.shown[rows])
    if (chance[np.arange(len(rows)), values] <= 0).any():
        raise VerificationError("a record shows a value that its true value cannot lead to")
    if view.release.law.part is None and not view.release.law.plan_draws:
        _totals(view, truth.sensitive)
    if len(rows) < ENOUGH:
        yield "truth: too few records can be told apart to test the noise record by record"
        return
    # the chance that a record keeps its value, added up: the law at shown = true value
    keep = view.law.chance(view.part[rows], values)[np.arange(len(rows)), values]
    kept = int((view.shown[rows] == values).sum())
    if chernoff(kept, len(rows), float(keep.sum())) < FALSE_ALARM / 2:
        raise VerificationError("records keep their values more or less often than the stated noise lets them")
    yield (
        f"truth: {kept:,} of {len(rows):,} records that can be told apart show their own value, as the stated noise "
        f"lets them (false alarm: {FALSE_ALARM:g})"
    )


def _totals(view: ReleaseView, true: Codes) -> None:
    """Published totals against the mean of the stated channel on the true counts."""
    m, n = len(view.values), view.rows
    every = np.arange(m, dtype=np.int32)
    matrix = view.law.chance(np.zeros(m, dtype=np.int64), every).T  # [x, y]
    mean = np.bincount(true, minlength=m) @ matrix
    shown = np.bincount(view.shown, minlength=m)
    for y in range(m):
        if chernoff(int(shown[y]), n, float(mean[y])) < FALSE_ALARM / (4 * m):
            raise VerificationError("a published total is not one that the stated noise makes of the true ones")


def _parts(view: ReleaseView, truth: Truth) -> Iterator[str]:
    """Values that leave by group or as they are: their histogram is the table's."""
    counts = np.bincount(truth.sensitive, minlength=len(view.values))
    if not np.array_equal(np.rint(view.law.counts.sum(axis=0)).astype(np.int64), counts):
        raise VerificationError("the published values are not the table's")
    yield "truth: the published values are the table's, counted"
    rows, records = linked(view, truth)
    if view.release.law.withheld:
        held = view.law.counts[view.part[rows], truth.sensitive[records]] > 0
        if not held.all():
            raise VerificationError("a record sits in a group that does not hold its value")
        yield f"truth: {len(rows):,} records that can be told apart sit in groups that hold their values"
