"""The error a release will have, from its plan alone: a question is asked of the *expected* release.

The original table is observed as if it were the release, and the method says what its answers would be
(`Method.foresee`). Nothing is published and nothing is drawn. For the custodian only: it reads the original table.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from ..answering.answer import Answer
from ..answering.subject import Subject, no_bounds
from ..engines.codes import Coder
from ..errors import PlanError
from ..model.public import Floats
from ..publish import Prepared
from ..query import ask
from ..sql.nodes import Schema
from .workload import Original


class ExpectedRelease:
    """A release that does not exist, asked like one; PlanError where the method foresees nothing."""

    def __init__(self, prepared: Prepared, truth: Original) -> None:
        domains = tuple(d for d, c in zip(prepared.profile.domains, prepared.needs.changed, strict=True) if c)
        plan, work = prepared.planned.public, prepared.planned.work
        foresight = prepared.method.foresee(plan, work, prepared.profile, domains)
        if foresight is None:
            raise PlanError(f"the error of {prepared.method.name} does not follow from its plan")
        arrow = prepared.table.arrow_types()
        self.schema = Schema(
            types=truth.types, units={name: u for u, domain in enumerate(domains) for name in domain.columns}
        )
        # The original is read as it is: no sub-table column, nothing withheld.
        self._subject = Subject(
            method=prepared.method.name,
            schema=self.schema,
            domains=domains,
            coders=tuple(Coder(domain, arrow) for domain in domains),
            reader=truth.reader,
            lumpable=foresight.lump,
            withheld=False,
            part=None,
            sets={},
            estimate=foresight.answer,
            bound=no_bounds,
        )

    def __repr__(self) -> str:
        return f"<expected release by {self._subject.method}>"

    def sql(self, text: str, *, estimator: str | None = None) -> Answer:
        """The expected answer with its true standard error."""
        return ask(self._subject, text, estimator=estimator)


def mean_absolute_error(bias: Floats, se: Floats) -> Floats:
    """E|X| of a normal X with this mean and standard deviation; a missing `se` counts as 0."""
    spread = np.nan_to_num(se)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(spread > 0, bias / spread, np.inf)
        noisy = spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2) + bias * (1 - 2 * ndtr(-z))
    return np.where(spread > 0, noisy, np.abs(bias))
