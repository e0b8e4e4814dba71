"""Ask a release: parse -> observe -> reconstruct -> answer."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from . import assemble
from .answers import Answer
from .engines.codes import Coder
from .engines.reading import ReleaseReader
from .errors import DataError, QueryError, ReleaseError, UnsupportedQuery, VerificationError
from .mechanisms import REGISTRY
from .mechanisms.base import Mechanism
from .model.public import Evidence
from .release.bundle import check_contents, check_digests, read_manifest, writing
from .release.manifest import Manifest
from .sql.explain import explanation
from .sql.functionals import UnitView, layout
from .sql.nodes import Query, Schema
from .sql.observation import Observation, direct, observation, quoted
from .sql.parse import parse
from .sql.scalar import nearest
from .stats.intervals import normal_quantile
from .strata import Frame, add_up_parts, factorise, truth

DEFAULT_LEVEL = 0.95
NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)


def open_release(path: str | Path, *, check: bool = True) -> Release:
    """The release in a folder; `check` compares the digests of its files with those it states."""
    folder = Path(path)
    manifest = read_manifest(folder)
    if check:
        check_digests(folder, manifest)
    check_contents(folder, manifest)
    return Release(folder, manifest)


class Release:
    """An open release: ask it SQL."""

    def __init__(self, folder: Path, manifest: Manifest, *, scratch: Path | None = None) -> None:
        self.path, self.manifest = folder, manifest
        if scratch is not None:  # a temporary folder that lives as long as this object
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        if manifest.method not in REGISTRY:
            raise ReleaseError(
                f'the release was made by "{manifest.method}", which this version of sfumato does not know'
            )
        self.mechanism: Mechanism = REGISTRY[manifest.method]
        try:
            self.plan: Any = TypeAdapter(self.mechanism.Plan).validate_python(manifest.parameters)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(p) for p in first["loc"])
            raise ReleaseError(f"release.json is not valid at parameters.{place[:200]}: {first['msg'][:200]}") from None
        self.domains = manifest.domains()
        self.reader = ReleaseReader(folder / "data.parquet", manifest.rows)
        self._types = {c.name: c.type for c in manifest.columns}
        self.schema = Schema(
            types=self._types,
            units={name: u for u, domain in enumerate(self.domains) for name in domain.columns},
            hidden=frozenset(c.name for c in manifest.columns if c.role == "group"),
        )
        released = self.mechanism.released_domains(self.plan, self.domains)
        self._coders = [
            Coder(d, {}) if d is not base else Coder(d, self.reader.arrow_types(d.columns, self._types))
            for d, base in zip(released, self.domains, strict=True)
        ]
        self._evidence: Evidence | None = None

    def __repr__(self) -> str:
        return f"<release by {self.manifest.method}, {self.manifest.rows:,} rows, {len(self.manifest.columns)} columns>"

    def save(self, out: str | Path, *, force: bool = False) -> Path:
        """Copy the release to a folder; an existing one is replaced only with `force`."""
        with writing(Path(out), force=force) as folder:
            for name in (*self.manifest.files, "datapackage.json", "release.json"):
                shutil.copyfile(self.path / name, folder / name)
        return Path(out)

    @property
    def guarantee(self) -> Any:
        """What the release promises, as stated in it."""
        return self.manifest.guarantee

    @property
    def evidence(self) -> Evidence:
        """What a reader knows besides the rows a question touches; built on first use."""
        if self._evidence is None:
            kept: dict[tuple[int, ...], Any] = {}

            def totals(units: tuple[int, ...]) -> Any:
                if units not in kept:
                    kept[units] = self.reader.totals([self._coders[u] for u in units], self.mechanism.PART)
                return kept[units]

            self._evidence = Evidence(
                rows=self.manifest.rows,
                domains=self.domains,
                totals=totals,
                side=self._side(),
                digest=self.manifest.files["data.parquet"].sha256,
            )
        return self._evidence

    def _side(self) -> Mapping[str, Any]:
        """Columns of sensitive.parquet; a unit's columns come as codes under "unit0", "unit1" ..."""
        if "sensitive.parquet" not in self.manifest.files:
            return {}
        import pyarrow.parquet as pq

        table = pq.read_table(self.path / "sensitive.parquet").combine_chunks()
        side: dict[str, Any] = {}
        for u, coder in enumerate(self._coders):
            if set(coder.domain.columns) <= set(table.column_names):
                side[f"unit{u}"] = coder.encode([table[n] for n in coder.domain.columns])
        changed = set(self.schema.units)
        return side | {n: table[n].to_numpy() for n in table.column_names if n not in changed}

    def check_contents(self) -> None:
        """Refuse a release whose rows, columns or published values are not the ones it states."""
        stated = {c.name for c in self.manifest.columns}
        side = {n for d in self.domains for n in d.columns} if self.mechanism.WITHHELD else set()
        if set(self.reader.types) != stated - side:
            raise VerificationError("the columns of data.parquet are not the ones release.json states")
        if self.reader.rows() != self.manifest.rows:
            raise VerificationError("the number of rows is not the one release.json states")
        try:
            units = tuple(range(len(self.domains)))
            if self.mechanism.WITHHELD:
                _ = self.evidence.side
            else:
                for u in units:
                    self.evidence.totals((u,))
        except DataError:
            raise VerificationError("the release holds values outside the domain that release.json states") from None
        check_rows = getattr(self.mechanism, "check_rows", None)
        if check_rows is not None:
            sensitive = tuple(c.name for c in self.manifest.columns if c.role == "sensitive")
            check_rows(self.plan, sensitive, self._counted)

    def _counted(self, columns: tuple[str, ...]) -> tuple[Any, Any]:
        """(codes of the distinct published cells over some columns, rows of each), for checks of the contents."""
        from .strata import factorise

        names = ", ".join(quoted(c) for c in columns)
        seen = self.reader.query(f"SELECT {names}, COUNT(*) AS __n__ FROM release GROUP BY ALL")
        codes = np.column_stack([factorise(seen[c])[0] for c in columns]).astype(np.int64)
        return codes, seen["__n__"].to_numpy().astype(np.int64)

    def sql(
        self, text: str, *, level: float = DEFAULT_LEVEL, simultaneous: bool = False, estimator: str | None = None
    ) -> Answer:
        """The answer to a SQL question, with its error."""
        query = parse(text, self.schema)
        self._check_values(query)
        views = self._views(query)
        wanted = self._observation(query, *self.reader.source())
        seen = self.reader.query(wanted.sql, text=text)
        if wanted.by_row:
            seen = add_up_parts(seen)
        place = layout(query.units(), views.views, lumpable=self.mechanism.LUMPABLE)
        codes = {u: self._coders[u].encode([seen[c] for c in names]) for u, names in wanted.raw.items()}
        frame = Frame(query=query, wanted=wanted, seen=seen, place=place, codes=codes, labels=views.labels)
        asking = assemble.Asking(
            z=lambda comparisons: normal_quantile(level, comparisons if simultaneous else 1),
            options={"estimator": estimator} if estimator else {},
            estimate=self._estimate,
            bound=self._bound,
            direct=lambda aggregate, keys: self.reader.query(direct(query, aggregate, keys), text=text),
        )
        columns, kind, caveats = assemble.answer(frame, asking)
        if query.refined:
            columns = self.reader.refine(
                columns, having=query.having, order=query.order, limit=query.limit, offset=query.offset, text=text
            )
        shown, names = assemble.shown(query, columns)
        return Answer(
            method=self.manifest.method, level=level, kind=kind, table=shown, aggregates=names, caveats=caveats
        )

    def _observation(self, query: Query, table: str, weight: str | None) -> Observation:
        return observation(
            query,
            tuple(d.columns for d in self.domains),
            lumpable=self.mechanism.LUMPABLE,
            withheld=self.mechanism.WITHHELD,
            part=self.mechanism.PART,
            table=table,
            weight=weight,
        )

    def explain(self, text: str) -> str:
        """What will be observed, by which weights and with which variance; no data is read but the domains."""
        query = parse(text, self.schema)
        self._check_values(query)
        place = layout(query.units(), self._views(query).views, lumpable=self.mechanism.LUMPABLE)
        wanted = self._observation(query, "release", None)
        return explanation(query, wanted, place, self.domains, self.mechanism)

    def count(self, where: str | None = None, by: Sequence[str] = (), **options: Any) -> Answer:
        """How many rows meet the condition, in all or by some columns; aggregate `n`."""
        names = ", ".join(quoted(name) for name in by)
        sql = f"SELECT {names + ', ' if by else ''}COUNT(*) AS n FROM release"
        sql += (f" WHERE {where}" if where else "") + (f" GROUP BY {names} ORDER BY {names}" if by else "")
        return self.sql(sql, **options)

    def table(self, columns: list[str], *, nonnegative: str | None = None) -> pa.Table:
        """Counts of every cell over some columns; `nonnegative` "em" or "simplex": no cell below 0, and no errors."""
        from .contingency import table

        return table(self, columns, nonnegative)

    def association(self, x: str, y: str) -> Any:
        """How much column x tells about column y: the uncertainty coefficient I(X; Y) / H(Y), with its error."""
        from .contingency import association

        return association(self, x, y)

    def encode(self, unit: int, column: pa.ChunkedArray) -> tuple[Any, pa.Array]:
        """(codes of a published column, values of the codes) of a unit of one column."""
        coder = self._coders[unit]
        return coder.encode([column]), pa.array([v[0] for v in coder.domain.values], type=column.type)

    def _estimate(self, observed: Any, asked: Any) -> Any:
        return self.mechanism.estimate(self.plan, self.evidence, observed, asked)

    def _bound(self, *args: Any, **kwargs: Any) -> Any:
        bound = getattr(self.mechanism, "bound", None)
        return None if bound is None else bound(self.plan, self.evidence, *args, **kwargs)

    def _views(self, query: Query) -> _Views:
        """Leaves, keys and numbers of every involved unit, evaluated on its domain by DuckDB itself."""
        views, labels = {}, {}
        for u in query.units():
            leaves = [i for i, leaf in enumerate(query.leaves) if leaf.unit == u]
            keys = [i for i, key in enumerate(query.keys) if key.unit == u]
            values = [i for i, (unit, _) in enumerate(query.values) if unit == u]
            expressions = [query.leaves[i].sql for i in leaves]
            expressions += [query.keys[i].sql for i in keys]
            expressions += [f"COALESCE(CAST({query.values[i][1]} AS DOUBLE), 0)" for i in values]
            self._check_numbers(query, values)
            table = self.reader.on_domain(self.domains[u], self._types, expressions, text=query.text)
            columns = iter(table.columns)
            truths = {i: truth(next(columns)) for i in leaves}
            groups = {}
            for i in keys:
                groups[i], labels[i] = factorise(next(columns))
            numbers = {i: next(columns).to_numpy().astype(float) for i in values}
            views[u] = UnitView(size=len(self.domains[u]), leaves=truths, groups=groups, numbers=numbers)
        return _Views(views, labels)

    def _check_numbers(self, query: Query, values: list[int]) -> None:
        """Refuse sums over a changed column that is not a number."""
        for i in values:
            unit, sql = query.values[i]
            kinds = self.reader.on_domain(self.domains[unit], self._types, [sql], text=query.text).schema
            if not any(check(kinds[0].type) for check in NUMERIC):
                aggregate = next(a for a in query.aggregates if any(t.value == i for t in a.numerator))
                raise UnsupportedQuery(
                    f"{aggregate.text} needs numbers, and {sql} holds none",
                    sql=query.text,
                    position=aggregate.position,
                    hint="Ask for COUNT(*) and GROUP BY the column.",
                )

    def _check_values(self, query: Query) -> None:
        """Refuse a literal that is no value of the column it is compared with, and suggest near ones."""
        for lookup in query.lookups:
            unit = self.schema.units.get(lookup.column)
            if unit is not None:
                domain = self.domains[unit]
                known = {v[domain.columns.index(lookup.column)] for v in domain.values}
            elif isinstance(lookup.literal, str) and self._types[lookup.column] == "VARCHAR":
                known = set(self._published(lookup.column))
            else:
                continue
            texts = {str(v) for v in known if v is not None}
            numbers = {float(v) for v in known if isinstance(v, int | float)}
            literal = lookup.literal
            if (isinstance(literal, str) and literal in texts) or (
                isinstance(literal, float) and (literal in numbers or str(literal) in texts)
            ):
                continue
            if isinstance(literal, str) and numbers and _as_float(literal) in numbers:
                continue
            shown = f'"{literal}"' if isinstance(literal, str) else f"{literal:g}"
            raise QueryError(
                f'"{lookup.column}" has no value {shown}{nearest(str(literal), texts)}',
                sql=query.text,
                position=lookup.position,
            )

    def _published(self, column: str) -> list[Any]:
        kept = self.__dict__.setdefault("_distinct", {})
        if column not in kept:
            kept[column] = self.reader.distinct(column)
        return list(kept[column])


@dataclass(frozen=True, slots=True)
class _Views:
    views: Mapping[int, UnitView]
    labels: Mapping[int, pa.Array]  # unit key number -> value of every group


def _as_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan
