"""Set channels beside what is published: one value, unary encoding, hierarchies, and the optimiser of McKenna et al.

"A workload-adaptive mechanism for linear queries under local differential privacy" (PVLDB 2020) and its public code.
Amplification gamma is e^epsilon. docs/explanation/set-channels.md has the theorems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import numpy as np

from papers.findings import Finding, trend
from sfumato.laws.set_channel import SetAnswers, set_answers
from sfumato.methods.shared import workloads
from sfumato.methods.shared.set_lists import (
    best_list,
    best_width,
    least_histogram,
    least_variance,
    loss,
    total_variance,
)
from sfumato.methods.shared.workloads import GAP, Design, optimise
from sfumato.model.public import Floats

TITLE = "Set channels and the least possible error"
SIZES, GAMMAS = (2, 8, 13, 15, 50, 100, 512), (Fraction(12, 5), Fraction(4), Fraction(12), Fraction(47))
EPSILON_ONE = Fraction(2718, 1000)  # e, rounded down
PUBLISHED_SIZE, PUBLISHED_WORST, PUBLISHED_HIERARCHY = 128, 1910.9, 5665.6  # prefixes, epsilon 1
BRANCHINGS = (2, 3, 4, 5, 6, 8, 12, 16)  # of trees
CERTAIN = 1e-3  # distance from the optimum that is asked for where all sets can be tried
QUESTIONS: dict[str, Callable[[int], Floats]] = {
    "ranges": workloads.ranges,
    "prefixes": workloads.prefixes,
    "sum": lambda size: workloads.weighted_sum(np.arange(size, dtype=float)),
}


@cache
def designed(name: str, size: int, gamma: Fraction, gap: float = GAP) -> Design:
    """The channel made for the questions of that name; searched once."""
    return optimise(QUESTIONS[name](size), gamma, gap=gap)


def findings() -> Iterator[Finding]:
    """Counts first, then declared questions, then the published optimiser."""
    yield from counts()
    yield from small()
    yield from declared(50, Fraction(12, 5))
    yield from published_optimiser()


def counts() -> Iterator[Finding]:
    """Subset response against the bound and against one value."""
    pairs = [(m, gamma) for m in SIZES for gamma in GAMMAS]
    equal = sum(least_histogram(m, gamma) == least_variance(m, gamma) for m, gamma in pairs)
    yield trend(
        "Counts: subset response reaches the least possible total variance",
        "order-optimal (Ye and Barg 2018)",
        f"equal in exact fractions for {equal} of {len(pairs)} pairs of m and gamma",
        holds=equal == len(pairs),
    )
    for m, gamma in ((50, Fraction(12, 5)), (50, Fraction(4)), (100, Fraction(12, 5))):
        width = best_width(m, gamma)
        best, one = total_variance(m, gamma, width), total_variance(m, gamma, 1)
        unary = _unary(np.eye(m), float(gamma))
        short = loss(best_list(m, width), gamma)
        yield trend(
            f"Counts, m = {m}, gamma {float(gamma):g}: total variance of a record",
            "subset response is the best",
            f"{float(best):.1f} (our list {short:+.1%}); one value {float(one):.1f}; unary encoding {unary:.1f}",
            holds=best <= one and float(best) <= unary,
        )


def small() -> Iterator[Finding]:
    """Eight values, where all 254 sets can be tried: the search comes with a proof of its distance from the optimum."""
    for name in QUESTIONS:
        found = designed(name, 8, Fraction(12, 5), CERTAIN)
        yield trend(
            f"{name}, m = 8, gamma 2.4: least variance over all channels",
            "not published",
            f"{found.variance:.5g}, at most {found.gap:.2%} above the optimum (proved)",
            holds=found.certified and found.gap <= CERTAIN,
        )


def declared(size: int, gamma: Fraction) -> Iterator[Finding]:
    """Variance of other reports over that of the channel made for the questions."""
    for name, gram in ((name, make(size)) for name, make in QUESTIONS.items()):
        found = designed(name, size, gamma)
        one = set_answers(best_list(size, 1).channel(gamma)).total_variance(gram)
        others = {
            "one value": one,
            "subset response": workloads.subset_variance(gram, gamma),
            "unary encoding": _unary(gram, float(gamma)),
            "hierarchy": hierarchy(size, gamma, gram).total_variance(gram),
        }
        said = ", ".join(f"{other} {variance / found.variance:.2f}" for other, variance in others.items())
        yield trend(
            f"{name}, m = {size}, gamma {float(gamma):g}: variance of others over ours",
            "a channel made for the questions is the best",
            said + _near(found),
            holds=min(others.values()) >= found.variance,
        )


def published_optimiser() -> Iterator[Finding]:
    """The figure that the authors' code prints, and ours."""
    size = PUBLISHED_SIZE
    found = designed("prefixes", size, EPSILON_ONE)
    worst = set_answers(found.channel).worst_variance(np.tril(np.ones((size, size))))
    note = f"the largest over true values; mean {found.variance:.1f}, no channel below {found.least:.1f}"
    yield trend(
        f"Prefixes, m = {size}, epsilon 1: worst variance of a record, optimised",
        f"{PUBLISHED_WORST:,.1f}",
        f"{worst:,.1f}",
        holds=worst <= PUBLISHED_WORST,
        note=note,
    )
    tree = hierarchy(size, EPSILON_ONE, workloads.prefixes(size)).worst_variance(np.tril(np.ones((size, size))))
    yield trend(
        f"Prefixes, m = {size}, epsilon 1: worst variance of a record, hierarchy",
        f"{PUBLISHED_HIERARCHY:,.1f}",
        f"{tree:,.1f}",
        holds=worst < min(tree, PUBLISHED_HIERARCHY),
        note="ours: the best of several trees, nodes reported by subset response, best unbiased weights",
    )


def hierarchy(size: int, gamma: Fraction, questions: Floats) -> SetAnswers:
    """The best tree for the questions: a level below the root is drawn at random and a set of its nodes is reported.

    Every level reports by subset response, which is the best report of one level; among trees of several branchings
    the one with the least total variance is taken. Nodes are sets of values, so that this is a set channel.
    """
    trees = [_tree(size, gamma, branching) for branching in BRANCHINGS if branching <= size]
    return min(trees, key=lambda tree: tree.total_variance(questions))


def _tree(size: int, gamma: Fraction, branching: int) -> SetAnswers:
    levels = next(k for k in range(1, size + 1) if branching**k >= size)
    rows = []
    for level in range(1, levels + 1):
        node = np.arange(size) // branching ** (levels - level)
        nodes = int(node[-1]) + 1
        rows.append(best_list(nodes, best_width(nodes, gamma)).channel(gamma).matrix()[:, node] / levels)
    Q, pi = np.concatenate(rows), np.full(size, 1 / size)
    shown = Q / (Q @ pi)[:, None]
    inverse = np.linalg.inv(Q.T @ shown)
    return SetAnswers(matrix=Q, prior=pi, inverse=inverse, unit_weights=shown @ inverse)


def _unary(gram: Floats, gamma: float) -> float:
    """Total variance of optimised unary encoding: a bit for each value, kept with 1/2, set with 1 / (gamma + 1)."""
    p, q, m = 0.5, 1 / (gamma + 1), len(gram)
    own, other = p * (1 - p) / (p - q) ** 2, q * (1 - q) / (p - q) ** 2
    return float(np.trace(gram)) * (own + (m - 1) * other) / m


def _near(found: Design) -> str:
    """How far ours is from the bound, where that says something."""
    ratio = found.variance / found.least if found.least > 0 else math.inf
    return f"; ours {ratio:.3f} times the least possible" if ratio < 2 else ""
