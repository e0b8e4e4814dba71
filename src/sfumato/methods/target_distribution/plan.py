"""Target distributions as integer weights in a tree, the groups of a table, and the blocks that stand for each."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...errors import PlanError, SpecError
from ...laws.block_tree import (
    BlockTree,
    balanced,
    check_numeric_domain,
    check_plan,
    equal_width,
    from_blocks,
    from_nested,
    from_rows,
    leaf_probabilities,
    plan,
    spans,
    unit_sums,
)
from ...laws.blocks import only_homogeneous
from ...model.private import Histogram, Profile
from ...model.public import Domain, Integers
from ...stats.joint_codes import sum_by_group
from .fakes import WORK_LIMIT, FakeChoice, allowed_fakes, choose_fakes

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


# Planning of target-distribution: what people write, turned into a tree, targets, groups and checked blocks.


# --- target parsing ---------------------------------------------------------------------------------------------------
# What people write for target-distribution, turned into grouping rules, a tree over the domain, and targets.


BUILT_IN = re.compile(r"\s*(balanced|width)\s*(?:\(\s*(\d+)\s*\))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """How one column makes groups: as it is, by ranges of `width`, or by its first `prefix` characters."""

    column: str
    width: Fraction | None = None
    prefix: int | None = None

    def key(self, value: Any) -> Hashable:
        """The part of a group's key that this value stands for; missing values are a part of their own."""
        if value is None or (self.width is None and self.prefix is None):
            return value
        if self.prefix is not None:
            return str(value)[: self.prefix]
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise SpecError(f'"{self.column}//{self.width}" needs a numeric column', field="partition_by")
        return int(Fraction(value) // (self.width or 1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """The tree over the domain: leaf position -> place in the domain, and numbers where the column is numeric."""

    tree: BlockTree
    order: tuple[int, ...]
    values: tuple[Fraction, ...] | None

    @property
    def spans(self) -> NDArray[np.float64]:
        return spans(self.tree, self.values)

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        points = np.array([float(v) for v in self.values or range(self.tree.leaves)])
        return points[self.tree.start], points[self.tree.stop - 1]


def parse_rule(text: str) -> GroupRule:
    """'age', 'age//10' or 'zip[:3]' as a rule."""
    if match := re.fullmatch(r"(.+?)\s*//\s*([0-9.]+)", text):
        width = Fraction(match[2]) if re.fullmatch(r"\d+(\.\d+)?", match[2]) else Fraction(0)
        if width <= 0:
            raise SpecError(f'"{text}" needs a width above 0, as in age//10', field="partition_by")
        return GroupRule(column=match[1], width=width)
    if match := re.fullmatch(r"(.+?)\s*\[:\s*(\d+)\s*\]", text):
        return GroupRule(column=match[1], prefix=int(match[2]))
    if not text:
        raise SpecError("a group needs a column name", field="partition_by")
    return GroupRule(column=text)


def check_target(target: Any) -> None:
    """Nothing; refuses what cannot be a target."""
    if isinstance(target, str):
        parse_target(target)
    elif not isinstance(target, Mapping) or not target:
        raise SpecError(f"target must be text or weights by value, got {type(target).__name__}", field="target")
    elif by_part(target):
        for inner in target.values():
            check_target(inner)


def by_part(target: Mapping[Any, Any]) -> bool:
    """Whether the mapping gives targets by part rather than weights by value."""
    return any(isinstance(v, Mapping) or (isinstance(v, str) and v.strip()[:1].isalpha()) for v in target.values())


def check_hierarchy(spec: Any) -> None:
    """Nothing; refuses what cannot be a hierarchy."""
    if isinstance(spec, str):
        match = BUILT_IN.fullmatch(spec)
        if not match or int(match[2] or 2) < 2:
            raise SpecError(
                f'hierarchy "{spec}" is none of balanced(2), width(2), .. or a file of value;label;..;*',
                field="hierarchy",
            )
    elif not isinstance(spec, list | tuple) or not spec:
        raise SpecError("hierarchy must be text, nested lists, or rows of (value, label, ..)", field="hierarchy")


def target_text(target: Any) -> str:
    """The target as the release names it."""
    return target if isinstance(target, str) else "declared weights"


def hierarchy_text(spec: Any) -> str:
    """The hierarchy as the release names it."""
    return spec if isinstance(spec, str) else "nested lists" if isinstance(spec, list) else "labels by value"


def from_data(target: Any) -> bool:
    """Whether (part of) the target was taken from the table."""
    if isinstance(target, str):
        return parse_target(target)[0] == "source"
    return any(isinstance(v, str) and v.strip() == "source" for v in target.values())


def shape_of(spec: Any, domain: Domain) -> Shape:
    """The tree over the values of the sensitive column."""
    values = [value[0] for value in domain.values]
    numbers = None
    if all(isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in values):
        numbers = tuple(_number(v) for v in values)
        check_numeric_domain(numbers)
    if isinstance(spec, str):
        match = BUILT_IN.fullmatch(spec)
        assert match is not None
        arity = int(match[2] or 2)
        if match[1] == "width" and numbers is None:
            raise SpecError(
                "hierarchy width(..) needs a numeric sensitive column without missing values", field="hierarchy"
            )
        tree = (
            equal_width(numbers, arity=arity)
            if match[1] == "width" and numbers is not None
            else balanced(len(values), arity=arity)
        )
        return Shape(tree=tree, order=tuple(range(len(values))), values=numbers)
    return _declared_shape(spec, values, numbers, declared=domain.declared)


def _declared_shape(spec: Any, values: list[Any], numbers: tuple[Fraction, ...] | None, *, declared: bool) -> Shape:
    """A tree that people wrote, cut down to the values of the domain."""
    if isinstance(spec, list):
        leaves, full = from_nested(spec)
    elif numbers is None:
        leaves, full = from_rows(spec)
    else:
        leaves, full = from_rows(spec, parse=_number)
    place = {(_number(v) if numbers is not None else str(v)): i for i, v in enumerate(leaves)}
    wanted = list(numbers) if numbers is not None else [str(v) for v in values]
    missing = [v for v in wanted if v not in place]
    if missing:
        named = f", for example {missing[0]}" if declared else ""  # a value seen in the table only is never quoted
        raise SpecError(
            f"the hierarchy does not cover {len(missing)} of the {len(values)} values of the domain{named}; "
            "add a row for each",
            field="hierarchy",
        )
    at = np.array([place[v] for v in wanted])
    order = np.argsort(at, kind="stable")
    if numbers is not None and (np.diff(order) < 0).any():
        raise SpecError("the hierarchy of a numeric column must list its values in ascending order", field="hierarchy")
    kept = np.concatenate(([0], np.cumsum(np.bincount(at, minlength=full.leaves))))
    names: dict[tuple[int, int], str | None] = {}
    for node, (a, b) in enumerate(full.blocks()):
        if kept[b] > kept[a]:
            names.setdefault((int(kept[a]), int(kept[b])), full.labels[node] if full.labels else None)
    tree = from_blocks(names)
    labels = tuple(names.get(block) for block in tree.blocks()) if full.labels else None
    tree = replace(tree, labels=labels)
    return Shape(tree=tree, order=tuple(order.tolist()), values=numbers)


def _number(text: Any) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, TypeError, ZeroDivisionError):
        raise SpecError(
            f"the hierarchy of a numeric column lists {text!r}, which is not a number", field="hierarchy"
        ) from None


def target_of(spec: Any, shape: Shape, domain: Domain, part: str, true_counts: Integers) -> Target:
    """The target of one part, as weights of the tree."""
    wanted = spec.target
    if spec.target_by and isinstance(wanted, Mapping) and by_part(wanted):
        by_name = {str(k): v for k, v in wanted.items()}
        if part not in by_name:
            raise SpecError(f'target has no entry for the part "{part}" of {", ".join(spec.target_by)}', field="target")
        wanted = by_name[part]
    values = [domain.values[c][0] for c in shape.order]
    masses: Any
    if isinstance(wanted, Mapping):
        text: dict[object, object] = {str(k): v for k, v in wanted.items()}
        masses = explicit_masses([str(v) for v in values], text)
    else:
        kind, numbers = parse_target(wanted)
        if kind == "source":
            masses = [int(n) for n in true_counts]
        elif kind == "uniform":
            masses = uniform_masses(len(values))
        elif kind == "zipf":
            masses = zipf_masses(len(values), numbers[0])
        else:
            if shape.values is None:
                raise SpecError("target normal(mean,sd) needs a numeric sensitive column", field="target")
            masses = normal_masses(shape.values, *numbers)
    return quantise(shape.tree, masses, max_weight=spec.max_weight)


# --- target planning --------------------------------------------------------------------------------------------------
# Planning of target-distribution: what people write, turned into a tree, targets, groups and checked blocks.


CELLS = 2**22  # groups x nodes planned at a time
AUDITED_GROUPS, AUDITED_ROWS = 40, 80  # per chunk; exact counting of histograms grows with the square of the rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Made:
    """Everything planning decided. Private: it knows which blocks are fake."""

    shape: Shape
    labels: tuple[str, ...]  # of the domain, in leaf order
    targets: tuple[Target, ...]
    part_names: tuple[str, ...]
    group_of: Integers  # code of the partition columns -> group
    group_keys: tuple[str, ...]
    group_part: Integers
    group_rows: Integers
    group: Integers  # blocks, sparse and sorted: group, node, count
    node: Integers
    count: Integers
    fakes: Integers  # per group
    spec: Any
    whole: NDArray[np.bool_]  # groups too small to plan: sent to the root whatever their values
    random_depth: bool
    notices: tuple[str, ...]
    true_total: Integers  # over the leaves


def make(spec: Any, profile: Profile, rng: np.random.Generator | None = None) -> Made:
    """The whole plan: tree, groups, targets, fakes, blocks; every block count checked exactly."""
    if len(np.unique(profile.histograms[0].codes[:, 0])) < 2:
        raise PlanError("the sensitive column has one distinct value; nothing can be hidden")
    shape = shape_of(spec.hierarchy, profile.domains[0])
    leaf_of = np.empty(len(shape.order), dtype=np.int64)
    leaf_of[list(shape.order)] = np.arange(len(shape.order))
    groups = _groups(spec, profile)
    value = leaf_of[profile.histograms[0].codes[:, 0]]
    group = groups.of_entry(profile.histograms[0])
    count = profile.histograms[0].true_counts
    labels = tuple(str(profile.domains[0].values[c][0]) for c in shape.order)
    parts = len(groups.part_names)
    per_part = sum_by_group(count, (groups.part[group], value), (parts, len(leaf_of)))
    made = [target_of(spec, shape, profile.domains[0], name, per_part[p]) for p, name in enumerate(groups.part_names)]
    notices = list(_notices(spec, shape, made, groups))
    found, fakes, fake_notice = _plan_groups(spec, shape, made, groups=groups, entries=(group, value, count), rng=rng)
    notices += fake_notice
    return Made(
        shape=shape,
        labels=labels,
        targets=tuple(made),
        part_names=groups.part_names,
        group_of=groups.of_code,
        group_keys=groups.keys,
        group_part=groups.part,
        group_rows=groups.rows,
        group=found[0],
        node=found[1],
        count=found[2],
        fakes=fakes,
        spec=spec,
        whole=groups.rows < spec.min_group,
        random_depth=rng is not None,
        notices=tuple(dict.fromkeys(notices)),
        true_total=per_part.sum(axis=0),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Groups:
    """Groups in the order of their keys, numbered from 0."""

    of_code: Integers
    keys: tuple[str, ...]
    part: Integers
    rows: Integers
    part_names: tuple[str, ...]

    def of_entry(self, histogram: Histogram) -> Integers:
        if histogram.codes.shape[1] == 1:
            return np.zeros(len(histogram.codes), dtype=np.int64)
        return self.of_code[histogram.codes[:, 1]]


def _groups(spec: Any, profile: Profile) -> _Groups:
    """Which combination of the partition columns belongs to which group; small neighbours are merged."""
    if len(profile.domains) == 1:
        return _Groups(
            of_code=np.zeros(1, dtype=np.int64),
            keys=("all rows",),
            part=np.zeros(1, dtype=np.int64),
            rows=np.array([profile.rows]),
            part_names=("all rows",),
        )
    domain, histogram = profile.domains[1], profile.histograms[0]
    rows = sum_by_group(histogram.true_counts, histogram.codes[:, 1], len(domain))
    column = {name: j for j, name in enumerate(domain.columns)}
    part_keys = _keys(domain, [parse_rule(r) for r in spec.target_by], column)
    group_keys = _keys(domain, [parse_rule(r) for r in spec.partition_by], column)
    parts = sorted(set(part_keys), key=_sortable)
    combined = sorted(set(zip(part_keys, group_keys, strict=True)), key=_sortable)
    size = dict.fromkeys(combined, 0)
    for key, n in zip(zip(part_keys, group_keys, strict=True), rows.tolist(), strict=True):
        size[key] += n
    number, firsts = _merge(combined, size, spec.min_group)
    of_code = np.array([number[k] for k in zip(part_keys, group_keys, strict=True)], dtype=np.int64)
    group_rows = sum_by_group(rows, of_code, len(firsts))
    return _Groups(
        of_code=of_code,
        keys=tuple(_text(first[1]) if first[1] else _text(first[0]) for first in firsts),
        part=np.array([parts.index(first[0]) for first in firsts], dtype=np.int64),
        rows=group_rows,
        part_names=tuple(_text(p) for p in parts),
    )


def _keys(domain: Domain, rules: list[GroupRule], column: Mapping[str, int]) -> list[tuple[Hashable, ...]]:
    return [tuple(rule.key(value[column[rule.column]]) for rule in rules) for value in domain.values]


def _merge(
    keys: list[tuple[Any, Any]], size: Mapping[tuple[Any, Any], int], least: int
) -> tuple[dict[tuple[Any, Any], int], list[tuple[Any, Any]]]:
    """Group numbers in key order; a group below `least` takes in the next of its part, the last the one before."""
    number: dict[tuple[Any, Any], int] = {}
    firsts: list[tuple[Any, Any]] = []
    filled = 0

    def join_short() -> None:
        """The last group of a part goes back into its neighbour where it is short and has one."""
        if len(firsts) > 1 and filled < least and firsts[-2][0] == firsts[-1][0]:
            number.update({k: v - 1 for k, v in number.items() if v == len(firsts) - 1})
            firsts.pop()

    for key in keys:
        if not firsts or filled >= least or key[0] != firsts[-1][0]:
            join_short()
            firsts.append(key)
            filled = 0
        number[key] = len(firsts) - 1
        filled += size[key]
    join_short()
    return number, firsts


def _sortable(key: Any) -> tuple[Any, ...]:
    """A sort key for mixed tuples: numbers before texts, missing last."""
    if isinstance(key, tuple):
        return tuple(_sortable(k) for k in key)
    if key is None:
        return (2, 0, "")
    return (0, key, "") if isinstance(key, int | float | Decimal) else (1, 0, str(key))


def _text(key: tuple[Hashable, ...]) -> str:
    return ", ".join(str(k) for k in key) if key else "all rows"


def _notices(spec: Any, shape: Shape, made: list[Target], groups: _Groups) -> Iterator[str]:
    for part, target in enumerate(made):
        unit = int(unit_sums(shape.tree, target.weights)[0])
        small = int((groups.rows[groups.part == part] < unit).sum())
        if small:
            yield (
                f"{small} groups have fewer rows than the {unit} units of the root's weights and go to the root whole; "
                "use larger groups"
            )
        empty = sum(p == 0 for p in target.probabilities)
        if empty:
            yield f"the target gives no mass to {empty} values of the domain; they stay inside wider blocks"
    short = int((groups.rows < spec.min_group).sum())
    if short:
        yield (
            f"{short} groups have fewer than {spec.min_group} rows and no neighbour to merge with; "
            "they go to the root whole"
        )


def _plan_groups(
    spec: Any,
    shape: Shape,
    made: list[Target],
    *,
    groups: _Groups,
    entries: tuple[Integers, Integers, Integers],
    rng: np.random.Generator | None,
) -> tuple[tuple[Integers, Integers, Integers], Integers, list[str]]:
    """Blocks of every group as sparse columns, the number of fakes of each, and notices; chunks bound the memory."""
    tree, total = shape.tree, len(groups.rows)
    order = np.argsort(entries[0], kind="stable")
    group, value, count = (e[order] for e in entries)
    step = max(1, CELLS // tree.nodes)
    out: list[tuple[Integers, Integers, Integers]] = []
    fakes = np.zeros(total, dtype=np.int64)
    notices: list[str] = []
    told = 0
    all_rows = max(1, int(groups.rows.sum()))
    for first, last in pairwise([*range(0, total, step), total]):
        inside = slice(*np.searchsorted(group, [first, last]))
        true = sum_by_group(count[inside], (group[inside] - first, value[inside]), (last - first, tree.leaves))
        plans = np.zeros((last - first, tree.nodes), dtype=np.int64)
        for part, target in enumerate(made):
            mine = np.flatnonzero(groups.part[first:last] == part)
            rows = groups.rows[first:last][mine]
            small = rows < spec.min_group
            limit = max(1, WORK_LIMIT * int(rows.sum()) // all_rows)
            choice = _fakes(spec, shape, target, true[mine], work_limit=limit)
            available = true[mine] + choice.fakes
            planned = plan(tree, target.weights, available, rng=rng)
            if tree.leaves > 1:  # too few rows to hide among: nothing but the target itself
                planned[small] = 0
                planned[small, 0] = rows[small]
            check_plan(tree, target.weights, planned, available, sizes=available.sum(axis=1))
            plans[mine], fakes[first + mine] = planned, choice.fakes.sum(axis=1)
            if rng is None:
                told += _told(shape, target, planned, true[mine], choice.fakes.sum(axis=1), small)
            notices += [choice.notice] if choice.notice else []
        g, node = np.nonzero(plans)  # sorted by group, then by node: the canonical order
        out.append((g + first, node, plans[g, node]))
    if told:
        notices.append(
            f"{told} groups hold one repeated value and their blocks tell so to a reader who knows the algorithm; "
            "use larger groups or more fakes"
        )
    columns = tuple(np.concatenate([chunk[i] for chunk in out]) for i in range(3))
    return (columns[0], columns[1], columns[2]), fakes, notices


def _fakes(spec: Any, shape: Shape, target: Target, true: Integers, *, work_limit: int) -> FakeChoice:
    """The fakes of every group; none for groups that go to the root whole."""
    rows = true.sum(axis=1)
    return choose_fakes(
        shape.tree,
        target.weights,
        true,
        spans=shape.spans,
        ends=shape.ends,
        allowed=np.where(rows < spec.min_group, 0, allowed_fakes(rows, Fraction(str(spec.fakes)))),
        work_limit=work_limit,
    )


def replan(spec: Any, shape: Shape, target: Target, true: Integers) -> Integers:
    """What the algorithm would publish for other histograms: how a reader who knows it reasons."""
    available = true + _fakes(spec, shape, target, true, work_limit=WORK_LIMIT).fakes
    return plan(shape.tree, target.weights, available)


def _told(
    shape: Shape, target: Target, planned: Integers, true: Integers, fakes: Integers, small: NDArray[np.bool_]
) -> int:
    """How many groups of one repeated value (of the first that there are) can only be such, by their blocks."""
    rows = true.sum(axis=1)
    alike = (rows > 1) & (rows <= AUDITED_ROWS) & (true.max(axis=1, initial=0) == rows) & (fakes == 0) & ~small
    chosen = np.flatnonzero(alike)[:AUDITED_GROUPS]
    return sum(only_homogeneous(shape.tree, target.weights, planned[g]) for g in chosen.tolist())
