"""A plan as Python shows it: what would be published and what it costs, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..engines.contract import Engine
from ..model.public import Roles, Scalar
from ..publish import prepare
from ..publishing.randomness import Secret
from ..reports.documents import render_plan


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
    delimiter: str | None = None,
) -> PlanReport:
    """What a release would promise, how far each reader gets, and the errors to expect; nothing is written.

    The arguments are those of `publish`. For the custodian: `print(...)` shows the text of `sfumato plan`, `to_dict()`
    is its JSON; `full` adds what is long, by method. The report holds true counts.
    """
    prepared = prepare(
        source,
        roles=roles,
        method=method,
        secret=Secret.of(seed),
        engine=engine,
        domains=domains,
        null_as_value=null_as_value,
        delimiter=delimiter,
    )
    return PlanReport(document=prepared.report(full=full), notes=prepared.notes)
