"""Bias, coverage and the channel of every registered method, each test with mutants that it must reject.

Small tables, many releases: the plan and `apply` run on arrays, no file is written. False-alarm probability: ALPHA for
each method and each test, shared among its cells; with ten methods and three tests below 3e-8 in all.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import norm, t

from constants import ALPHA
from contract.examples import COUNTS
from contract.test_contract import METHODS, planned, released, worst_cell
from sfumato.laws.keep_or_redraw import SubTables

RELEASES = 40


@cache
def tables(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """(published by true codes, the declared channel), over independent releases; None without a channel by row."""
    table: np.ndarray = np.zeros((0, 0), dtype=np.int64)
    channel: np.ndarray = np.zeros((0, 0))
    for r in range(RELEASES):
        _, profile, plan, _ = planned(name, 7_000 + r)
        declared = plan.law.channel(plan.work, profile)
        if declared is None:
            return None
        if not channel.size:  # (values, what is shown: values or sets of them)
            table, channel = np.zeros(declared.shape, dtype=np.int64), np.zeros(declared.shape)
        channel += declared / RELEASES
        for truth, out in zip(*released(name, 7_000 + r), strict=True):
            np.add.at(table, (truth, out.codes[0]), 1)
    return table, channel


def accepted(table: np.ndarray, channel: np.ndarray) -> bool:
    return worst_cell(table, channel) > ALPHA / channel.size


def by_row(name: str) -> tuple[np.ndarray, np.ndarray]:
    found = tables(name)
    if found is None:
        pytest.skip("values are not published row by row")
    return found


@pytest.mark.parametrize("name", METHODS)
def test_mutants_of_the_channel_are_rejected(name: str) -> None:
    """The declared channel fits; less or more noise, an untouched last value, a wrong q and a shifted one do not."""
    table, channel = by_row(name)
    assert accepted(table, channel)
    if channel.shape[0] != channel.shape[1]:
        _sets_are_rejected(table, channel)
        return
    eye = np.eye(len(channel))
    for factor in (0.7, 1.3):
        kept = np.minimum(np.diag(channel) * factor, 0.999)
        off = channel * (1 - eye)
        assert not accepted(table, off * ((1 - kept) / off.sum(axis=1))[:, None] + np.diag(kept))
    untouched = channel.copy()
    untouched[-1] = eye[-1]
    assert not accepted(table, untouched)
    wrong_q = channel * (1 - eye)
    wrong_q[:, 0] = 0.0  # one value is never drawn
    assert not accepted(table, wrong_q / wrong_q.sum(axis=1, keepdims=True) * (1 - np.diag(channel))[:, None]
                        + np.diag(np.diag(channel)))  # fmt: skip
    assert not accepted(np.roll(table, 1, axis=1), channel)


def _sets_are_rejected(table: np.ndarray, channel: np.ndarray) -> None:
    """The same where sets are shown: less or more noise, an untouched last value, a set never drawn, shifted ones."""
    inside = channel > channel.mean(axis=1, keepdims=True)
    both = lambda x: np.stack([(x * inside).sum(axis=1), (x * ~inside).sum(axis=1)], axis=1)  # noqa: E731
    assert accepted(both(table), both(channel))  # sets that hold the value, and others
    for factor in (0.7, 1.3):
        kept = np.where(inside, channel * factor, channel)
        assert not accepted(both(table), both(kept / kept.sum(axis=1, keepdims=True)))
    untouched = channel.copy()
    untouched[-1] = inside[-1] / inside[-1].sum()
    assert not accepted(table, untouched)
    never = channel.copy()
    never[:, 0] = 0.0
    assert not accepted(table, never / never.sum(axis=1, keepdims=True))
    assert not accepted(np.roll(table, 1, axis=1), channel)


@pytest.mark.parametrize("name", METHODS)
def test_totals_are_unbiased(name: str) -> None:
    """Published totals, averaged over releases, are those of the declared channel; totals 15 % off are rejected."""
    table, channel = by_row(name)
    n = RELEASES * COUNTS
    mean = n @ channel
    sd = np.sqrt(n @ (channel * (1 - channel)))
    z = norm.isf(ALPHA / (2 * channel.shape[1]))
    shown = table.sum(axis=0)
    assert (np.abs(shown - mean) <= z * np.maximum(sd, 1e-9) + 1e-6).all()
    assert (np.abs(1.15 * shown - mean) > z * np.maximum(sd, 1e-9)).any()


@pytest.mark.parametrize("name", ["uniform", "small-domain"])
def test_a_wrong_sub_table_is_rejected(name: str) -> None:
    """Estimates by the sub-tables' own channels cover the truth; read as one table, or one place off, they do not."""
    right, wrong = [], []
    for r in range(RELEASES):
        _, _, plan, _ = planned(name, 8_000 + r)
        channels: SubTables = plan.law.tables
        truth, out = released(name, 8_000 + r)
        part = out[0].extra.get("sub_table", np.zeros(len(truth[0]), dtype=np.int64))
        seen = np.zeros((len(channels), len(COUNTS)))
        np.add.at(seen, (part, out[0].codes[0]), 1)
        right.append(_estimate(channels, seen, right=True))
        wrong.append(_estimate(channels, seen, right=False))
    limit = t.isf(ALPHA / (2 * len(COUNTS)), RELEASES - 1)

    def far(estimates: list[np.ndarray]) -> np.ndarray:
        found = np.array(estimates)
        error = np.maximum(found.std(axis=0, ddof=1), 1e-9) / np.sqrt(RELEASES)
        return np.abs(found.mean(axis=0) - COUNTS) / error

    assert (far(right) < limit).all()
    assert (far(wrong) > limit).any()


def _estimate(channels: SubTables, seen: np.ndarray, *, right: bool) -> np.ndarray:
    """Totals by (o - q n) / p inside every sub-table; wrong: values one place off, or sub-tables read as one."""
    total = np.zeros(seen.shape[1])
    every = np.arange(seen.shape[1])
    for i in range(len(channels)):
        values, p, q = channels.domain(i), channels.p[i], channels.q[i]
        if not right and len(channels) > 1:  # as if the sub-table held all values, with the same gamma
            gamma = (p + q) / q
            values, q = every, 1 / (len(every) - 1 + gamma)
            p = (gamma - 1) * q
        place = values if right or len(channels) > 1 else np.roll(values, 1)
        total[place] += (seen[i, values] - q * seen[i].sum()) / p
    return total
