"""How far readers get: the ladder of docs/explanation/readers.md, computed from what a method does to a record.

A method publishes of every record a part (sub-table, group, class; one part if there are none) and, in it, an output.
Its `readers` hands the figures of its structure to `ladder`; the closed forms stand here, each once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ...laws.set_channel import SetChannel
from ...model.private import Known
from ...model.public import Claim, Codes, Domain, Floats, ReaderBound
from ...stats.gamma import posterior
from ...stats.joint_codes import distinct_rows
from ..contract import Method

DIGITS = 6
SLACK = 1e-12  # relative: room for the rounding of sums of floats
ONE_ROW = "assuming that each person has one row"
SAME_QUASI = "prior: the share among the rows with the same quasi-identifiers; the table decides"
LIST_ASIDE = "the list of uncovered values and their share, made of all records, aside"
TOO_MANY = "the table has too many quasi-identifier cells to look at"

ANY_PRIOR = ("value", "set", "corruption", "person")  # readers who may think any values likely

Figure = Fraction | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The largest posterior of one reader, where it is known, and why; `fails`: it is above rho2, or has no bound."""

    posterior: Figure
    why: str
    fails: bool = False


def ladder(
    claim: Claim, *, value: Found, histogram: Found, linking: Found, corruption: Found, person: Found
) -> tuple[ReaderBound, ...]:
    """The six readers in their order. What holds for one value holds for a set of values, and fails with it."""
    rows = claim.rows_per_person or 1
    why = person.why if claim.rows_per_person else f"{person.why}; {ONE_ROW}"
    found = (
        ("value", value),
        ("set", value),
        ("histogram", histogram),
        ("linking", linking),
        ("corruption", corruption),
    )
    first = tuple(_bound(name, f, claim) for name, f in found)
    return (*first, _bound("person", replace(person, why=why), claim, rows))


def _bound(name: str, found: Found, claim: Claim, rows: int | None = None) -> ReaderBound:
    reached = found.posterior
    held: bool | None = None
    if reached is not None and claim.rho2 is not None:
        room = SLACK if isinstance(reached, float) else 0
        held = bool(reached <= claim.rho2 * (1 + Fraction(room)))
    elif found.fails or (reached is not None and reached >= 1):
        held = False
    shown = None if reached is None else round_up(reached)
    if held and shown is not None and claim.rho2 is not None:
        shown = min(shown, float(claim.rho2))  # rounding up never passes a bound that holds
    return ReaderBound(reader=name, held=held, posterior=shown, why=found.why, rows=rows)


def round_up(x: Fraction | float, digits: int = DIGITS) -> float:
    """Losses round up; at most 1."""
    if isinstance(x, float):
        return min(1.0, math.ceil(x * (1 - SLACK) * 10**digits) / 10**digits)
    return min(1.0, -((-x.numerator * 10**digits) // x.denominator) / 10**digits)


def with_domain(bounds: tuple[ReaderBound, ...], *, declared: bool, known: Known | None) -> tuple[ReaderBound, ...]:
    """The same where the domain may come from the data: it then tells the reader "corruption" which values occur."""
    if declared or (known is not None and not _held_once(known)):
        return bounds
    why = "the domain is taken from the data: it tells whether a value occurs that no other record has; declare it"
    last = {"held": False, "posterior": 1.0} if known is not None else {"posterior": None}

    def told(b: ReaderBound) -> ReaderBound:
        if b.reader != "corruption" or b.posterior == 1 or (b.posterior is None and known is None):
            return b
        return replace(b, **{"held": None if b.held else b.held, "why": why} | last)

    return tuple(map(told, bounds))


def _held_once(known: Known) -> bool:
    """Whether a value of some sensitive column, or of columns that are one value together, has one record only."""
    counts = known.joint.of_values()
    columns = (np.bincount(codes, weights=counts) for codes in known.joint.codes.T)
    return any(bool((rows == 1).any()) for rows in columns)


def list_aside(bounds: tuple[ReaderBound, ...], claim: Claim) -> tuple[ReaderBound, ...]:
    """The same with what reader 5 is not asked about: the stated list of uncovered values is made of all records."""
    if claim.rho1 is None:
        return bounds  # all values are covered, and nothing is listed
    return tuple(replace(b, why=f"{b.why}; {LIST_ASIDE}") if b.reader == "corruption" and b.held else b for b in bounds)


def values_ruled_out(bounds: tuple[ReaderBound, ...]) -> tuple[ReaderBound, ...]:
    """The same where a plan tells that some values of the domain do not occur: a prior may be on them but for rho1."""
    why = "the plan tells which declared values do not occur: a prior may leave no chance to those that do"
    return tuple(
        replace(b, held=False, posterior=1.0, why=f"{why}; {ONE_ROW}" if ONE_ROW in b.why else why)
        if b.reader in ANY_PRIOR and b.held is not False
        else b
        for b in bounds
    )


# --- records that are randomised one by one ------------------------------------------------------------------


def amplified(prior: Fraction, gamma: Fraction | None, rows: int = 1) -> Fraction:
    """rho1 g / (1 - rho1 + rho1 g) with g = gamma^rows: every reader whose odds can move by gamma at most."""
    return Fraction(1) if gamma is None or prior >= 1 else posterior(prior, gamma**rows)


def _power(gamma: Fraction, rows: int) -> str:
    grown = gamma**rows
    return f"{float(grown):.4g}" if grown < 10**300 else "more than any bound"


def independent(
    claim: Claim, gamma: Fraction | None, *, histogram: Found, linking: Found, corruption: Found | None = None
) -> tuple[ReaderBound, ...]:
    """The ladder of a method that randomises every record by itself over the whole domain.

    `gamma` is the largest ratio of two chances of one output; None: infinite. Other records tell nothing about this
    one, and the outputs of k rows multiply, so that one formula gives the readers value, set, corruption and person.
    """
    rows = claim.rows_per_person or 1
    if gamma is None:
        certain = Found(posterior=Fraction(1), why="a sensitive column is published as it is")
        return ladder(
            claim, value=certain, histogram=certain, linking=certain, corruption=corruption or certain, person=certain
        )
    if claim.rho1 is None:
        unknown = Found(posterior=None, why=f"odds move by at most {float(gamma):.4g}; no prior is named")
        return ladder(
            claim,
            value=unknown,
            histogram=histogram,
            linking=linking,
            corruption=corruption or unknown,
            person=unknown,
        )
    said = f"odds move by at most {float(gamma):.4g}, for every prior up to {float(claim.rho1):.4g}"
    one = Found(posterior=amplified(claim.rho1, gamma), why=said)
    person = Found(
        posterior=amplified(claim.rho1, gamma, rows),
        why=said if rows == 1 else f"the odds of {rows} rows multiply: they move by at most {_power(gamma, rows)}",
    )
    others = Found(posterior=one.posterior, why="every record is randomised by itself: others tell nothing about it")
    return ladder(
        claim, value=one, histogram=histogram, linking=linking, corruption=corruption or others, person=person
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChannel:
    """Columns that keep their value with chance `keep` and show each other value with chance `other`, independently."""

    keep: tuple[Fraction, ...]
    other: tuple[Fraction, ...]

    @property
    def gamma(self) -> Fraction | None:
        """The largest ratio of two chances of one output; None: infinite."""
        return None if 0 in self.other else math.prod(self.keep, start=Fraction(1)) / math.prod(self.other)


def channelled(
    claim: Claim, channel: ValueChannel, known: Known | None, corruption: Found | None = None
) -> tuple[ReaderBound, ...]:
    """The ladder of value channels over the whole domain: the readers of `uniform` and of `randomized-response`."""
    return whole_domain(
        claim,
        channel.gamma,
        known,
        lambda k, cells: seen_as_it_is(k, channel, cells=cells),
        worst="the largest posterior of a covered value is reached when it is shown",
        corruption=corruption,
    )


def whole_domain(
    claim: Claim,
    gamma: Fraction | None,
    known: Known | None,
    largest: Callable[[Known, bool], float],
    *,
    worst: str,
    corruption: Found | None,
) -> tuple[ReaderBound, ...]:
    """The ladder of one channel over the whole domain, whatever a record shows.

    `largest(known, cells)` is the largest posterior of a looked-at value with the prior n_x / n of the table, or of
    its cell; `worst` says what shows it.
    """
    if known is not None:
        mine = Found(posterior=largest(known, False), why=f"prior: the true histogram; {worst}")
    elif claim.rho1 is not None:
        mine = Found(
            posterior=amplified(claim.rho1, gamma),
            why=f"covered values hold at most {float(claim.rho1):.4g} of the rows",
        )
    else:
        mine = Found(posterior=None, why="the histogram decides")
    linking = linked(
        known, "prior: the share among the rows with the same quasi-identifiers", lambda k: largest(k, True)
    )
    return independent(claim, gamma, histogram=mine, linking=linking, corruption=corruption)


def seen_as_it_is(known: Known, channel: ValueChannel, *, cells: bool, weight: Floats | None = None) -> float:
    """The largest posterior of a looked-at value x after the output x, with the prior n_x / n of its cell.

    f_x P(x|x) / sum_y f_y P(x|y). Output x is the worst: it maximises P(z|x) / P(z|y) for all y at once. With several
    columns P(x|y) = prod_i (other_i + (keep_i - other_i) [y_i = x_i]), so the sum runs over the subsets of columns on
    which y agrees. `weight` is the share of each value's records that the part looked at holds.
    """
    joint = known.joint
    count: Floats = joint.true_counts.astype(np.float64)
    if weight is not None:
        count = count * weight[joint.value]
    inside = count > 0
    if not (inside & known.looked[joint.value]).any():
        return 0.0
    count, value = count[inside], joint.value[inside]
    cell = joint.cell[inside] if cells else np.zeros(len(count), dtype=np.int64)
    codes = joint.codes[value].astype(np.int64)
    if not cells:  # one entry for each value is enough
        total = np.bincount(value, weights=count, minlength=len(joint.codes)).astype(np.float64)
        value = np.flatnonzero(total)
        count, cell, codes = total[value], np.zeros(len(value), dtype=np.int64), joint.codes[value].astype(np.int64)
    columns = range(codes.shape[1])
    shown = np.zeros(len(count))
    for size in range(codes.shape[1] + 1):
        for same in combinations(columns, size):
            factor = math.prod(
                float(channel.keep[i] - channel.other[i] if i in same else channel.other[i]) for i in columns
            )
            if factor:
                _, place = distinct_rows([cell, *(codes[:, i] for i in same)], len(count))
                shown += factor * np.bincount(place, weights=count)[place]
    own = count * math.prod(map(float, channel.keep))
    return float((own / shown)[known.looked[value]].max(initial=0.0))


# --- parts that are published -------------------------------------------------------------------------------


def in_parts(claim: Claim, *, histogram: Found, linking: Found, corruption: str) -> tuple[ReaderBound, ...]:
    """The ladder of a method that publishes which part (sub-table, group, class) a record is in.

    A prior may give all other values of a part no chance: then the part alone makes the reader certain. `corruption`
    says how the other records give the last one away.
    """
    certain = Found(
        posterior=Fraction(1), why="the part of a record is published: a prior may leave no chance to its other values"
    )
    return ladder(
        claim,
        value=certain,
        histogram=histogram,
        linking=linking,
        corruption=Found(posterior=Fraction(1), why=corruption),
        person=certain,
    )


# --- cells of quasi-identifiers -------------------------------------------------------------------------------


def alone(known: Known) -> bool:
    """Whether a looked-at value is the only one of its cell: then the reader is certain, whatever is published."""
    joint = known.joint
    values = np.bincount(joint.cell)
    return bool((known.looked[joint.value] & (values[joint.cell] == 1)).any())


def linked(known: Known | None, why: str, largest: Callable[[Known], float | None], unknown: str = TOO_MANY) -> Found:
    """The reader "linking": `largest` of the known table, unless a cell gives a value away or it is not known."""
    if known is None:
        return Found(posterior=None, why=SAME_QUASI)
    if not known.linkable:
        return Found(posterior=None, why=TOO_MANY)
    if alone(known):
        return Found(posterior=Fraction(1), why="rows with equal quasi-identifiers all have one value")
    found = largest(known)
    return Found(posterior=found, why=unknown if found is None else why)


# --- set readers ------------------------------------------------------------------------------------------------------
# How far readers of published sets get: closed forms for one set channel.
#
# For a reader whose prior is a table's counts n_x, n in all, the set Z leaves for a value x of Z
#
#     n_x gamma / (n + (gamma - 1) n(Z)),      n(Z) = sum of n_y over y in Z,
#
# so that the worst set for x is the listed one that holds x and the fewest records (docs/explanation/set-channels.md,
# 2).


MOST_NUMBERS = 4_000_000  # of one dense block of cells times sets


def channelled_sets(
    claim: Claim, channel: SetChannel, known: Known | None, corruption: Found | None = None
) -> tuple[ReaderBound, ...]:
    """The ladder of one set channel over the whole domain; `channel` is over the profile's domain."""
    everything = np.arange(channel.size, dtype=np.int32)
    return whole_domain(
        claim,
        channel.gamma_run,
        known,
        lambda k, cells: set_seen(k, channel, everything, cells=cells),
        worst="the largest posterior of a covered value, over the sets that hold it",
        corruption=corruption,
    )


def set_seen(known: Known, channel: SetChannel, values: Codes, *, cells: bool, weight: Floats | None = None) -> float:
    """The largest posterior of a looked-at value after a published set, with the prior n_x / n of its cell.

    `values` are the domain codes that the channel is over, ascending; `weight` is the share of each value's records
    that the part looked at holds.
    """
    joint, gamma = known.joint, float(channel.gamma_run)
    code = joint.codes[:, 0]
    place = np.minimum(np.searchsorted(values, code), len(values) - 1)
    held = values[place] == code
    count: Floats = joint.true_counts.astype(np.float64)
    if weight is not None:
        count = count * weight[joint.value]
    inside = (count > 0) & held[joint.value]
    cell = joint.cell[inside] if cells else np.zeros(int(inside.sum()), dtype=np.int64)
    table = csr_array(
        (count[inside], (cell, place[joint.value[inside]])), shape=(int(cell.max(initial=0)) + 1, len(values))
    )
    looked = np.unique(place[held & known.looked])
    step = max(1, MOST_NUMBERS // len(channel.members))
    return max(
        (_largest(table[at : at + step].toarray(), channel, looked, gamma) for at in range(0, table.shape[0], step)),
        default=0.0,
    )


def _largest(counts: Floats, channel: SetChannel, looked: Codes, gamma: float) -> float:
    """The same for a block of cells, (cells, m)."""
    shown = counts @ channel.members.T  # n(Z)
    rows, found = counts.sum(axis=1), 0.0
    for x in looked.tolist():
        at = np.flatnonzero(counts[:, x])
        if len(at):
            fewest = shown[np.ix_(at, np.flatnonzero(channel.members[:, x]))].min(axis=1)
            found = max(found, float((counts[at, x] * gamma / (rows[at] + (gamma - 1) * fewest)).max()))
    return found


# The readers of any method: what its release states about them, and what the custodian knows of her table.


def public_readers(
    method: Method[Any, Any],
    plan: Any,
    domains: Sequence[Domain],
    *,
    rows_per_person: int | None = None,
    claim: Claim | None = None,
) -> tuple[ReaderBound, ...]:
    """The readers as release.json states them: what follows from the plan and the domains of sensitive columns.

    `claim` is the pair of bounds to hold, the plan's own where none is given.
    """
    asked = replace(claim or method.claim(plan), rows_per_person=rows_per_person)
    return _with_domains(method, plan, domains, asked, None)


def known_readers(method: Method[Any, Any], plan: Any, claim: Claim, known: Known) -> tuple[ReaderBound, ...]:
    """The readers with the exact figures of this table; for the custodian."""
    domains = [known.profile.domains[u] for u in known.units]
    return _with_domains(method, plan, domains, claim, known)


def _with_domains(
    method: Method[Any, Any],
    plan: Any,
    domains: Sequence[Domain],
    claim: Claim,
    known: Known | None,
) -> tuple[ReaderBound, ...]:
    """The method's readers with what the domains, and a plan that leaves values of them out, tell by themselves."""
    bounds = method.readers(plan, claim, known)
    if plan.law.rules_out(domains):
        bounds = values_ruled_out(bounds)
    bounds = with_domain(bounds, declared=all(domain.declared for domain in domains), known=known)
    return list_aside(bounds, claim)
