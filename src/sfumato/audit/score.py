"""The score of every attack: the one place of the audit that sees the truth.

Targets are records that can be told apart by what is published as it is, so that the scorer, and nobody else, knows
which row is whose. Each attack gets the background knowledge that it states, and its guesses are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
from scipy.stats import beta

from ..engines import engine_named
from ..engines.contract import Engine
from ..engines.source import as_published
from ..errors import DataError, VerificationError
from ..laws.blocks import Blocks
from ..model.private import Needs
from ..model.public import Codes, Floats, Integers
from ..release.opened import OpenedRelease
from ..stats.joint_codes import joint_ranks
from ..stats.tails import FALSE_ALARM, chernoff
from .attacks import ATTACKS, Attack, Background
from .view import ReleaseView, look

TARGETS, LEVEL, PERSON_ROWS = 1000, 0.99, 3


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Truth:
    """The original table in codes: of the sensitive unit, and of every published column as the view codes it."""

    sensitive: Codes  # -1: a value that the release does not list
    features: dict[str, Integers]  # true codes; -1 where the release has no such value

    @property
    def rows(self) -> int:
        return len(self.sensitive)


def read_truth(view: ReleaseView, source: Any, *, engine: Engine | None = None) -> Truth:
    """The table's rows, in an order of no meaning, coded as the release codes its own."""
    source = as_published(source, view.release.manifest.recodings())
    table = (engine or engine_named()).open(source)
    wanted = [*view.columns, *(f.name for f in view.features)]
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise DataError(f'the table has no column "{missing[0]}", which the release publishes', column=missing[0])
    units = tuple((name,) for name in wanted)
    needs = Needs(units=units, joints=(tuple(range(len(units))),), changed=(False,) * len(units))
    profile = table.profile(needs, {}, null_as_value=True)
    histogram = profile.histograms[0]
    cells = np.repeat(histogram.codes.astype(np.int64), histogram.true_counts, axis=0)
    cells = cells[np.random.default_rng(0).permutation(len(cells))]
    values = [[value[0] for value in domain.values] for domain in profile.domains]
    n = len(view.columns)
    place = {value: code for code, value in enumerate(view.values)}
    own = cells[:, :n]
    distinct, inverse = np.unique(own, axis=0, return_inverse=True)
    codes = np.array([place.get(tuple(values[j][k] for j, k in enumerate(row)), -1) for row in distinct])
    features = {}
    for j, feature in enumerate(view.features, start=n):
        known = {value: code for code, value in enumerate(feature.values)}
        lookup = np.array([known.get(value, -1) for value in values[j]], dtype=np.int64)
        features[feature.name] = lookup[cells[:, j]]
    return Truth(sensitive=codes[inverse.reshape(-1)].astype(np.int32), features=features)


def linked(view: ReleaseView, truth: Truth) -> tuple[Integers, Integers]:
    """(rows of the release, records of the table) that agree on all untouched columns, each pair with nobody else."""
    columns = view.untouched
    if not columns:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    both = [np.concatenate([f.codes, truth.features[f.name]]) + 1 for f in columns]
    joint, _ = joint_ranks(both, view.rows + truth.rows)
    _, number, times = np.unique(joint, return_inverse=True, return_counts=True)
    number = number.reshape(-1)
    here = np.bincount(number[: view.rows], minlength=len(times))
    there = np.bincount(number[view.rows :], minlength=len(times))
    good = (here == 1) & (there == 1)
    row, record = np.full(len(times), -1), np.full(len(times), -1)
    row[number[: view.rows]] = np.arange(view.rows)
    record[number[view.rows :]] = np.arange(truth.rows)
    return row[good], record[good]


def knowledge(
    view: ReleaseView, truth: Truth, second: ReleaseView | None, targets: int, rng: np.random.Generator
) -> tuple[Background, Codes]:
    """(what readers may be told about the targets, the targets' true values)."""
    rows, records = linked(view, truth)
    usable = truth.sensitive[records] >= 0
    rows, records = rows[usable], records[usable]
    if len(rows) < 50:
        raise DataError(
            f"only {len(rows)} records can be told apart by the columns that are published as they are; the audit "
            "needs 50: publish a copy with a row number (--keep)"
        )
    second_row = np.full(truth.rows, -1)
    if second is not None:
        theirs, of = linked(second, truth)
        second_row[of] = theirs
        inside = second_row[records] >= 0
        rows, records = rows[inside], records[inside]
    others = np.full(view.rows, -1, dtype=np.int32)
    others[rows] = truth.sensitive[records]
    chosen = rng.choice(len(rows), min(targets, len(rows)), replace=False)
    persons = _persons(rows, truth.sensitive[records], chosen, rng)
    cells = [truth.features[f.name][records[chosen]] for f in view.quasi]
    known = Background(
        rows=rows[chosen],
        cells=np.stack(cells, axis=1) if cells else np.zeros((len(chosen), 0), dtype=np.int64),
        persons=persons,
        others=others,
        second=second,
        second_rows=None if second is None else second_row[records[chosen]],
    )
    return known, truth.sensitive[records[chosen]]


def _persons(rows: Integers, values: Codes, chosen: Integers, rng: np.random.Generator) -> Integers:
    """For each target its row and others of the same true value, as if they were one person's."""
    persons = np.empty((len(chosen), PERSON_ROWS), dtype=np.int64)
    for t, k in enumerate(chosen):
        same = rows[values == values[k]]
        persons[t] = [rows[k], *rng.choice(same, PERSON_ROWS - 1, replace=True)]
    return persons


def interval(hits: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """The Clopper-Pearson interval."""
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, trials - hits + 1))
    high = 1.0 if hits == trials else float(beta.ppf(1 - tail, hits + 1, trials - hits))
    return low, high


def score(attack: Attack, view: ReleaseView, known: Background, true: Codes, blind: float) -> dict[str, Any]:
    """One line of the report, or why there is none."""
    guesses = attack.run(view, known)
    if isinstance(guesses, str):
        return {"attack": attack.name, "why": guesses}
    hits, trials = int((guesses == true).sum()), len(true)
    low, high = interval(hits, trials)
    bound = promised(view, attack, blind)
    return {
        "attack": attack.name,
        "reader": attack.reader,
        "knows": attack.knows,
        "success": hits / trials,
        "low": low,
        "high": high,
        "blind": blind,
        "bound": bound,
        "breaks": bound is not None and low > bound,
    }


def audit(
    release: OpenedRelease,
    source: Any,
    *,
    second: OpenedRelease | None = None,
    targets: int = TARGETS,
    seed: int = 1,
    engine: Engine | None = None,
) -> dict[str, Any]:
    """The document of `sfumato audit --json`: every attack with its success beside the blind guess and the promise."""
    view = look(release)
    truth = read_truth(view, source, engine=engine)
    rng = np.random.default_rng(seed)
    known, true = knowledge(view, truth, None if second is None else look(second), targets, rng)
    share: Floats = np.bincount(truth.sensitive[truth.sensitive >= 0], minlength=len(view.values)) / truth.rows
    lines = [score(attack, view, known, true, float(share.max())) for attack in ATTACKS]
    return {
        "method": release.manifest.method,
        "rows": view.rows,
        "targets": len(true),
        "linkable": int((known.others >= 0).sum()),
        "level": LEVEL,
        "not_looked_at": list(view.not_looked_at),
        "attacks": [line for line in lines if "why" not in line],
        "left_out": [line for line in lines if "why" in line],
    }


# The bound that a release promises to a reader, read from its guarantee; None where it promises her nothing.


def promised(view: ReleaseView, attack: Attack, most: float) -> float | None:
    """The largest chance of a right guess that the guarantee leaves this reader; `most` is the largest true share."""
    law = view.release.law
    alone = law.part is None and not law.plan_draws and not view.true_shown  # every record by itself
    survives = attack.reader == "corruption" and alone
    linking = attack.reader == "linking" and view.true_shown  # classes: the promise is about her
    if not (attack.covered or survives or linking):
        return None
    return _bound(view, view.release.manifest.guarantee.parameters, most)


def _bound(view: ReleaseView, stated: dict[str, Any], most: float) -> float | None:
    if "rho2" in stated:  # about values with a share of at most rho1
        return float(Fraction(stated["rho2"])) if most <= Fraction(stated["rho1"]) else None
    if "epsilon" in stated and isinstance(stated["epsilon"], dict):
        losses = [loss for name, loss in stated["epsilon"].items() if name in view.columns]
        if len(losses) != len(view.columns) or "infinite" in losses:
            return None
        lifted = most * exp(sum(losses))
        return lifted / (lifted + 1 - most)
    if "posterior" in stated:
        return float(Fraction(stated["posterior"]))
    if stated.get("kind") == "frequency":
        return float(1 / Fraction(stated["l"]))
    law = view.release.law
    if isinstance(law, Blocks):  # the share that the target gives its most frequent value
        return max(float(p) for part in law.parts for p in part.probabilities)
    return None


# --- what only the custodian can check of a release: that it is a release of this table


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
