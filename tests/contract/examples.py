"""One small example per registered method, for the contract suite: add yours here.

`channel(plan, profile)` is the declared chance that a record with true code x is published with code y, for unit 0,
averaged over the records of x. None where the sensitive columns are not published row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.mechanisms import REGISTRY
from sfumato.model.private import Histogram, Needs, Profile
from sfumato.model.public import Domain, Roles
from sfumato.stats.decoys import slot_table
from sfumato.stats.grouping import random_margins_chain

COUNTS = np.array([260, 230, 210, 180, 160, 130, 110, 80])  # true counts of eight diseases
DISEASES = ("angina", "bronchitis", "cold", "diabetes", "eczema", "flu", "gout", "hepatitis")
SEXES = ("f", "m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """How to call a method on the table of `diseases()`."""

    spec: Callable[[], Any]
    bad: tuple[dict[str, Any], ...]  # arguments that must raise SpecError
    good: dict[str, Any] = field(default_factory=dict)  # arguments that `bad` is laid over
    channel: Callable[[Any, Profile], np.ndarray] | None = None


def roles() -> Roles:
    return Roles(sensitive="disease", quasi=["sex"])


def diseases(seed: int = 1) -> dict[str, np.ndarray]:
    """Codes of disease and sex of every record, in random order; sex goes with disease."""
    rng = np.random.default_rng(seed)
    disease = rng.permutation(np.repeat(np.arange(len(COUNTS)), COUNTS)).astype(np.int32)
    sex = (rng.random(len(disease)) < 0.2 + 0.08 * disease).astype(np.int32)
    return {"disease": disease, "sex": sex}


def profile_for(needs: Needs, columns: dict[str, np.ndarray]) -> Profile:
    """The profile a counting pass would give."""
    labels = {"disease": DISEASES, "sex": SEXES}
    domains = tuple(Domain(columns=unit, values=tuple((v,) for v in labels[unit[0]])) for unit in needs.units)
    histograms = []
    for joint in needs.joints:
        codes = np.stack([columns[needs.units[u][0]] for u in joint], axis=1)
        distinct, counts = np.unique(codes, axis=0, return_counts=True)
        histograms.append(Histogram(codes=distinct.astype(np.int32), true_counts=counts.astype(np.int64)))
    return Profile(
        rows=len(columns["disease"]), domains=domains, histograms=tuple(histograms), sensitive=needs.sensitive
    )


def _uniform_channel(plan: Any, profile: Profile) -> np.ndarray:
    return float(plan.p) * np.eye(plan.values) + float(plan.q)


def _small_domain_channel(plan: Any, profile: Profile) -> np.ndarray:
    """Each sub-table's channel, weighted by the share of a value's records that the plan puts there."""
    spec = REGISTRY["small-domain"].Spec(**SMALL)
    partition, _ = REGISTRY["small-domain"].plan(spec, profile, np.random.default_rng(0)).work.secret
    assert len(partition.sub_tables) > 1
    channel = np.zeros((len(COUNTS), len(COUNTS)))
    for i, table in enumerate(partition.sub_tables):
        assert plan.domains[i] == tuple(table.values.tolist())
        p, q = (float(x) for x in table.keep_probabilities)
        share = table.true_counts / profile.true_counts()[table.values]
        channel[np.ix_(table.values, table.values)] += share[:, None] * (p * np.eye(table.values.size) + q)
    return channel


def _decoy_channel(plan: Any, profile: Profile) -> np.ndarray:
    """The mean over random groupings of the true counts, which the reader approximates from the published ones."""
    counts, (size,) = profile.true_counts(), plan.sizes
    groupings = random_margins_chain(counts, size, np.random.default_rng(1), samples=1000)
    return sum(slot_table(grouping) for grouping in groupings) / (1000 * counts[:, None])


def _draw_channel(plan: Any, profile: Profile) -> np.ndarray:
    return np.tile(profile.true_counts() / profile.rows, (len(COUNTS), 1))


def _keep_channel(keep: float, size: int) -> np.ndarray:
    other = (1 - keep) / (size - 1)
    return (keep - other) * np.eye(size) + other


RHO = {"rho1": "1/5", "rho2": "1/2"}
BAD_RHO = (
    {"rho1": 0}, {"rho1": -1}, {"rho1": "1/2"}, {"rho1": "2/3"}, {"rho2": 1}, {"rho1": "1/0"}, {"rho1": "many"},
    {"rho1": float("nan")}, {"rho1": True}, {"rho2": None},
)  # fmt: skip
SMALL = RHO | {"min_size": 400}

EXAMPLES = {
    "uniform": Example(spec=lambda: REGISTRY["uniform"].Spec(**RHO), good=RHO, bad=BAD_RHO, channel=_uniform_channel),
    "small-domain": Example(
        spec=lambda: REGISTRY["small-domain"].Spec(**SMALL),
        good=SMALL,
        bad=(
            *BAD_RHO,
            {"mode": "lax"},
            {"objective": "size"},
            {"delta": 0},
            {"delta": "x"},
            {"min_size": 0},
            {"min_size": 2.5},
        ),
        channel=_small_domain_channel,
    ),
    "anatomy": Example(
        spec=lambda: REGISTRY["anatomy"].Spec(l=3),
        good={"l": 3},
        bad=({"l": 1}, {"l": 2.5}, {"l": "3"}, {"l": True}, {"grouping": "alphabetic"}),
    ),
    "target-distribution": Example(
        spec=lambda: REGISTRY["target-distribution"].Spec(partition_by="sex", fakes="0.01"),
        bad=(
            {"target": "gauss"},
            {"target": "zipf(-1)"},
            {"hierarchy": "balanced(1)"},
            {"fakes": -1},
            {"fakes": 1.5},
            {"max_weight": 1},
            {"max_weight": "16"},
            {"min_group": 0},
            {"choose_fakes": "best"},
            {"partition_by": "age//0"},
            {"work_limit": 0},
        ),
    ),
    "splu": Example(
        spec=lambda: REGISTRY["splu"].Spec(gamma=4),
        good={"gamma": 4},
        bad=(
            {"gamma": 1}, {"gamma": 2.5}, {"gamma": "x"}, {"gamma": True}, {"gamma": "disease=1"}, {"epsilon": 0},
            {"epsilon": 1}, {"t_e": "1"}, {"alpha": 0}, {"grouping": "alphabetic"},
        ),
        channel=_decoy_channel,
    ),
    "distribution-draw": Example(
        spec=REGISTRY["distribution-draw"].Spec,
        bad=(),  # it has no arguments
        channel=_draw_channel,
    ),
    "randomized-response": Example(
        spec=lambda: REGISTRY["randomized-response"].Spec(keep={"disease": "0.6"}),
        bad=(
            {}, {"risk": 0}, {"risk": "3/2"}, {"risk": "1/0"}, {"risk": float("nan")}, {"l": "1/2"}, {"l": 0},
            {"risk": "1/3", "l": 3}, {"keep": "disease"}, {"keep": {"disease": 0}}, {"keep": {"disease": 1.1}},
            {"keep": {"disease": float("nan")}}, {"risk": "1/3", "scope": "all"}, {"l": 3, "cell_limit": 0},
        ),
        channel=lambda plan, profile: _keep_channel(plan.keep[0], plan.sizes[0]),
    ),
    "l-diversity": Example(
        spec=lambda: REGISTRY["l-diversity"].Spec(l=3),
        good={"l": 3},
        bad=(
            {"l": "1/2"}, {"l": "many"}, {"kind": "other"}, {"suppression": 1}, {"suppression": "-1/2"},
            {"hierarchies": "age"},
        ),
    ),
}  # fmt: skip
