"""sensitive.parquet, where sensitive values are published by group: codes of values, numbers of groups in runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.codes import Coder, narrow_part_numbers
from ..engines.parquet_chunks import UNPACKED, ZSTD, chunks_of
from ..engines.parquet_steps import read_steps
from ..engines.parquet_values import KnownValues
from ..errors import ReleaseError
from ..model.public import Codes, Domain
from ..model.side_columns import Runs, SideColumns, joined, rising, rising_runs, runs_of
from .bundle import readable

SIDE = "sensitive.parquet"
WHOLE_NUMBERS = {pa.int32(): 1, pa.int64(): 2}  # the format's numbers of types
Part = tuple[dict[str, Any], dict[str, Runs]]  # columns of some rows, and those that are kept in runs


class SideTable:
    """The file of one release. Chunks that are laid out as we do are read by us, others by the library."""

    def __init__(
        self, path: Path, coders: Sequence[Coder], domains: Sequence[Domain], part: str | None, rows: int
    ) -> None:
        self._path, self._coders, self._part, self._rows = path, coders, part, rows
        self._changed = {name for domain in domains for name in domain.columns}
        with readable(SIDE):
            self._metadata = pq.read_metadata(path)
            self._schema = self._metadata.schema.to_arrow_schema()
        leaves = [self._metadata.schema.column(j) for j in range(self._metadata.num_columns)]
        self._plain = {x.path for x in leaves if (x.max_definition_level, x.max_repetition_level) == (1, 0)}
        self._chunks = chunks_of(path)
        self._known = {u: found for u, coder in enumerate(coders) if (found := self._known_values(coder)) is not None}

    def _known_values(self, coder: Coder) -> KnownValues | None:
        """How the values of a unit lie in a chunk; None where it is of several columns, or of another type."""
        (name, *more), names = coder.domain.columns, self._schema.names
        if more or name not in names or self._schema.field(name).type != coder.types[name]:
            return None
        return KnownValues.of(name, coder.values()[name])

    def read(self) -> SideColumns:
        """The columns; those of a unit come as codes under "unit0", "unit1" ..."""
        groups = self._metadata.num_row_groups
        rows = [self._metadata.row_group(g).num_rows for g in range(groups)]
        try:
            codes = {  # laid out once: as pieces that are put together, memory would be taken twice
                u: np.empty(sum(rows), dtype=np.min_scalar_type(len(coder.domain)))
                for u, coder in enumerate(self._coders)
                if set(coder.domain.columns) <= set(self._schema.names)
            }
        except (ValueError, MemoryError):  # a file may say any number
            raise ReleaseError(f"{SIDE} cannot be read; the release is damaged") from None
        with readable(SIDE), pq.ParquetFile(self._path) as file, self._path.open("rb", buffering=0) as raw:
            ends = np.cumsum(rows).tolist()
            parts = [
                self._row_group(file, raw, g, {u: whole[end - rows[g] : end] for u, whole in codes.items()})
                for g, end in enumerate(ends)
            ] or [self._by_library(file.read(), codes)]
        columns, runs = [part[0] for part in parts], [part[1] for part in parts]
        whole_runs = {name: joined([part[name] for part in runs]) for name in runs[0]}
        if not all(rising(one) for one in whole_runs.values()):
            raise ReleaseError(f"{SIDE} does not list its groups one after the other; the release is damaged")
        return SideColumns(
            {f"unit{u}": whole for u, whole in codes.items()}
            | {name: np.concatenate([part[name] for part in columns]) for name in columns[0]},
            whole_runs,
        )

    def _row_group(self, file: Any, raw: BinaryIO, g: int, codes: Mapping[int, Codes]) -> Part:
        """One row group; what is laid out as we do is not left to the library."""
        left, names, runs = dict(codes), set(self._schema.names), dict[str, Runs]()
        for u, known in self._known.items():
            (name,) = self._coders[u].domain.columns
            chunk = self._chunk(raw, g, name, known.kind, ZSTD)
            if chunk is not None and known.read(*chunk, codes[u]):
                del left[u]
                names.remove(name)
        for name in names & {self._part}:
            steps = self._steps(raw, g, name)
            if steps is not None:
                runs[name] = steps
        names -= {*runs}
        if not names:
            return {}, runs
        side, more = self._by_library(file.read_row_group(g, columns=sorted(names), use_threads=False), left)
        return side, runs | more

    def _steps(self, raw: BinaryIO, g: int, name: str) -> Runs | None:
        """The numbers of the parts, where they are written as steps."""
        kind = self._schema.field(name).type
        chunk = self._chunk(raw, g, name, WHOLE_NUMBERS.get(kind), UNPACKED)
        rows = self._metadata.row_group(g).num_rows
        found = None if chunk is None else read_steps(chunk[0], rows)
        if found is None or not 0 <= found[0] <= np.iinfo(kind.to_pandas_dtype()).max - rows:
            return None
        runs = rising_runs(*found, np.dtype(kind.to_pandas_dtype()))
        narrow_part_numbers(pa.array([runs.numbers[0], runs.numbers[-1]]), self._rows)  # all others lie between
        return runs

    def _chunk(self, raw: BinaryIO, g: int, name: str, kind: int | None, codec: int) -> tuple[bytes, int] | None:
        """(the bytes of a column's chunk, where in them its first page begins); None where it is of another kind."""
        place = self._chunks[g].get(name) if name in self._plain and g < len(self._chunks) else None
        if place is None or (place.kind, place.codec) != (kind, codec):
            return None
        if place.values != self._metadata.row_group(g).num_rows or place.end > os.fstat(raw.fileno()).st_size:
            return None
        raw.seek(place.begins)
        return raw.read(place.end - place.begins), place.pages - place.begins

    def _by_library(self, table: pa.Table, codes: Mapping[int, Codes]) -> Part:
        """Some rows; a unit's columns go as codes to their place."""
        table, side, runs = table.combine_chunks(), dict[str, Any](), dict[str, Runs]()
        for u, place in codes.items():
            if table.num_rows != len(place):
                raise ReleaseError(f"{SIDE} cannot be read; the release is damaged")
            place[:] = self._coders[u].encode([table[n] for n in self._coders[u].domain.columns])
        for name in (n for n in table.column_names if n not in self._changed):
            if name == self._part:
                runs[name] = runs_of(narrow_part_numbers(table[name], self._rows))
            else:
                side[name] = table[name].to_numpy()
        return side, runs
