"""What people write for target-distribution, turned into grouping rules, a tree over the domain, and targets."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SpecError
from ...model.public import Domain, Integers
from . import blocktree, targets
from .blocktree import BlockTree
from .targets import Target

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
        return blocktree.spans(self.tree, self.values)

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
        targets.parse_target(target)
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
        return targets.parse_target(target)[0] == "source"
    return any(isinstance(v, str) and v.strip() == "source" for v in target.values())


def shape_of(spec: Any, domain: Domain) -> Shape:
    """The tree over the values of the sensitive column."""
    values = [value[0] for value in domain.values]
    numbers = None
    if all(isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in values):
        numbers = tuple(_number(v) for v in values)
        blocktree.check_numeric_domain(numbers)
    if isinstance(spec, str):
        match = BUILT_IN.fullmatch(spec)
        assert match is not None
        arity = int(match[2] or 2)
        if match[1] == "width" and numbers is None:
            raise SpecError(
                "hierarchy width(..) needs a numeric sensitive column without missing values", field="hierarchy"
            )
        tree = (
            blocktree.equal_width(numbers, arity=arity)
            if match[1] == "width" and numbers is not None
            else blocktree.balanced(len(values), arity=arity)
        )
        return Shape(tree=tree, order=tuple(range(len(values))), values=numbers)
    return _declared_shape(spec, values, numbers, declared=domain.declared)


def _declared_shape(spec: Any, values: list[Any], numbers: tuple[Fraction, ...] | None, *, declared: bool) -> Shape:
    """A tree that people wrote, cut down to the values of the domain."""
    if isinstance(spec, list):
        leaves, full = blocktree.from_nested(spec)
    elif numbers is None:
        leaves, full = blocktree.from_rows(spec)
    else:
        leaves, full = blocktree.from_rows(spec, parse=_number)
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
    tree = blocktree.from_blocks(names)
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
        masses = targets.explicit_masses([str(v) for v in values], text)
    else:
        kind, numbers = targets.parse_target(wanted)
        if kind == "source":
            masses = [int(n) for n in true_counts]
        elif kind == "uniform":
            masses = targets.uniform_masses(len(values))
        elif kind == "zipf":
            masses = targets.zipf_masses(len(values), numbers[0])
        else:
            if shape.values is None:
                raise SpecError("target normal(mean,sd) needs a numeric sensitive column", field="target")
            masses = targets.normal_masses(shape.values, *numbers)
    return targets.quantise(shape.tree, masses, max_weight=spec.max_weight)
