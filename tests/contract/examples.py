"""The table on which the contract suite calls every method; how to call it is the method's own `example`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.methods import REGISTRY
from sfumato.model.private import Histogram, Needs, Profile
from sfumato.model.public import Domain, Roles

COUNTS = np.array([260, 230, 210, 180, 160, 130, 110, 80])  # true counts of eight diseases
DISEASES = ("angina", "bronchitis", "cold", "diabetes", "eczema", "flu", "gout", "hepatitis")
SEXES = ("f", "m")


def spec(name: str) -> Any:
    """The method's specification for the table of `diseases()`."""
    return REGISTRY[name].spec(**REGISTRY[name].example.spec)


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
