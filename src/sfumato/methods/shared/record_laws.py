"""The laws of records that several methods publish by."""

from __future__ import annotations

import numpy as np

from ...model.law import Law
from ...model.public import Codes, Evidence, Floats, Integers
from ...stats.joint_codes import sum_by_group
from .perturbation import SubTables
from .set_tables import SetTables


def published_table(evidence: Evidence, unit: int, parts: int) -> Floats:
    """(parts, values): rows of every part that show every value."""
    part, codes, count = evidence.totals((unit,))
    return sum_by_group(count.astype(np.float64), (part, codes[:, 0]), (parts, len(evidence.domains[unit])))


def perturbed(tables: SubTables, evidence: Evidence, unit: int = 0) -> Law:
    """Sub-tables that keep a value with p and else redraw it among their own: n_ix = (o - q n_i) / p, cut at 0."""
    seen = published_table(evidence, unit, len(tables))
    inside = np.zeros(seen.shape, dtype=bool)
    inside[np.repeat(np.arange(len(tables)), np.diff(tables.start)), tables.values] = True
    estimate = (seen - tables.q[:, None] * seen.sum(axis=1, keepdims=True)) / tables.p[:, None]

    def chance(part: Integers, shown: Codes) -> Floats:
        found: Floats = inside[part] * tables.q[part][:, None]
        found[np.arange(len(shown)), shown] += tables.p[part]
        return found

    return Law(counts=np.where(inside, np.maximum(estimate, 0.0), 0.0), chance=chance)


def listed_sets(tables: SetTables, evidence: Evidence) -> Law:
    """Sub-tables that show a listed set: n_ix = sum of the weights of value x over the rows of i, cut at 0."""
    _, codes, count = evidence.totals((0,))
    seen = np.bincount(codes[:, 0], weights=count, minlength=int(tables.start[-1]))
    values = len(evidence.domains[0])
    counts, shows = np.zeros((len(tables), values)), np.zeros((len(seen), values))
    for i, held in enumerate(tables.values):
        mine = slice(int(tables.start[i]), int(tables.start[i + 1]))
        counts[i, held] = np.maximum(seen[mine] @ tables.answers(i).unit_weights, 0.0)
        shows[mine, held] = tables.channels[i].matrix()
    return Law(counts=counts, chance=lambda _, shown: shows[shown])


def silent(counts: Floats, *, exact: bool = False) -> Law:
    """Values are withheld: a record shows its part and nothing else."""
    ones = lambda part, _: np.ones((len(part), counts.shape[1]))  # noqa: E731
    return Law(counts=counts, chance=ones, silent=True, exact=exact)
