"""What `compare` and `recommend` share about a table: read once, its workload, the bound. Private."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engines import engine_named
from ..engines.contract import Engine, Table
from ..errors import DataError, SfumatoError, SpecError
from ..methods import REGISTRY, method_named
from ..methods.shared.readers import Found, ladder
from ..model.names import Ratio, exact, stated_share
from ..model.private import Facts
from ..model.public import Candidate, Claim, Floats, People, ReaderBound, Roles, Scalar
from ..model.types import Kind
from ..publish import Prepared, prepare
from ..publishing.custodian import kept_rows, settled_roles
from ..publishing.randomness import Secret
from ..sql.scalar import quoted
from ..stats.association import chi_square_distance, euclidean_distance, kl_distance, uncertainty_coefficient
from ..stats.gamma import gamma_bound
from .workload import CONDITIONS, Asks, Key, Original, Workload, query_pool, sql_workload


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

    def at(self, bound: Ratio, rho1: Ratio | None = None) -> Setting:
        """The same table and workload at another bound."""
        tau = parse_bound(bound)
        return replace(self, tau=tau, rho1=choose_rho1(self.facts, tau, rho1))

    @property
    def claim(self) -> Claim:
        """What every method is asked to hold."""
        rows = self.people.rows_per_person if self.people.checked else None
        return Claim(rho1=self.rho1, rho2=self.tau, rows_per_person=rows)

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
    secret: Secret | None = None,
    most_rows: int | None = None,
) -> Setting:
    """Reads the table once. `workload` is SQL text, one statement per question; None takes the query pool. Of a table
    with more than `most_rows` it keeps a random sample.
    """
    tau = parse_bound(bound)
    chosen: Engine = engine or engine_named()
    table = chosen.open(source)
    roles = settled_roles(roles, table)
    secret = secret or Secret.fresh()
    kept, people = kept_rows(table, roles, secret)
    if people.rows_left_out:  # one choice of rows for all methods
        table, roles = kept, replace(roles, identifying=())
    sensitive, quasi = tuple(roles.sensitive), tuple(roles.quasi)
    columns = [c for c in table.columns if c in {*sensitive, *quasi, *roles.insensitive, roles.person}]

    def keys(number: int, rows: int) -> NDArray[np.uint64]:
        return secret.stream("sample", number).integers(0, 2**64, size=rows, dtype=np.uint64)

    truth = Original(table, columns, chosen, keys, most_rows)
    if truth.rows < truth.rows_in_all:
        table, roles = chosen.open(truth.path), replace(roles, identifying=())
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


# Every method at one bound on the posterior: the prior to start from, and the parameters that make methods equal.


LAPLACE = "laplace"


def spec_of(candidate: Candidate) -> Any:
    """What `publish` takes."""
    return method_named(candidate.method).spec(**candidate.parameters)


def check_hierarchies(given: Any, names: Iterable[str]) -> None:
    """Raise SpecError where hierarchies are given and none of the methods that are looked at takes them."""
    takers = [name for name, method in REGISTRY.items() if "hierarchies" in {f.name for f in fields(method.spec)}]
    if given and not set(takers) & set(names):
        raise SpecError(
            f"--hierarchies are of {', '.join(takers)}, which is not looked at here (--methods, --trust)",
            field="hierarchies",
        )


def parse_bound(bound: Ratio) -> Fraction:
    """The bound on the posterior, exact, between 0 and 1."""
    tau = exact(bound, "bound")
    if not 0 < tau < 1:
        raise SpecError(f"bound must lie strictly between 0 and 1, got {tau}; state it as 1/6", field="bound")
    return tau


def choose_rho1(facts: Facts, tau: Fraction, given: Ratio | None = None) -> Fraction:
    """The prior that methods with a bound start from: as given, or the largest share below the bound.

    The share is rounded up to a thousandth, or a coarser step that holds ten rows, so that it states no count; where
    that reaches the bound, to 1/k; where that reaches it too, it is refused. Values above the bound are beyond any
    method; values above the chosen prior are listed as not protected.
    """
    if given is not None:
        prior = exact(given, "rho1")
        if not 0 < prior < tau:
            raise SpecError(f"rho1 must lie between 0 and the bound {tau}, got {prior}", field="rho1")
        return prior
    below = [c for c in facts.true_counts if c and Fraction(c, facts.rows) < tau]
    if not below:
        raise SpecError(
            f"every sensitive value holds {tau} of the rows or more; no method can bound its posterior there",
            field="bound",
        )
    most = max(below)
    for rho1 in (stated_share(most, facts.rows, 1000), Fraction(1, facts.rows // most)):
        if rho1 < tau:
            return rho1
    raise SpecError(
        f"a sensitive value holds almost {tau} of the rows, so that no rounded prior fits below the bound; take a "
        "larger bound, or state the prior yourself (--rho1): it is published",
        field="rho1",
    )


def laplace_readers(claim: Claim) -> tuple[ReaderBound, ...]:
    """The readers of answers whose odds move by gamma(rho1, rho2) at most: nothing is published about a record."""
    reached = Found(posterior=claim.rho2, why="all answers together are the same, up to gamma, whatever a person holds")
    linking = Found(posterior=None, why="a prior sharpened by other columns may be above rho1")
    return ladder(claim, value=reached, histogram=reached, linking=linking, corruption=reached, person=reached)


def epsilon_of(rho1: Fraction, tau: Fraction) -> float:
    """epsilon with e^epsilon = gamma(rho1, tau): odds that start at rho1 end at tau."""
    return math.log(gamma_bound(rho1, tau))


# How well a release gives back one two-way table: distances from the true one, and the association that is left.


MOST_VALUES = 100
MIX = 0.01  # share of a uniform table mixed in before Kullback-Leibler: estimates have empty cells


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reference:
    """The true table of the sensitive value by the column it goes with most."""

    column: str
    sensitive: tuple[str, ...]
    rows: tuple[Key, ...]
    columns: tuple[Key, ...]
    true_counts: Floats  # (values of the column, sensitive values)

    @classmethod
    def strongest(cls, truth: Original, sensitive: Sequence[str], sizes: Mapping[str, int]) -> Reference | None:
        """The column of at most MOST_VALUES values with the largest uncertainty coefficient; None if there is none."""
        best: tuple[float, Reference] | None = None
        for column in (c for c, size in sizes.items() if 1 < size <= MOST_VALUES):
            cells = truth.counts([column, *sensitive])
            rows = tuple(dict.fromkeys(key[:1] for key in cells))
            columns = tuple(dict.fromkeys(key[1:] for key in cells))
            table = np.zeros((len(rows), len(columns)))
            row = {key: i for i, key in enumerate(rows)}
            column_of = {key: j for j, key in enumerate(columns)}
            for key, count in cells.items():
                table[row[key[:1]], column_of[key[1:]]] = count
            kept = uncertainty_coefficient(table)
            if best is None or kept > best[0]:
                found = cls(column=column, sensitive=tuple(sensitive), rows=rows, columns=columns, true_counts=table)
                best = (kept, found)
        return best[1] if best else None

    def describe(self) -> dict[str, Any]:
        """Which table, and the true association."""
        return {"column": self.column, "association": uncertainty_coefficient(self.true_counts)}


def reconstruction(reference: Reference, release: Asks, estimator: str | None = None) -> dict[str, float] | None:
    """Distances and association of the estimated table; None where the method gives no estimate of it."""
    names = ", ".join(quoted(c) for c in (reference.column, *reference.sensitive))
    try:
        answer = release.sql(f"SELECT {names}, COUNT(*) AS n FROM release GROUP BY {names}", estimator=estimator).table
    except SfumatoError:
        return None
    row = {key: i for i, key in enumerate(reference.rows)}
    column = {key: j for j, key in enumerate(reference.columns)}
    estimated = np.zeros_like(reference.true_counts)
    keys = zip(*[answer[c].to_pylist() for c in (reference.column, *reference.sensitive)], strict=True)
    for key, value in zip(keys, answer["n"].to_numpy(), strict=True):
        if key[:1] in row and key[1:] in column:
            estimated[row[key[:1]], column[key[1:]]] = value
    if not np.isfinite(estimated).all() or estimated.sum() <= 0:
        return None
    true = reference.true_counts
    return {
        "kl": kl_distance(true, estimated, mix=MIX),
        "chi_square": chi_square_distance(true, estimated),
        "euclid": euclidean_distance(true, estimated),
        "association": uncertainty_coefficient(estimated),
        "association_true": uncertainty_coefficient(true),
    }
