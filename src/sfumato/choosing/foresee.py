"""The error a release will have, from its plan alone: a question is asked of the *expected* release.

The original table is observed as if it were the release, and the law says what its answers would be
(`Law.foresee`). Nothing is published and nothing is drawn. For the custodian only: it reads the original table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from scipy import special

from ..answering.answer import Answer
from ..answering.subject import Subject, no_bounds
from ..engines.codes import Coder
from ..engines.contract import Engine
from ..errors import PlanError, UnsupportedQuery
from ..model.public import Floats, Roles, Scalar
from ..publish import Prepared, prepare
from ..publishing.randomness import Secret
from ..query import ask
from ..reports.documents import render_plan
from ..sql.nodes import Schema
from .workload import Original

if TYPE_CHECKING:
    from ..analysis.fit import Fit


class ExpectedRelease:
    """A release that does not exist, asked like one; PlanError where the method foresees nothing."""

    def __init__(self, prepared: Prepared, truth: Original) -> None:
        domains = tuple(d for d, c in zip(prepared.profile.domains, prepared.needs.changed, strict=True) if c)
        law = prepared.planned.law
        foresight = law.foresee(prepared.planned.work, prepared.profile, domains)
        if foresight is None:
            raise PlanError(f"the error of {prepared.method.name} does not follow from its plan")
        self._truth = truth  # its file lives as long as it does
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
            estimators=law.estimators,
            functionals=foresight.functionals or self._unforeseen,
            rows=truth.rows,
        )

    def __repr__(self) -> str:
        return f"<expected release by {self._subject.method}>"

    def _unforeseen(self, *_: object) -> NoReturn:
        raise UnsupportedQuery(
            f'"{self._subject.method}" foresees no errors of models; publish a trial release and fit that'
        )

    def fit(self, formula: str, **options: Any) -> Fit:
        """The model of the original rows, with the standard errors that a release will give it."""
        from ..analysis.regression import fit  # a quarter of a second to load, which choosing does without

        return fit(self._subject, formula, **options)

    def sql(self, text: str, *, estimator: str | None = None) -> Answer:
        """The expected answer with its true standard error."""
        return ask(self._subject, text, estimator=estimator)


def foreseen_fit(prepared: Prepared, engine: Engine, formula: str, **options: Any) -> dict[str, Any]:
    """The standard errors that a model's coefficients will have, before anything is published; for the custodian.

    `estimate` is the coefficient of the original rows; options as for `Release.fit`.
    """
    columns = [c for c in prepared.table.columns if c not in prepared.roles.identifying]
    expected = ExpectedRelease(prepared, Original(prepared.table, columns, engine))
    found = expected.fit(formula, **options).to_dict()
    keys = ("term", "estimate", "se", "se_table", "information")
    return {
        "formula": found["formula"],
        "family": found["family"],
        "models": found["models"],
        "target": found["target"],
        "rows": [{key: row[key] for key in keys} for row in found["rows"]],
    }


def mean_absolute_error(bias: Floats, se: Floats) -> Floats:
    """E|X| of a normal X with this mean and standard deviation; a missing `se` counts as 0."""
    spread = np.nan_to_num(se)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(spread > 0, bias / spread, np.inf)
        noisy = spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2) + bias * (1 - 2 * special.ndtr(-z))
    return np.where(spread > 0, noisy, np.abs(bias))


# A plan as Python shows it: what would be published and what it costs, before anything is written.


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanReport:
    """What `sfumato plan` shows; for the custodian, it holds true counts."""

    document: Mapping[str, Any]
    notes: tuple[str, ...] = ()  # what reading and planning brought up

    def __repr__(self) -> str:
        return f"<plan of {self.document['method']} for {self.document['rows']:,} rows>"

    def __str__(self) -> str:
        return render_plan(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The document of `sfumato plan --json`."""
        return dict(self.document)


def plan(
    source: Any,
    *,
    roles: Roles,
    method: Any,
    full: bool = False,
    seed: int | None = None,
    engine: Engine | None = None,
    domains: Mapping[str, Sequence[Scalar]] | None = None,
    null_as_value: bool = False,
) -> PlanReport:
    """What a release would promise, how far each reader gets, and the errors to expect; nothing is written.

    The arguments are those of `publish`. For the custodian: `print(...)` shows the text of `sfumato plan`, `to_dict()`
    is its JSON; `full` adds what is long, by method. The report holds true counts.
    """
    prepared = prepare(
        source,
        roles=roles,
        method=method,
        secret=Secret.from_seed(seed),
        engine=engine,
        domains=domains,
        null_as_value=null_as_value,
    )
    return PlanReport(document=prepared.report(full=full), notes=prepared.notes)
