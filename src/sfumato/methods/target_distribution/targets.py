"""Target distributions over a domain, their integer weights in a tree, and how many blocks stand for a group."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...errors import SpecError
from ...laws.block_plans import leaf_probabilities
from ...laws.block_tree import BlockTree

Number = int | float | Fraction
MAX_WEIGHT = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """Integer child weights for every node of a tree, the distribution they represent, and how far it was moved."""

    weights: NDArray[np.int64]  # weight of each node among its siblings; 1 at the root; 0 = no mass
    probabilities: tuple[Fraction, ...]  # P', over the leaf positions
    distance: Fraction  # total variation between the requested distribution and P'


def uniform_masses(leaves: int) -> tuple[Fraction, ...]:
    """The same mass for every value."""
    return (Fraction(1),) * leaves


def zipf_masses(leaves: int, exponent: Number) -> tuple[Fraction, ...]:
    """Mass 1 / rank^exponent by position, exact when the exponent is a whole number."""
    if not (math.isfinite(exponent) and exponent >= 0):
        raise SpecError(f"zipf(s) needs a finite s of at least 0, got {exponent}", field="target")
    if exponent == int(exponent):
        return tuple(Fraction(1, rank ** int(exponent)) for rank in range(1, leaves + 1))
    return tuple(Fraction(float(rank) ** -float(exponent)) for rank in range(1, leaves + 1))


def normal_masses(values: Sequence[Number], mean: Number, sd: Number) -> tuple[Fraction, ...]:
    """The normal probability of each value's cell; cells end halfway between neighbouring values."""
    if not (math.isfinite(mean) and math.isfinite(sd) and sd > 0):
        raise SpecError(f"normal(mean,sd) needs finite numbers and sd above 0, got {mean}, {sd}", field="target")
    points = np.array([float(v) for v in values])
    edges = np.concatenate(([-np.inf], (points[1:] + points[:-1]) / 2, [np.inf]))
    z = (edges - float(mean)) / float(sd)
    low, high = z[:-1], z[1:]
    flip = low > 0  # the upper tail through its mirror image, where differences keep their digits
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    return tuple(Fraction(float(m)) for m in special.ndtr(high) - special.ndtr(low))


def explicit_masses(domain: Sequence[object], weights: Mapping[object, object]) -> tuple[Fraction, ...]:
    """The declared weights in domain order; values without a weight have no mass."""
    unknown = [value for value in weights if value not in set(domain)]
    if unknown:
        raise SpecError(f"the target gives a weight to {unknown[0]!r}, which is not in the domain", field="target")
    return tuple(_fraction(weights.get(value, 0)) for value in domain)


def parse_target(text: str) -> tuple[str, tuple[Fraction, ...]]:
    """The kind of a target and its numbers: 'uniform', 'source', 'normal(mean,sd)', 'zipf(s)'."""
    match = re.fullmatch(r"\s*(source|uniform|normal|zipf)\s*(?:\(([^()]*)\))?\s*", text)
    wanted = {"source": 0, "uniform": 0, "normal": 2, "zipf": 1}
    if match:
        numbers = tuple(_fraction(part) for part in match[2].split(",")) if match[2] else ()
        if len(numbers) == wanted[match[1]]:
            if match[1] == "zipf":
                zipf_masses(1, numbers[0])  # refuses what is out of range
            elif match[1] == "normal":
                normal_masses([0], *numbers)
            return match[1], numbers
    raise SpecError(
        f"target {text!r} is none of source, uniform, normal(mean,sd), zipf(s) or a file of value,weight",
        field="target",
    )


def quantise(tree: BlockTree, masses: Sequence[Number], *, max_weight: int | None = MAX_WEIGHT) -> Target:
    """The weights nearest in L1 to the child shares at every node, with sums at most `max_weight` (None: exact)."""
    exact = check_masses(masses, leaves=tree.leaves)
    scale = math.lcm(*(m.denominator for m in exact))
    prefix = [0]
    for mass in exact:
        prefix.append(prefix[-1] + mass.numerator * (scale // mass.denominator))
    mass_of = [prefix[b] - prefix[a] for a, b in tree.blocks()]
    weights = np.ones(tree.nodes, dtype=np.int64)
    for node in np.flatnonzero(tree.children):
        part = tree.child_slice(int(node))
        weights[part] = _node_weights(tuple(mass_of[part]), max_weight)
    probabilities = leaf_probabilities(tree, weights)
    total = sum(exact)
    moved = sum((abs(m / total - p) for m, p in zip(exact, probabilities, strict=True)), Fraction(0))
    return Target(weights=weights, probabilities=probabilities, distance=moved / 2)


def check_masses(masses: Sequence[Number], *, leaves: int) -> list[Fraction]:
    """The masses as fractions; refuses a wrong length, negative or non-finite masses, and all zeros."""
    if len(masses) != leaves:
        raise SpecError(f"the target has {len(masses)} masses for a domain of {leaves} values", field="target")
    if any(not math.isfinite(m) for m in masses):
        raise SpecError("the target holds a mass that is not a finite number", field="target")
    exact = [Fraction(m) for m in masses]
    if any(m < 0 for m in exact):
        raise SpecError("the target holds a negative mass", field="target")
    if not any(exact):
        raise SpecError("every mass of the target is 0; give at least one value a mass", field="target")
    return exact


@lru_cache(maxsize=65536)
def _node_weights(masses: tuple[int, ...], max_weight: int | None) -> tuple[int, ...]:
    """Child weights of one node: exact where the reduced sum is small enough, else the nearest in L1."""
    total = sum(masses)
    if total == 0:
        return (0,) * len(masses)
    divisor = math.gcd(*masses)
    reduced = tuple(m // divisor for m in masses)
    if max_weight is None:
        if sum(reduced) >= 2**31:
            raise SpecError("the exact weights of the target are too large; set max_weight", field="max_weight")
        return reduced
    with_mass = sum(m > 0 for m in masses)
    if with_mass > max_weight:
        raise SpecError(
            f"a node of the hierarchy has {with_mass} children with mass, and weights sum to {max_weight} at most; "
            f"use a hierarchy of smaller arity, or in Python max_weight={with_mass}",
            field="hierarchy",
        )
    if sum(reduced) <= max_weight:
        return reduced
    best, best_error = reduced, None
    for unit in range(with_mass, max_weight + 1):
        weights = _largest_remainder(reduced, sum(reduced), unit)
        # |w/unit - m/total| summed, times the common factor total
        error = Fraction(sum(abs(w * sum(reduced) - m * unit) for w, m in zip(weights, reduced, strict=True)), unit)
        if best_error is None or error < best_error:
            best, best_error = weights, error
    divisor = math.gcd(*best)
    return tuple(w // divisor for w in best)


def _largest_remainder(masses: tuple[int, ...], total: int, unit: int) -> tuple[int, ...]:
    """Whole weights of sum `unit`, at least 1 where there is mass, nearest in L1 to unit * masses / total."""
    weights = [max(1, m * unit // total) if m else 0 for m in masses]
    have = [i for i, m in enumerate(masses) if m]
    while sum(weights) < unit:  # the best gain of one more: the largest unit*m - w*total
        i = max(have, key=lambda i: (masses[i] * unit - weights[i] * total, -i))
        weights[i] += 1
    while sum(weights) > unit:  # the least loss of one less, never below 1
        i = min((i for i in have if weights[i] > 1), key=lambda i: (masses[i] * unit - weights[i] * total, i))
        weights[i] -= 1
    return tuple(weights)


def _fraction(text: Any) -> Fraction:
    try:
        return Fraction(text.strip()) if isinstance(text, str) else Fraction(text)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise SpecError(f"the target holds {text!r}, which is not a number", field="target") from None
