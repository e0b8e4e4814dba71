"""What the custodian knows of her table when she asks how far readers get; what quasi-identifiers alone give away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engines.contract import Table
from ..model.private import JointCells, Known, Needs, Profile, Work
from ..model.public import Claim, Roles, Scalar, Unprotected
from ..model.ratios import stated_share
from ..stats.joint_codes import distinct_rows

CELL_LIMIT = 5_000_000  # combinations of quasi-identifiers and sensitive values that are held at once
FEW = 5  # rows of a cell that statistical offices call small
MOST_UNPROTECTED = Fraction(1, 2)  # share of the rows above which publishing wants a word


def known(
    table: Table, roles: Roles, needs: Needs, profile: Profile, work: Work, claim: Claim, *, linking: bool = True
) -> Known:
    """Joint counts of quasi-identifier cells and sensitive values, or of the values alone where there are too many."""
    units = sensitive_units(roles, needs)
    domains = [profile.domains[u] for u in units]
    looked_at = {
        u: profile.domains[u]
        for u, unit in enumerate(needs.units)
        if u not in units and not needs.changed[u] and set(unit) <= set(roles.quasi)
    }
    joint = table.cells(tuple(roles.quasi), domains, looked_at, limit=CELL_LIMIT) if linking else None
    linkable = joint is not None
    if joint is None:
        joint = _values_alone(profile, needs, units) or table.cells((), domains, {}, limit=int(profile.rows))
        assert joint is not None  # there are no more values than rows
    return Known(
        profile=profile,
        work=work,
        units=units,
        joint=joint,
        linkable=linkable,
        looked=protected(joint, claim.rho1),
    )


def _values_alone(profile: Profile, needs: Needs, units: tuple[int, ...]) -> JointCells | None:
    """The sensitive values in one cell, from what planning has counted; None where it has not counted them jointly."""
    for histogram, joint in zip(profile.histograms, needs.joints, strict=True):
        if set(units) <= set(joint):
            codes, value = distinct_rows([histogram.codes[:, joint.index(u)] for u in units], len(histogram.codes))
            counts = np.bincount(value, weights=histogram.true_counts, minlength=len(codes)).astype(np.int64)
            numbers = np.arange(len(codes))
            return JointCells(codes=codes, value=numbers, cell=np.zeros_like(numbers), true_counts=counts)
    return None


def sensitive_units(roles: Roles, needs: Needs) -> tuple[int, ...]:
    """Numbers of the units that hold sensitive columns."""
    return tuple(u for u, unit in enumerate(needs.units) if set(unit) <= set(roles.sensitive))


def protected(joint: JointCells, rho1: Fraction | None) -> NDArray[np.bool_]:
    """Which values have a share of at most rho1, in integers; all where no prior is named."""
    counts = joint.of_values()
    rows = int(counts.sum())
    if rho1 is None:
        return np.ones(len(counts), dtype=bool)
    return np.array([int(c) * rho1.denominator <= rho1.numerator * rows for c in counts], dtype=bool)


def others(found: Known) -> Known | None:
    """The same, looking at the values that are not protected; None where all are."""
    return None if found.looked.all() else replace(found, looked=~found.looked)


def unprotected(found: Known, roles: Roles, needs: Needs) -> tuple[Unprotected, Fraction]:
    """The values that are not covered with their share as a release states it, rounded up, and the exact share."""
    counts, units = found.joint.of_values(), found.units
    left, rows = int(counts[~found.looked].sum()), int(counts.sum())
    values: list[tuple[Scalar, ...]] = []
    for codes in found.joint.codes[~found.looked]:
        cells = {
            name: cell
            for u, code in zip(units, codes, strict=True)
            for name, cell in zip(needs.units[u], found.profile.domains[u].values[code], strict=True)
        }
        values.append(tuple(cells[name] for name in roles.sensitive))
    return Unprotected(values=tuple(values), share=stated_share(left, rows)), Fraction(left, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniqueness:
    """What the quasi-identifiers alone give away, in rows, before anything is published."""

    rows: int
    cells: int
    unique_rows: int  # alone with their quasi-identifiers
    rows_below_5: int  # in a cell of fewer than FEW rows
    rho1: Fraction | None = None
    sharpened_rows: int | None = None  # whose cell gives a value of share at most rho1 more than rho1

    def document(self) -> dict[str, Any]:
        """As it stands in JSON; shares of the rows."""
        return {
            "cells": self.cells,
            "unique_rows": self.unique_rows,
            "rows_below_5": self.rows_below_5,
            "rho1": None if self.rho1 is None else str(self.rho1),
            "sharpened": None if self.sharpened_rows is None else self.sharpened_rows / self.rows,
        }


def uniqueness(joint: JointCells, rho1: Fraction | None) -> Uniqueness:
    """Counted from the joint cells; `rho1` is the prior from which on a cell sharpens a value."""
    sizes = joint.of_cells()
    sharpened = None
    if rho1 is not None:
        above = joint.true_counts * rho1.denominator > rho1.numerator * sizes[joint.cell]
        sharp = np.zeros(len(sizes), dtype=bool)
        sharp[joint.cell[above & protected(joint, rho1)[joint.value]]] = True
        sharpened = int(sizes[sharp].sum())
    return Uniqueness(
        rows=int(sizes.sum()),
        cells=len(sizes),
        unique_rows=int((sizes == 1).sum()),
        rows_below_5=int(sizes[sizes < FEW].sum()),
        rho1=rho1,
        sharpened_rows=sharpened,
    )
