"""What every engine counts, in the same words: profiles, cells, people, and what columns look like."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError, SpecError
from ..model.coarsening import Recoding, bin_labels
from ..model.private import Described, Filled, Histogram, JointCells, Needs, PeopleCount, Profile
from ..model.public import Domain, Scalar
from ..model.types import TEXT, ColumnType, Kind
from ..stats.joint_codes import distinct_rows
from .codes import Coder, factorise, unreadable_dates
from .duckdb.connection import quoted

ROWS = "__rows__"  # how many rows a combination has
CELL = "__cell__"  # number of its quasi-identifier cell

NEAR = 0.5  # distinct over rows, by a sketch, from which values are counted exactly
AT_ONCE = 64  # columns that one statement counts: its room grows with them, and 400 of two rows took all there is
WORDS = r"\S\s+\S+\s+\S+\s+\S"  # four of them or more
BELOW = "below the first bin"

Types = Mapping[str, ColumnType]
ArrowTypes = Mapping[str, pa.DataType]


class CountedTable:
    """A table that answers SQL, in DuckDB's dialect, over its rows as `source`; `repr` shows nothing of it.

    An engine says how it is asked (`_tables`); everything that is counted follows.
    """

    columns: dict[str, ColumnType]
    recoded: tuple[Recoding, ...]
    _arrow: dict[str, pa.DataType]
    _bins: dict[str, Sequence[float]]  # column -> edges of its bins

    def __repr__(self) -> str:
        return f"<table with {len(self.columns)} columns>"

    def _tables(self, statements: Sequence[str]) -> list[pa.Table]:
        """What the engine gives for each statement, columns of the table in their types."""
        raise NotImplementedError

    def arrow_types(self) -> Mapping[str, pa.DataType]:
        return self._arrow

    def profile(self, needs: Needs, declared: Mapping[str, Sequence[Scalar]], *, null_as_value: bool) -> Profile:
        """Joint counts by one GROUP BY per joint; domains from them, or as declared."""
        tables = self._tables([self._counted([c for u in joint for c in needs.units[u]]) for joint in needs.joints])
        domains: dict[int, Domain] = {}
        for joint, table in zip(needs.joints, tables, strict=True):
            for u in (u for u in joint if u not in domains):
                nulls = null_as_value or not (needs.changed[u] or u in needs.sensitive)
                domains[u] = _domain(needs.units[u], table, declared, self.columns, self._arrow, nulls=nulls)
        coders = {u: Coder(domain, self._arrow) for u, domain in domains.items()}
        histograms = []
        for joint, table in zip(needs.joints, tables, strict=True):
            counts = table[ROWS].to_numpy().astype(np.int64)
            codes = [coders[u].encode([table[c] for c in needs.units[u]], counts) for u in joint]
            histograms.append(Histogram(codes=np.stack(codes, axis=1).astype(np.int32), true_counts=counts))
        return Profile(
            rows=int(histograms[0].true_counts.sum()),
            domains=tuple(domains[u] for u in range(len(needs.units))),
            histograms=tuple(histograms),
            sensitive=needs.sensitive,
        )

    def _counted(self, columns: Sequence[str]) -> str:
        return f"SELECT {self._select(columns)}, count(*) AS {ROWS} FROM source GROUP BY ALL"

    def cells(
        self, quasi: Sequence[str], sensitive: Sequence[Domain], looked_at: Mapping[int, Domain], *, limit: int
    ) -> JointCells | None:
        """One GROUP BY; cells are numbered by the engine, so that only the sensitive columns come back."""
        shown = list(dict.fromkeys(name for d in (*sensitive, *looked_at.values()) for name in d.columns))
        order = ", ".join(quoted(c) for c in quasi)
        number = f"dense_rank() OVER (ORDER BY {order}) - 1" if quasi else "0"
        names = "".join(f"{quoted(c)}, " for c in shown)  # none where nobody named a sensitive column
        counted = f"{self._counted(list(dict.fromkeys((*quasi, *shown))))} LIMIT {limit + 1}"
        found = self._tables([f"SELECT {names}CAST({number} AS BIGINT) AS {CELL}, {ROWS} FROM ({counted}) AS joint"])[0]
        return None if found.num_rows > limit else joint_cells(found, sensitive, looked_at, self._arrow)

    def people(self, column: str) -> PeopleCount:
        grouped = f"SELECT {self._cell(column)} AS person, count(*) AS n FROM source GROUP BY 1"
        rows, missing, people, several, most = self._numbers(
            "SELECT coalesce(sum(n), 0), coalesce(sum(n) FILTER (WHERE person IS NULL), 0), count(person), "
            "count(*) FILTER (WHERE person IS NOT NULL AND n > 1), "
            f"coalesce(max(n) FILTER (WHERE person IS NOT NULL), 0) FROM ({grouped}) AS each"
        )
        return PeopleCount(rows=rows, missing=missing, people=people, several=several, most=most)

    def filled(self, columns: Sequence[str]) -> dict[str, Filled]:
        """Sketches first; only columns that may be nearly unique are counted exactly, which needs room."""
        found: dict[str, Filled] = {}
        wanted = list(columns)
        for distinct in ("approx_count_distinct({})", "count(DISTINCT {})"):
            for first in range(0, len(wanted), AT_ONCE):
                names = wanted[first : first + AT_ONCE]
                counts = ", ".join(f"count({c}), {distinct.format(c)}" for c in map(self._cell, names))
                numbers = self._numbers(f"SELECT {counts} FROM source")
                pairs = zip(names, numbers[::2], numbers[1::2], strict=True)
                found |= {name: Filled(rows=rows, distinct=min(rows, values)) for name, rows, values in pairs}
            wanted = [name for name, filled in found.items() if filled.distinct > NEAR * filled.rows]
        return found

    def _numbers(self, statement: str) -> list[int]:
        """The whole numbers in the one row of a statement."""
        return [int(column[0].as_py()) for column in self._tables([statement])[0].columns]

    def describe(self, columns: Sequence[str], *, examples: int = 0) -> dict[str, Described]:
        return {name: self._described(name, examples) for name in columns}

    def _described(self, name: str, examples: int) -> Described:
        """Column by column: exact numbers of different values need room."""
        counted = f"(SELECT {self._cell(name)} AS v, count(*) AS n FROM source GROUP BY 1) AS each"
        some = f"SELECT CAST(v AS VARCHAR) AS v FROM {counted} WHERE v IS NOT NULL ORDER BY n DESC, each.v"
        sums = (
            "SELECT coalesce(sum(n), 0), coalesce(sum(n) FILTER (WHERE v IS NOT NULL), 0), count(v), "
            "coalesce(sum(n * length(CAST(v AS VARCHAR))), 0), "
            f"coalesce(sum(n) FILTER (WHERE regexp_matches(CAST(v AS VARCHAR), '{WORDS}')), 0) FROM {counted}"
        )
        found, shown = self._tables([sums, f"{some} LIMIT {int(examples)}"])
        rows, filled, distinct, characters, sentences = (int(column[0].as_py()) for column in found.columns)
        return Described(
            rows=rows,
            filled=Filled(rows=filled, distinct=distinct),
            length=characters / filled if filled else 0.0,
            sentences=sentences / filled if filled else 0.0,
            examples=tuple(shown["v"].to_pylist()),
        )

    def binned(self, edges: Mapping[str, Sequence[float]]) -> Self:
        """Bins [edge, next edge), the last without upper end; a value below the first edge gets no known label."""
        result = copy.copy(self)
        result._bins = self._bins | {name: tuple(cuts) for name, cuts in edges.items()}
        for name in edges:
            kind = self.columns.get(name)
            if kind is None or not kind.numeric:
                raise SpecError(f'bins are given for "{name}", which is not a column of numbers', field="bins")
        result.columns = self.columns | dict.fromkeys(edges, TEXT)
        result._arrow = self._arrow | dict.fromkeys(edges, pa.string())
        result.recoded = (*self.recoded, *(Recoding(column=n, edges=tuple(cuts)) for n, cuts in edges.items()))
        return result

    def _select(self, columns: Sequence[str]) -> str:
        return ", ".join(f"{self._cell(c)} AS {quoted(c)}" for c in columns)

    def _cell(self, name: str) -> str:
        """SQL of a cell: its bin's label, or itself; -0.0 is 0.0, as equal numbers must be equal values."""
        cell = quoted(name)
        if name in self._bins:
            return bin_sql(cell, self._bins[name])
        if self.columns[name].kind is Kind.REAL:
            return f"CAST(CASE WHEN {cell} = 0 THEN 0 ELSE {cell} END AS {self.columns[name]})"
        return cell


def bin_sql(cell: str, edges: Sequence[float]) -> str:
    """SQL of the label of the bin of a number; none of a missing one."""
    *names, last = [BELOW, *bin_labels(edges)]
    whens = " ".join(f"WHEN {cell} < {cut!r} THEN '{name}'" for cut, name in zip(edges, names, strict=True))
    return f"CASE WHEN {cell} IS NULL OR isnan(CAST({cell} AS DOUBLE)) THEN NULL {whens} ELSE '{last}' END"


def joint_cells(
    table: pa.Table, sensitive: Sequence[Domain], looked_at: Mapping[int, Domain], arrow: ArrowTypes
) -> JointCells:
    """Quasi-identifier cells and sensitive values, from a table of combinations with `CELL` and `ROWS`."""
    codes = [Coder(d, arrow).encode([table[c] for c in d.columns]) for d in sensitive]
    rows = np.stack(codes, axis=1) if codes else np.zeros((table.num_rows, 1), dtype=np.int32)  # one value for all
    values, value = np.unique(rows, axis=0, return_inverse=True)
    return JointCells(
        codes=values.astype(np.int32),
        value=value.reshape(-1).astype(np.int64),
        cell=table[CELL].to_numpy().astype(np.int64),
        true_counts=table[ROWS].to_numpy().astype(np.int64),
        looked_at={u: Coder(d, arrow).encode([table[c] for c in d.columns]) for u, d in looked_at.items()},
    )


def _domain(
    columns: tuple[str, ...],
    table: pa.Table,
    declared: Mapping[str, Sequence[Scalar]],
    types: Types,
    arrow: ArrowTypes,
    *,
    nulls: bool,
) -> Domain:
    """The values of a unit, as declared or as they occur, sorted."""
    for name in columns:
        _check_cells(name, table[name], table[ROWS], types[name], nulls=nulls)
    for name, rows in unreadable_dates(table.select(list(columns))).items():
        raise DataError(f'"{name}" has {rows} different dates outside the years 1 to 9999', column=name)
    said = [name for name in columns if name in declared]
    if said and len(said) < len(columns):
        raise SpecError(f'declare the domain of every sensitive column or of none; "{said[0]}" alone is declared')
    if said:
        values = [tuple(_typed(name, declared[name], arrow[name])) for name in columns]
        grid = np.meshgrid(*[np.arange(len(v)) for v in values], indexing="ij")
        cells = zip(*[[values[j][k] for k in g.ravel()] for j, g in enumerate(grid)], strict=True)
        return Domain(columns=columns, values=tuple(cells), declared=True)
    # not by the library's group_by, which loads its query engine and with that pandas
    coded = [factorise(table[name]) for name in columns]
    codes, _ = distinct_rows([code for code, _ in coded], table.num_rows)
    shown = [values.take(pa.array(codes[:, j])).to_pylist() for j, (_, values) in enumerate(coded)]
    return Domain(columns=columns, values=tuple(zip(*shown, strict=True)))


def _check_cells(name: str, column: pa.ChunkedArray, counts: pa.ChunkedArray, kind: ColumnType, *, nulls: bool) -> None:
    """Nothing; DataError where the column holds what no domain can."""
    if kind.kind is Kind.BYTES or kind.unit == "ns":  # they have no exact form in JSON
        raise DataError(f'column "{name}" has type {kind}; turn it into text, numbers or dates', column=name)
    if pa.types.is_floating(column.type):
        odd = pc.sum(pc.filter(counts, pc.invert(pc.is_finite(column)))).as_py()
        if odd:
            message = f'{odd} rows of "{name}" are NaN or infinite; turn them into null or into numbers'
            raise DataError(message, column=name)
    missing = pc.sum(pc.filter(counts, pc.is_null(column))).as_py()
    if missing and not nulls:
        raise DataError(
            f'{missing} rows have no value in "{name}"; fill them, drop them, or make missing a value of '
            "its own with --null-as-value",
            column=name,
        )


def _typed(name: str, values: Sequence[Scalar], kind: pa.DataType) -> list[Scalar]:
    """Declared values in the column's own type, sorted, null last."""
    try:
        array = pc.unique(pc.cast(pa.array(list(values)), kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise SpecError(f'the declared domain of "{name}" does not fit its type {kind}', field="domain") from None
    return array.take(pc.sort_indices(array)).to_pylist()
