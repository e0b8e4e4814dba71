"""What `compare` and `recommend` share about a table: read once, its workload, the bound. Private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from ..answering.subject import KnownQuestions
from ..engines.contract import Engine, Table
from ..engines.directory import engine_named
from ..errors import DataError
from ..model.people import People
from ..model.private import Facts
from ..model.public import Candidate, Claim, Roles, Scalar
from ..model.ratios import Ratio
from ..model.types import Kind
from ..publish import Prepared, prepare
from ..publishing.person_rows import kept_rows
from ..publishing.randomness import Secret
from ..publishing.roles import settled_roles
from .candidates import choose_rho1, parse_bound, spec_of
from .original import Original
from .rebuilt_table import Reference
from .workload import CONDITIONS, Workload, query_pool, sql_workload


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Setting:
    """The table, its workload and the bound: everything the methods share. Private."""

    roles: Roles
    tau: Fraction
    rho1: Fraction
    facts: Facts
    table: Table
    truth: Original
    workload: Workload
    reference: Reference | None
    engine: Engine
    domains: Mapping[str, Sequence[Scalar]]
    null_as_value: bool
    people: People
    questions: KnownQuestions = field(default_factory=KnownQuestions)

    def at(self, bound: Ratio, rho1: Ratio | None = None) -> Setting:
        """The same table and workload at another bound."""
        tau = parse_bound(bound)
        return replace(self, tau=tau, rho1=choose_rho1(self.facts, tau, rho1))

    @property
    def claim(self) -> Claim:
        """What every method is asked to hold."""
        rows = self.people.rows_per_person if self.people.checked else None
        return Claim(rho1=self.rho1, rho2=self.tau, rows_per_person=rows)

    def held_rows(self, prepared: Prepared) -> Sequence[pa.RecordBatch] | None:
        """The rows of the table that a plan was made for, where they are held."""
        return self.truth.held if prepared.table is self.table else None

    def prepare(self, candidate: Candidate, secret: Secret) -> Prepared:
        """The method's plan for the table."""
        return prepare(
            self.table,
            roles=self.roles,
            method=spec_of(candidate),
            secret=secret,
            engine=self.engine,
            domains=self.domains,
            null_as_value=self.null_as_value,
        )


def make_setting(
    source: Any,
    *,
    roles: Roles,
    bound: Ratio,
    rho1: Ratio | None = None,
    workload: str | None = None,
    pool_seed: int = 0,
    conditions: int = CONDITIONS,
    hierarchies: Any = None,
    engine: Engine | None = None,
    domains: Mapping[str, Sequence[Scalar]] | None = None,
    null_as_value: bool = False,
    delimiter: str | None = None,
    secret: Secret | None = None,
) -> Setting:
    """Reads the table once. `workload` is SQL text, one statement per question; None takes the query pool."""
    tau = parse_bound(bound)
    chosen: Engine = engine or engine_named()
    table = chosen.open(source, delimiter=delimiter)
    roles = settled_roles(roles, table)
    kept, people = kept_rows(table, roles, secret or Secret.fresh())
    if people.rows_left_out:  # one choice of rows for all methods
        table, roles = kept, replace(roles, identifying=())
    sensitive, quasi = tuple(roles.sensitive), tuple(roles.quasi)
    columns = [c for c in table.columns if c in {*sensitive, *quasi, *roles.insensitive}]
    truth = Original(table, columns, chosen, hold=True)
    counts = truth.counts(sensitive)
    if not truth.rows:
        raise DataError("the table has no rows")
    facts = Facts(
        rows=truth.rows,
        true_counts=tuple(counts.values()),
        sizes={c: len(truth.counts([c])) for c in quasi},
        integers=frozenset(c for c in quasi if table.columns[c].kind is Kind.INTEGER),
        hierarchies=hierarchies,
    )
    asked = (
        query_pool(truth, sensitive=sensitive, quasi=quasi, seed=pool_seed, conditions=conditions)
        if workload is None
        else sql_workload(truth, workload, sensitive=sensitive)
    )
    return Setting(
        roles=roles,
        tau=tau,
        rho1=choose_rho1(facts, tau, rho1),
        facts=facts,
        table=table,
        truth=truth,
        workload=asked,
        reference=Reference.strongest(truth, sensitive, facts.sizes),
        engine=chosen,
        domains=domains or {},
        null_as_value=null_as_value,
        people=people,
    )
