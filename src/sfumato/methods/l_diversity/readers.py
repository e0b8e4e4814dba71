"""How far readers of l-diverse classes get: the shares of the values in a class."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ...model.private import Known
from ...model.public import Claim, ReaderBound
from ...stats.joint_codes import distinct_cells
from ..shared.readers import Found, in_parts

CLASS = "she knows the person's class, and the rows of a class hold their true values"


def readers(bound: Fraction | None, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder; `bound` is what the plan promises of a class.

    What a reader can link to is the class, so that the readers histogram and linking are one.
    """
    reached = bound if known is None else _largest(known)
    found = Found(posterior=reached, why=CLASS if reached is not None else "the rows of the classes decide")
    return in_parts(
        claim, histogram=found, linking=found, corruption="whoever knows all members of a class but one knows the last"
    )


def _largest(known: Known) -> Fraction:
    """The largest share of a looked-at value in a published class, exact."""
    histogram, members, keeper = known.profile.histograms[0], known.work.secret.code, known.work.secret.keeper
    codes = histogram.codes[:, :-1]
    stay = np.ones(len(codes), dtype=bool) if keeper is None else keeper(list(codes.T))
    labels = np.stack([member[codes[stay, j]] for j, member in enumerate(members)], axis=1)
    _, place = distinct_cells(labels.astype(np.int64))
    count, value = histogram.true_counts[stay], histogram.codes[stay, -1]
    width = len(known.profile.domains[-1])
    table = np.bincount(place * width + value, weights=count, minlength=(int(place.max()) + 1) * width)
    table = table.astype(np.int64).reshape(-1, width)
    looked = np.zeros(width, dtype=bool)
    looked[known.joint.codes[known.looked, 0]] = True
    largest, sizes = np.where(looked, table, 0).max(axis=1), table.sum(axis=1)
    worst = int(np.argmax(largest / sizes))
    return Fraction(int(largest[worst]), int(sizes[worst]))
