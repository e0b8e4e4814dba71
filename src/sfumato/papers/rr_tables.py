"""Adult as contingency tables and three methods' estimates of them, as the randomised-response paper compares them."""

from __future__ import annotations

import csv
import functools
import os
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..datasets import adult
from ..methods.l_diversity.hierarchy import Hierarchy, from_rows, suppress
from ..methods.l_diversity.plan import CellCounts, search_lattice
from ..methods.randomized_response.method import randomise_codes
from ..methods.randomized_response.plan import KeepPlan, search_keep
from ..methods.randomized_response.risk import RiskCells, views
from ..methods.shared.grouping import largest_buckets
from ..stats.kronecker import apply_maps, channel, inverse, theta_of_keep
from ..stats.nonnegative import expectation_maximisation, project_to_simplex

Array = NDArray[Any]
TRAINING = 32_561
EMGRW = ("education", "marital_status", "sex", "race", "workclass")
ESGRO = ("education", "income", "sex", "race", "occupation")
SCOPES = {"s": (False,) * 4 + (True,), "qi": (True,) * 4 + (False,), "both": (True,) * 5}
FILES = {"education": "education", "income": "salary-class", "sex": "sex", "race": "race"}


@functools.cache
def codes_of(columns: tuple[str, ...]) -> tuple[Array, tuple[int, ...], tuple[tuple[object, ...], ...]]:
    """Codes (rows, columns) of the 30,162 complete training rows, domain sizes, domains."""
    table = adult().slice(0, TRAINING)
    table = table.filter(functools.reduce(pc.and_, [pc.is_valid(table[c]) for c in table.column_names]))
    domains = tuple(tuple(sorted(table[c].unique().to_pylist())) for c in columns)
    codes = [
        pc.index_in(table[c], pa.array(d, type=table[c].type)).to_numpy() for c, d in zip(columns, domains, strict=True)
    ]
    return np.column_stack(codes).astype(np.int32), tuple(map(len, domains)), domains


def tensor(codes: Array, sizes: tuple[int, ...]) -> Array:
    """Counts over the whole cross product."""
    flat = np.ravel_multi_index(tuple(codes.T), sizes)
    return np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes).astype(float)


def plan(columns: tuple[str, ...], scope: str, l: int) -> KeepPlan:
    """Optimal keep probabilities of the last column's risk."""
    codes, sizes, _ = codes_of(columns)
    distinct, counts = np.unique(codes.astype(np.int64), axis=0, return_counts=True)
    cells = RiskCells(codes=distinct, true_counts=counts.astype(np.int64), sizes=sizes)
    randomised = SCOPES[scope]
    seen = views(cells, quasi=range(4), sensitive=[4], randomised=randomised)
    return search_keep(seen, sizes=sizes, randomised=randomised, tau=Fraction(1, l))


def randomised_tables(
    codes: Array, sizes: tuple[int, ...], keep: tuple[float, ...], rng: np.random.Generator
) -> dict[str, Array]:
    """One release and the estimates of its full table: plain inverse, EM, simplex projection, clipping."""
    new = [
        randomise_codes(codes[:, j], keep=p, size=d, rng=rng) for j, (p, d) in enumerate(zip(keep, sizes, strict=True))
    ]
    observed = tensor(np.column_stack(new), sizes)
    channels = [channel(theta_of_keep(p, d), d) for p, d in zip(keep, sizes, strict=True)]
    plain = apply_maps([inverse(m) for m in channels], observed)
    rows = observed.sum()
    clipped = np.maximum(plain, 0)
    return {
        "inverse": plain,
        "em": rows * expectation_maximisation(observed, channels),
        "simplex": rows * project_to_simplex(plain / rows),
        "clipped": clipped * rows / clipped.sum(),
    }


def anatomy_table(codes: Array, sizes: tuple[int, ...], l: int, rng: np.random.Generator) -> Array:
    """Anatomy (Xiao and Tao) and the estimate that spreads a group's values evenly over its rows.

    Groups take one row from each of the l largest buckets; leftovers join a group that lacks their value.
    """
    sensitive = codes[:, -1]
    grouping = largest_buckets(np.bincount(sensitive, minlength=sizes[-1]), l, rng)
    values = np.concatenate([grouping.members.ravel(), grouping.leftover_values])
    groups = np.concatenate([np.repeat(np.arange(grouping.groups), l), grouping.leftover_groups])
    rows = rng.permutation(len(codes))
    group_of = np.empty(len(codes), dtype=np.int64)
    group_of[rows[np.argsort(sensitive[rows], kind="stable")]] = groups[np.argsort(values, kind="stable")]
    n = grouping.groups
    share = np.zeros((n, sizes[-1]))
    np.add.at(share, (group_of, sensitive), 1.0)
    share /= share.sum(axis=1, keepdims=True)
    flat = np.ravel_multi_index(tuple(codes[:, :-1].T), sizes[:-1])
    out = np.zeros((int(np.prod(sizes[:-1])), sizes[-1]))
    np.add.at(out, flat, share[group_of])
    return out.reshape(sizes)


def hierarchies(columns: tuple[str, ...]) -> list[Hierarchy]:
    """ARX hierarchies from the folder SFUMATO_DATA/hierarchies; without it, every column is kept or suppressed."""
    _, _, domains = codes_of(columns)
    folder = os.environ.get("SFUMATO_DATA")
    out = []
    for name, domain in zip(columns[:-1], domains, strict=False):
        path = Path(folder or "") / "hierarchies" / f"adult_hierarchy_{FILES.get(name, name)}.csv"
        if folder and path.exists():
            with path.open() as file:
                out.append(from_rows(name, domain, list(csv.reader(file, delimiter=";"))))
        else:
            out.append(suppress(name, domain))
    return out


def diversity_table(
    columns: tuple[str, ...], l: int, kind: Literal["frequency", "entropy", "distinct"] = "entropy"
) -> tuple[Array, tuple[int, ...]]:
    """The l-diverse generalisation of least loss and its estimate, uniform inside a class; the levels."""
    codes, sizes, _ = codes_of(columns)
    chosen = hierarchies(columns)
    full = tensor(codes, sizes)
    observed = np.argwhere(full.sum(axis=-1) > 0)
    found = search_lattice(
        CellCounts.of_table(observed, full[tuple(observed.T)].astype(np.int64)),
        chosen,
        l=Fraction(l),
        kind=kind,
    )
    estimate = full
    for axis, (hierarchy, level) in enumerate(zip(chosen, found.levels, strict=True)):
        member, size = hierarchy.levels[level], hierarchy.class_sizes(level)
        moved = np.moveaxis(estimate, axis, 0)
        summed = np.zeros((len(size), *moved.shape[1:]))
        np.add.at(summed, member, moved)
        estimate = np.moveaxis(summed[member] / size[member].reshape(-1, *[1] * (moved.ndim - 1)), 0, axis)
    return estimate, found.levels
