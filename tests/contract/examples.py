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


def _keep_channel(keep: float, size: int) -> np.ndarray:
    other = (1 - keep) / (size - 1)
    return (keep - other) * np.eye(size) + other


RHO = {"rho1": "1/5", "rho2": "1/2"}
BAD_RHO = (
    {"rho1": 0}, {"rho1": -1}, {"rho1": "1/2"}, {"rho1": "2/3"}, {"rho2": 1}, {"rho1": "1/0"}, {"rho1": "many"},
    {"rho1": float("nan")}, {"rho1": True}, {"rho2": None},
)  # fmt: skip

EXAMPLES = {
    "uniform": Example(spec=lambda: REGISTRY["uniform"].Spec(**RHO), good=RHO, bad=BAD_RHO, channel=_uniform_channel),
    "anatomy": Example(
        spec=lambda: REGISTRY["anatomy"].Spec(l=3),
        good={"l": 3},
        bad=({"l": 1}, {"l": 2.5}, {"l": "3"}, {"l": True}, {"grouping": "alphabetic"}),
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
