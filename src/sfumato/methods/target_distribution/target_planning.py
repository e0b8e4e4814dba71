"""Planning of target-distribution: what people write, turned into a tree, targets, groups and checked blocks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import PlanError
from ...model.private import Histogram, Profile
from ...model.public import Domain, Integers
from ...stats.joint_codes import sum_by_group
from . import transform
from .fake_choice import WORK_LIMIT, FakeChoice, allowed_fakes, choose_fakes
from .group_audit import only_homogeneous
from .target_parsing import GroupRule, Shape, parse_rule, shape_of, target_of
from .targets import Target

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
    for key in keys:
        if not firsts or filled >= least or key[0] != firsts[-1][0]:
            short = firsts and filled < least  # the last of a part: back into its neighbour, if it has one
            if short and len(firsts) > 1 and firsts[-2][0] == firsts[-1][0]:
                number = {k: min(v, len(firsts) - 2) for k, v in number.items()}
                firsts.pop()
            firsts.append(key)
            filled = 0
        number[key] = len(firsts) - 1
        filled += size[key]
    if len(firsts) > 1 and filled < least and firsts[-2][0] == firsts[-1][0]:
        number = {k: min(v, len(firsts) - 2) for k, v in number.items()}
        firsts.pop()
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
        unit = int(transform.unit_sums(shape.tree, target.weights)[0])
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
            planned = transform.plan(tree, target.weights, available, rng=rng)
            if tree.leaves > 1:  # too few rows to hide among: nothing but the target itself
                planned[small] = 0
                planned[small, 0] = rows[small]
            transform.check_plan(tree, target.weights, planned, available, sizes=available.sum(axis=1))
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
    return transform.plan(shape.tree, target.weights, available)


def _told(
    shape: Shape, target: Target, planned: Integers, true: Integers, fakes: Integers, small: NDArray[np.bool_]
) -> int:
    """How many groups of one repeated value (of the first that there are) can only be such, by their blocks."""
    rows = true.sum(axis=1)
    alike = (rows > 1) & (rows <= AUDITED_ROWS) & (true.max(axis=1, initial=0) == rows) & (fakes == 0) & ~small
    chosen = np.flatnonzero(alike)[:AUDITED_GROUPS]
    return sum(only_homogeneous(shape.tree, target.weights, planned[g]) for g in chosen.tolist())
