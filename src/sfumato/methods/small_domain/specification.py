"""What a publisher asks of small-domain, and what the release then states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from ...errors import SpecError
from ...laws.keep_or_redraw import SubTables
from ...laws.set_tables import SetTables
from ...model.people import RowsPerPerson
from ...model.ratios import Ratio
from ...stats.gamma import gamma_bound, keep_probabilities
from ..contract import Specification
from ..shared.options import BINS_FIELD, RHO1, RHO2, parse_bins, told
from ..shared.restricted import parse_rhos
from ..shared.workload_texts import WORKLOAD_FIELD, parse_workload
from . import set_reports
from .set_reports import SetReports


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallDomain(Specification):
    """Restrict the posterior of every protected value to rho2, with far less noise than `uniform` needs."""

    method: ClassVar[str] = "small-domain"

    rho1: Ratio = field(metadata=RHO1)
    rho2: Ratio = field(metadata=RHO2)
    mode: Literal["strict", "paper"] = field(
        default="strict", metadata=told("strict: proved; paper: the partition as it was printed", "paper")
    )
    objective: Literal["variance", "bound"] = field(
        default="variance",
        metadata=told("what sub-tables are chosen for: variance, or the paper's bound", "bound", python_only=True),
    )
    min_size: int = field(default=1000, metadata=told("least rows of a sub-table", "500"))
    protect_groups: Mapping[str, Any] | str | None = field(
        default=None,
        metadata=told("column=FILE, ...: sets of values (a hierarchy, or a set a line) held too", "disease=groups.csv"),
    )
    report: Literal["set", "value"] | None = field(
        default=None,
        metadata=told("set: publish a set of values in place of one; value: one value. None: what errs less", "value"),
    )
    workload: str | None = field(default=None, metadata=WORKLOAD_FIELD)
    bins: Mapping[str, Sequence[Ratio]] | str | None = field(default=None, metadata=BINS_FIELD)

    def __post_init__(self) -> None:
        parse_rhos(self.rho1, self.rho2)
        for name, value, allowed in (
            ("mode", self.mode, ("strict", "paper")),
            ("objective", self.objective, ("variance", "bound")),
            ("report", "set" if self.report is None else self.report, ("set", "value")),
        ):
            if value not in allowed:
                raise SpecError(f'{name} must be {allowed[0]} or {allowed[1]}, got "{value}"', field=name)
        if parse_workload(self.workload) is not None and self.report == "value":
            raise SpecError("a workload needs set reports; leave out report=value", field="workload")
        if self.mode == "paper" and (self.report == "set" or self.workload is not None):
            raise SpecError("the paper's mode publishes one value; sets and workloads need strict mode", field="report")
        if isinstance(self.min_size, bool) or not isinstance(self.min_size, int) or self.min_size < 1:
            raise SpecError(f"min_size must be a whole number of at least 1, got {self.min_size!r}", field="min_size")
        parse_bins(self.bins)
        if self.groups() and self.mode != "strict":
            raise SpecError("sets of values are held in mode strict only", field="protect_groups")

    def groups(self) -> dict[str, Any]:
        """Files, or rows of them, by column."""
        if self.protect_groups is None:
            return {}
        if isinstance(self.protect_groups, Mapping):
            return dict(self.protect_groups)
        parts = [part.partition("=") for part in self.protect_groups.split(",") if part.strip()]
        if not parts or not all(column.strip() and file.strip() for column, _, file in parts):
            raise SpecError(
                f'groups are written column=FILE,column=FILE, got "{self.protect_groups}"', field="protect_groups"
            )
        return {column.strip(): file.strip() for column, _, file in parts}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallDomainPlan:
    """What the release states: the parameters and, for each sub-table, its values, gamma and size."""

    rho1: Fraction
    rho2: Fraction
    mode: Literal["strict", "paper"]
    domains: tuple[tuple[int, ...], ...]  # codes of the values that occur in each sub-table, ascending
    gammas: tuple[Fraction, ...]  # rounded down; what runs
    sizes: tuple[int, ...]
    rows_per_person: RowsPerPerson = 1  # rows that are held together
    sets: tuple[tuple[int, ...], ...] = ()  # codes of the sets of values that no sub-table gives away
    reports: SetReports | None = None  # None: one value is published

    def __post_init__(self) -> None:
        gamma_bound(self.rho1, self.rho2)
        if not 0 < len(self.domains) == len(self.gammas) == len(self.sizes):
            raise ValueError("domains, gammas and sizes need one entry for each sub-table")
        if any(g <= 1 for g in self.gammas) or any(n < 1 for n in self.sizes):
            raise ValueError("a sub-table needs a gamma above 1 and at least one record")
        if any(not d or d[0] < 0 or any(a >= b for a, b in pairwise(d)) for d in self.domains):
            raise ValueError("the codes of a sub-table's domain must ascend from 0 on")
        if self.reports is not None:
            if self.mode != "strict":
                raise ValueError("the paper's mode publishes one value")
            _ = self.set_tables  # refuses lists that are none

    @property
    def set_tables(self) -> SetTables:
        """The set channels of the sub-tables."""
        assert self.reports is not None
        return set_reports.set_tables(self.domains, self.gammas, self.reports)

    @property
    def channels(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """(p, q) of every sub-table, where one value is published."""
        return tuple(keep_probabilities(g, len(d)) for g, d in zip(self.gammas, self.domains, strict=True))

    @property
    def tables(self) -> SubTables:
        """The same channels as arrays."""
        return _tables(self.domains, self.gammas)


@lru_cache(maxsize=4)  # every batch and every question asks for them
def _tables(domains: tuple[tuple[int, ...], ...], gammas: tuple[Fraction, ...]) -> SubTables:
    kinds = {(g, len(d)) for g, d in zip(gammas, domains, strict=True)}
    pair = {kind: tuple(float(x) for x in keep_probabilities(*kind)) for kind in kinds}
    p, q = np.array([pair[g, len(d)] for g, d in zip(gammas, domains, strict=True)]).T
    return SubTables(
        start=np.cumsum([0, *(len(d) for d in domains)]),
        values=np.fromiter((v for d in domains for v in d), dtype=np.int32),
        p=p,
        q=q,
    )
