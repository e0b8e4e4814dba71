"""Intervals of rare values from published sets: how often they hold the true count, over releases of one small cell.

A cell of 300 rows is drawn 3,000 times and every draw is answered as a stratum of its own. The limits on the number of
hits are binomial tails of ALPHA at a coverage of 0.935 and 0.99: false alarm below 1e-7 in all, if intervals of level
95 % hold the truth with a chance between those.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import binom

from constants import ALPHA, SEED
from sfumato.laws.set_channel import SetTables
from sfumato.laws.set_lists import estimate
from sfumato.methods.shared.set_lists import list_for
from sfumato.model.public import Asked, Domain, Estimated, Evidence, Observed

RELEASES, ROWS, VALUES = 3_000, 300, 50
COUNTED = (0, 1, 3, 12, 60)  # rows of the first values; the others share the rest
LEAST, MOST = 0.935, 0.99
GAMMA = Fraction(12, 5)


def truth() -> np.ndarray:
    codes = np.repeat(np.arange(len(COUNTED)), COUNTED)
    rest = len(COUNTED) + np.arange(ROWS - len(codes)) % (VALUES - len(COUNTED))
    return np.concatenate([codes, rest]).astype(np.int32)


def tables(parts: int, gamma: Fraction = GAMMA) -> SetTables:
    """One list over all values; or two, over the even and the odd ones."""
    values = [np.arange(i, VALUES, parts, dtype=np.int32) for i in range(parts)]
    channel = list_for(VALUES // parts, gamma).channel(gamma)
    return SetTables(values, [channel] * parts)


def answered(drawn: SetTables, read: SetTables) -> tuple[Estimated, np.ndarray]:
    """(estimates of all releases, true counts): drawn by one channel, read by another."""
    codes = np.tile(truth(), RELEASES)
    part = codes % len(drawn)
    shown = drawn.draw(codes, part.astype(np.int64), np.random.default_rng(SEED)).astype(np.int64)
    release = np.repeat(np.arange(RELEASES), ROWS)
    sets, at = int(drawn.start[-1]), release * int(drawn.start[-1])
    cells, count = np.unique(at + shown, return_counts=True)
    observed = Observed(
        stratum=cells // sets,
        part=drawn.part_of(cells % sets).astype(np.int64),
        value=cells % sets,
        moments=count[:, None].astype(float),
        key=np.arange(RELEASES),
        pattern=np.zeros(RELEASES, dtype=np.intp),
        keys=RELEASES,
    )
    h = np.eye(len(COUNTED) + 1, VALUES)
    h[-1] = 0.0
    h[-1, [1, 2, 3, 7]] = 1.0  # one question about four values
    asked = Asked(
        units=(0,),
        classes=(np.arange(VALUES, dtype=np.int32),),
        coefficients=(csr_array(h),),
        measure=np.zeros(len(h), dtype=np.intp),
        products=np.zeros((1, 1), dtype=np.intp),
        pairs=np.zeros((0, 2), dtype=np.intp),
        binary=True,
        z=1.959963984540054,
    )
    # of the whole release the cell is one hundredth
    whole = np.bincount(shown, minlength=sets)
    evidence = Evidence(
        rows=len(shown),
        domains=(Domain(columns=("v",), values=tuple((v,) for v in range(VALUES))),),
        totals=lambda _: (drawn.part_of(np.arange(sets)).astype(np.int64), np.arange(sets)[:, None], whole),
        side={},
    )
    return estimate(read, evidence, observed, asked), h @ np.bincount(truth(), minlength=VALUES)


def accepted(found: Estimated, true: np.ndarray) -> np.ndarray:
    hits = ((found.low <= true) & (true <= found.high)).sum(axis=0)
    low, high = binom.cdf(hits, RELEASES, LEAST) > ALPHA, binom.sf(hits - 1, RELEASES, MOST) > ALPHA
    return low & high


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
def test_intervals_of_rare_values_hold_the_truth_as_often_as_they_say(parts: int) -> None:
    found, true = answered(tables(parts), tables(parts))
    assert accepted(found, true).all(), ((found.low <= true) & (true <= found.high)).mean(axis=0)
    spread = found.value.std(axis=0) / np.sqrt(RELEASES)
    assert (np.abs(found.value.mean(axis=0) - true) < 6 * spread).all()
    for factor in (0.7, 1.8):  # ends too near, ends too far; most have one end at 0, which cannot move
        middle = np.clip(found.value, 0, ROWS)
        wrong = replace(found, low=middle + factor * (found.low - middle), high=middle + factor * (found.high - middle))
        assert not accepted(wrong, true).all()
    assert not accepted(*answered(tables(parts), tables(parts, Fraction(3)))).all()  # read by another channel
