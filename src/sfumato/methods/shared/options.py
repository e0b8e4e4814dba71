"""What specifications of several methods share: help of fields, bins of columns, group sizes, rows left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from ...errors import SpecError
from ...model.coarsening import bin_edges, bin_labels
from ...model.names import Ratio, exact
from ...model.public import Domain

# --- option help ------------------------------------------------------------------------------------------------------
# What a field of a specification says of itself, for the command line and the reference: a sentence and an example.


def told(says: str, example: str, **more: object) -> dict[str, object]:
    """The metadata of a field; `python_only=True` keeps it from the command line, roles files and the studio."""
    return {"help": says, "example": example, **more}


RHO1 = told("what a reader may believe of a value before, at most", "1/5")
RHO2 = told("what she may believe of it after, at most", "1/2")


# --- column bins ------------------------------------------------------------------------------------------------------
# Bins that a specification gives for columns of numbers: `age=17,25,35,hours=0,20,40`.


Bins = Mapping[str, Sequence[Ratio]] | str | None
BINS_FIELD = {"help": "column=EDGE,EDGE,...,column=EDGE,... for columns of numbers", "example": "age=0,18,40,65"}


def parse_bins(bins: Bins) -> dict[str, tuple[float, ...]]:
    """Lower edges of the bins of each binned column; the last bin has no upper end."""
    if bins is None:
        return {}
    if not isinstance(bins, Mapping | str):
        raise SpecError(f"bins are written column=EDGE,EDGE,..., got {bins!r}", field="bins")
    given = bins if isinstance(bins, Mapping) else bin_edges(bins)
    for column, edges in given.items():
        if isinstance(edges, str) or not isinstance(edges, Sequence):
            raise SpecError(f'bins of "{column}" must be a list of edges, got {edges!r}', field="bins")
    found = {column: tuple(float(exact(e, "bins")) for e in edges) for column, edges in given.items()}
    for column, edges in found.items():
        if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
            raise SpecError(f'bins of "{column}" need two or more edges that rise', field="bins")
    return found


def bin_order(edges: Mapping[str, Sequence[float]], domain: Domain) -> tuple[int, ...] | None:
    """The place of every value of a domain among the bins of its column; None where it has no bins, or other values."""
    if len(domain.columns) > 1 or domain.columns[0] not in edges:
        return None
    places = {label: place for place, label in enumerate(bin_labels(edges[domain.columns[0]]))}
    found = tuple(places.get(str(value), -1) for (value,) in domain.values)
    return None if -1 in found else found


# --- groups at bound --------------------------------------------------------------------------------------------------
# Parameters at a bound for methods that hide a record among others.


def group_size(tau: Fraction) -> int:
    """The smallest whole l with 1/l <= tau: groups of l hold the bound, smaller ones do not."""
    return -(-tau.denominator // tau.numerator)
