"""What the custodian sees of a small-domain plan before publishing; holds true counts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...laws.keep_or_redraw import KeepOrRedraw, standard_errors
from ...laws.set_lists import SetLists
from ...laws.set_tables import SetTables
from ...model.private import Profile
from ...model.public import value_label
from ...stats.gamma import keep_probabilities
from ..shared.channel_design import Design
from ..shared.least_error import least_sized_partition, times_least
from ..shared.restricted import errors_of, protection, row_gamma
from ..shared.set_lists import least_variance
from .plan import Costs, Partition, distance_from_best


def partition_report(
    found: Partition,
    costs: Costs,
    designs: tuple[Design, ...],
    law: KeepOrRedraw | SetLists,
    profile: Profile,
) -> dict[str, Any]:
    """The sub-tables beside plain `uniform`, which values are not protected, and the error to expect."""
    sets = law.tables if isinstance(law, SetLists) else None
    values = profile.domains[0].values
    uniform = keep_probabilities(row_gamma(costs.rho1, costs.rho2, costs.rows_per_person), len(values))
    counts = [t.true_counts for t in found.sub_tables]
    best = distance_from_best(found, costs) if costs.strict and found.all_protected else None
    variance = found.total_variance if sets is None else total_variance(sets, [t.size for t in found.sub_tables])
    least = _least(found, costs)
    distance = None if least is None else times_least(variance, least[0])
    if isinstance(law, SetLists):
        se = law.tables.standard_errors(counts, len(values))
    else:
        se = standard_errors(law.tables, np.concatenate(counts), len(values))
    return protection(profile, costs.rho1) | {
        "theta": found.theta,
        "sub_tables": [_sub_table(found, i, sets, profile) for i in range(len(counts))],
        "report": "value" if sets is None else "set",
        "retention": found.retention if sets is None else None,
        "uniform_retention": float(uniform[0]),
        "distance_from_best": best,
        "times_least": distance,
        "expected_error": errors_of(se, profile),
        "notes": _notes(found, designs, sets, float(uniform[0]))
        + ([] if least is None else [f"the standard errors of counts are {distance:.3f} times {least[1]}"])
        + _one_table(found, sets),
    }


def _least(found: Partition, costs: Costs) -> tuple[float, str] | None:
    """(the total variance that no plan passes, what it is the least of); None in paper mode, which has no cap."""
    if costs.cap is None:
        return None
    if not found.all_protected:  # values that nothing is promised about may fill up a sub-table of any size
        own = sum(t.size * float(least_variance(t.values.size, t.gamma)) for t in found.sub_tables)
        return own, "the least possible in these sub-tables (root mean square)"
    least = least_sized_partition(
        costs.rho1,
        costs.rho2,
        costs.cap,
        values=int(found.protected.sum()),
        rows=found.rows,
        min_size=costs.min_size,
        rows_per_person=costs.rows_per_person,
    )
    size = f"{min(costs.min_size, found.rows):,} rows or more"
    return found.rows * float(least), f"the least possible for any sub-tables of {size} (root mean square)"


def _sub_table(found: Partition, i: int, sets: SetTables | None, profile: Profile) -> dict[str, Any]:
    """A line of the report: `keep` is the chance that what is shown is, or holds, the true value."""
    table, values = found.sub_tables[i], profile.domains[0].values
    largest = int(table.true_counts[found.protected[table.values]].max())
    p, q = table.keep_probabilities
    shown: dict[str, Any] = {"keep": float(p + q), "retention": float(p)}
    if sets is not None:
        channel = sets.channels[i]
        shown = {
            "keep": float(channel.matrix()[:, 0] @ channel.members[:, 0]),
            "retention": float(channel.keep),
            "sets": len(channel.members),
            "values_per_set": float(channel.weights @ channel.members.sum(axis=1) / channel.total),
        }
    return {
        "id": i,
        "size": table.size,
        "domain": [value_label(values[v]) for v in table.values],
        "counts": table.true_counts.tolist(),
        "rho1": str(Fraction(largest, table.size)),
        "gamma": float(table.gamma),
        **shown,
    }


def _notes(found: Partition, designs: tuple[Design, ...], sets: SetTables | None, uniform: float) -> list[str]:
    """What is published, and how far it is from the best for declared questions."""
    if sets is None:
        return [f"retention averaged over records: {found.retention:.1%}; plain uniform would keep {uniform:.1%}"]
    notes = [f"one of {int(sets.start[-1]):,} listed sets of values is published in place of a value"]
    if designs:
        sizes = np.array([t.size for t in found.sub_tables], dtype=float)
        error = times_least(
            sizes @ np.array([d.variance for d in designs]), sizes @ np.array([d.least for d in designs])
        )
        proved = "proved" if all(d.certified for d in designs) else "among the sets tried"
        notes.append(
            f"for the declared questions the standard errors are at most {error:.3f} times the least possible in these "
            f"sub-tables; {max(d.gap for d in designs):.1%} of variance at most is left to gain ({proved})"
        )
    return notes


def _one_table(found: Partition, sets: SetTables | None) -> list[str]:
    """A line where nothing is gained by sub-tables."""
    if len(found.sub_tables) > 1:
        return []
    same = "uniform" if sets is None else "subset-response"
    return [f"one table is best here: the release is that of {same} on the values that occur"]


def total_variance(tables: SetTables, sizes: Sequence[int]) -> float:
    """The variances of all values' estimated totals, added up, for records of any values: the mean over a sub-table's.

    Lists that are best for counts have the same for each value.
    """
    every = (tables.answers(i).total_variance(np.eye(len(values))) for i, values in enumerate(tables.values))
    return sum(size * variance for size, variance in zip(sizes, every, strict=True))
