"""Readers by brute force: every record, output and prior of a table, in plain loops that share no code with sfumato.

A law maps a true value to the chances of everything that may be published about a record that has it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from itertools import combinations

Law = Mapping[Hashable, Mapping[Hashable, Fraction]]


def shares(values: Iterable[Hashable]) -> dict[Hashable, Fraction]:
    """Share of every value."""
    listed = list(values)
    return {v: Fraction(listed.count(v), len(listed)) for v in dict.fromkeys(listed)}


def by_prior(law: Law, prior: Mapping[Hashable, Fraction], looked: Iterable[Hashable]) -> Fraction:
    """The largest posterior of a looked-at value over all outputs."""
    found = Fraction(0)
    for x in looked:
        if prior.get(x, 0) == 0:
            continue
        for output, chance in law[x].items():
            if chance:
                seen = sum((prior[y] * law[y].get(output, Fraction(0)) for y in prior if y in law), Fraction(0))
                found = max(found, prior[x] * chance / seen)
    return found


def of_sets(law: Law, rho1: Fraction, largest: int | None = None) -> Fraction:
    """The largest posterior of a set of at most `largest` values, over all priors that give it rho1.

    A posterior is a ratio of linear functions of the prior, so it is largest where the prior sits on one value inside
    the set and on one outside.
    """
    values = list(law)
    found = Fraction(0)
    for size in range(1, min(largest or len(values), len(values) - 1) + 1):
        for inside in combinations(values, size):
            for x in inside:
                for y in (v for v in values if v not in inside):
                    found = max(found, by_prior(law, {x: rho1, y: 1 - rho1}, [x]))
    return found


def channel(values: Iterable[Hashable], keep: Fraction, other: Fraction) -> dict[Hashable, dict[Hashable, Fraction]]:
    """The law of a value channel."""
    listed = list(values)
    return {x: {z: keep if z == x else other for z in listed} for x in listed}


def together(first: Law, second: Law) -> dict[Hashable, dict[Hashable, Fraction]]:
    """Two columns, each with its own law; values and outputs are pairs."""
    return {
        (x, y): {(a, b): p * q for a, p in first[x].items() for b, q in second[y].items()}
        for x in first
        for y in second
    }


def repeated(law: Law, rows: int) -> dict[Hashable, dict[Hashable, Fraction]]:
    """`rows` rows of one person, all with her value, each published by itself."""
    found: dict[Hashable, dict[Hashable, Fraction]] = {x: {(): Fraction(1)} for x in law}
    for _ in range(rows):
        found = {
            x: {(*seen, z): p * q for seen, p in found[x].items() for z, q in law[x].items()}  # type: ignore[misc]
            for x in law
        }
    return found
