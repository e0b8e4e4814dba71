"""Rows of a whole release by its published cells, counted once and kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..engines.codes import Coder, factorise, part_numbers
from ..engines.contract import Reader
from ..engines.statements import COUNT
from ..model.public import Codes, Integers
from ..stats.joint_codes import distinct_rows

Counted = tuple[Integers, Codes, Integers]


class WholeCounts:
    """Counts of one open release. They know its reader, not the release, which goes as soon as nobody asks it."""

    def __init__(self, reader: Reader, coders: Sequence[Coder], classes: Sequence[str], rows: int) -> None:
        """`classes`: columns that are counted together, once, whichever of them are asked for."""
        self._reader, self._coders, self._every, self._rows = reader, coders, classes, rows
        self._classes: pa.Table | None = None
        self._kept: dict[tuple[tuple[int, ...], str | None], Counted] = {}

    def distinct_cells(self, columns: tuple[str, ...]) -> tuple[Integers, Integers]:
        """(codes of the distinct published cells over some columns, rows of each)."""
        seen = self._rows_of_cells(columns)
        codes = np.column_stack([factorise(seen[c])[0] for c in columns]).astype(np.int64)
        return codes, seen[COUNT].to_numpy().astype(np.int64)

    def totals(self, units: tuple[int, ...], part: str | None) -> Counted:
        """(part, codes, count) of the whole release over some units."""
        if (units, part) not in self._kept:
            self._kept[units, part] = self._added_up(units, part) or self._counted(units, part)
        return self._kept[units, part]

    def _rows_of_cells(self, columns: Sequence[str]) -> pa.Table:
        """The distinct published cells over some columns and their rows."""
        every = self._every
        if not columns or not set(columns) <= set(every):
            return self._reader.count(columns)
        if self._classes is None:
            self._classes = self._reader.count(every)
        if len(columns) == len(every):
            return self._classes.select([*columns, COUNT])
        coded = [factorise(self._classes[name]) for name in columns]
        cells, which = distinct_rows([codes for codes, _ in coded], self._classes.num_rows)
        rows = np.bincount(which, weights=self._classes[COUNT].to_numpy(), minlength=len(cells)).astype(np.int64)
        shown = {name: coded[j][1].take(pa.array(cells[:, j])) for j, name in enumerate(columns)}
        return pa.table({**shown, COUNT: rows})

    def _added_up(self, units: tuple[int, ...], part: str | None) -> Counted | None:
        """The same from a count of more units, if one is at hand."""
        for (more, of), (parts, codes, counts) in self._kept.items():
            if of == part and set(units) <= set(more):
                cells = np.column_stack([parts, codes[:, [more.index(u) for u in units]]])
                found, which = np.unique(cells, axis=0, return_inverse=True)
                rows = np.bincount(which.ravel(), weights=counts, minlength=len(found)).astype(np.int64)
                return found[:, 0].astype(parts.dtype), found[:, 1:].astype(codes.dtype), rows
        return None

    def _counted(self, units: tuple[int, ...], part: str | None) -> Counted:
        coders = [self._coders[u] for u in units]
        names = [name for coder in coders for name in coder.domain.columns]
        found = self._rows_of_cells([*names, *([part] if part else [])])
        codes = [coder.encode([found[n] for n in coder.domain.columns]) for coder in coders]
        parts = part_numbers(found[part], self._rows) if part else np.zeros(found.num_rows, dtype=np.int64)
        count = found[COUNT].to_numpy()
        stacked = np.stack(codes, axis=1) if codes else np.zeros((len(count), 0), dtype=np.int32)
        return parts, stacked, count
