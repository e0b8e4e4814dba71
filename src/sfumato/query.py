"""Ask a release: parse -> observe -> reconstruct -> answer."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from .answering import assembly
from .answering.answer import Answer
from .answering.domain_views import check_literals, look_at_domains
from .answering.explanation import explanation
from .answering.layout import layout
from .answering.observation import Observation, direct, observation
from .answering.strata import Frame, add_up_parts
from .answering.subject import Subject
from .engines.statements import refined
from .model.public import ADDED, Domain
from .release.bundle import writing
from .release.manifest import GuaranteeModel, Manifest
from .release.opened import OpenedRelease, open_folder
from .sql.nodes import Query, Schema
from .sql.parse import parse
from .sql.scalar import quoted
from .stats.intervals import normal_quantile

DEFAULT_LEVEL = 0.95
ANSWER = "__answer__"


def ask(
    subject: Subject,
    text: str,
    *,
    level: float = DEFAULT_LEVEL,
    simultaneous: bool = False,
    estimator: str | None = None,
) -> Answer:
    """The answer to a SQL question, with its error."""
    query = parse(text, subject.schema)
    check_literals(query, subject)
    views = look_at_domains(query, subject)
    wanted = _wanted(query, subject, *subject.reader.source())
    seen = subject.reader.run(wanted.statement, text=text)
    if wanted.by_row:
        seen = add_up_parts(seen)
    place = layout(query.units(), views.views, lumpable=subject.lumpable, sets=subject.sets)
    codes = {u: subject.coders[u].encode([seen[c] for c in names]) for u, names in wanted.raw.items()}
    frame = Frame(query=query, wanted=wanted, seen=seen, place=place, codes=codes, labels=views.labels)
    asking = assembly.Asking(
        z=lambda comparisons: normal_quantile(level, comparisons if simultaneous else 1),
        options={"estimator": estimator} if estimator else {},
        estimate=subject.estimate,
        bound=subject.bound,
        direct=lambda aggregate, keys: subject.reader.run(direct(query, aggregate, keys), text=text),
    )
    columns, kind, caveats = assembly.answer(frame, asking)
    if query.refined:
        statement = refined(
            table=ANSWER, having=query.having, order=query.order, limit=query.limit, offset=query.offset
        )
        columns = subject.reader.run(statement, text=text, tables={ANSWER: columns})
    shown, names = assembly.shown(query, columns)
    return Answer(method=subject.method, level=level, kind=kind, table=shown, aggregates=names, caveats=caveats)


def _wanted(query: Query, subject: Subject, table: str, weight: str | None) -> Observation:
    return observation(
        query,
        tuple(coder.domain.columns for coder in subject.coders),
        lumpable=subject.lumpable,
        withheld=subject.withheld,
        part=subject.part,
        table=table,
        weight=weight,
    )


def open_release(path: str | Path, *, check: bool = True) -> Release:
    """The release in a folder; `check` compares the digests of its files with those it states."""
    return Release(open_folder(Path(path), check=check))


class Release:
    """An open release: ask it SQL."""

    def __init__(self, opened: OpenedRelease) -> None:
        self.opened = opened
        method, plan = opened.method, opened.plan
        schema = Schema(
            types=opened.types,
            units={name: u for u, domain in enumerate(opened.domains) for name in domain.columns},
            hidden=frozenset(c.name for c in opened.columns if c.role in ADDED),
        )
        self.subject = Subject(
            method=method.name,
            schema=schema,
            domains=opened.domains,
            coders=opened.coders,
            reader=opened.reader,
            lumpable=method.lumpable and not any(opened.listed),
            withheld=method.withheld,
            part=method.part,
            sets={u: len(sets) for u, sets in enumerate(opened.listed) if sets is not None},
            estimate=lambda observed, asked: method.estimate(plan, opened.evidence, observed, asked),
            bound=lambda *question: method.bound(plan, opened.evidence, *question),
        )

    @classmethod
    def at(cls, folder: Path, manifest: Manifest, *, scratch: Path | None = None) -> Release:
        """The release that was written to a folder a moment ago; `scratch` goes with the object."""
        return cls(OpenedRelease(folder, manifest, scratch=scratch))

    def __repr__(self) -> str:
        return f"<release by {self.manifest.method}, {self.manifest.rows:,} rows, {len(self.manifest.columns)} columns>"

    @property
    def path(self) -> Path:
        """The folder."""
        return self.opened.path

    @property
    def manifest(self) -> Manifest:
        """What release.json states."""
        return self.opened.manifest

    @property
    def plan(self) -> Any:
        """The public half of the method's plan."""
        return self.opened.plan

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The possible values of every column, or group of columns, that the method changed."""
        return self.opened.domains

    @property
    def guarantee(self) -> GuaranteeModel:
        """What the release promises, as stated in it."""
        return self.manifest.guarantee

    @property
    def schema(self) -> Schema:
        """Columns that a question may name."""
        return self.subject.schema

    def save(self, out: str | Path, *, force: bool = False) -> Path:
        """Copy the release to a folder; an existing one is replaced only with `force`."""
        with writing(Path(out), force=force) as folder:
            for name in (*self.manifest.files, "datapackage.json", "release.json"):
                shutil.copyfile(self.path / name, folder / name)
        return Path(out)

    def sql(
        self, text: str, *, level: float = DEFAULT_LEVEL, simultaneous: bool = False, estimator: str | None = None
    ) -> Answer:
        """The answer to a SQL question, with its error."""
        return ask(self.subject, text, level=level, simultaneous=simultaneous, estimator=estimator)

    def explain(self, text: str) -> str:
        """What will be observed, by which weights and with which variance; no data is read but the domains."""
        query = parse(text, self.schema)
        check_literals(query, self.subject)
        views = look_at_domains(query, self.subject).views
        place = layout(query.units(), views, lumpable=self.subject.lumpable, sets=self.subject.sets)
        wanted = _wanted(query, self.subject, "release", None)
        return explanation(query, wanted, place, self.opened.domains, self.opened.method)

    def count(self, where: str | None = None, by: Sequence[str] = (), **options: Any) -> Answer:
        """How many rows meet the condition, in all or by some columns; aggregate `n`."""
        names = ", ".join(quoted(name) for name in by)
        sql = f"SELECT {names + ', ' if by else ''}COUNT(*) AS n FROM release"
        sql += (f" WHERE {where}" if where else "") + (f" GROUP BY {names} ORDER BY {names}" if by else "")
        return self.sql(sql, **options)

    def table(self, columns: list[str], *, nonnegative: str | None = None) -> pa.Table:
        """Counts of every cell over some columns; `nonnegative` "em" or "simplex": no cell below 0, and no errors."""
        from .answering.contingency import counts, smoothed

        if nonnegative is not None:
            return smoothed(self.opened, columns, nonnegative)
        return self.sql(counts(columns)).to_arrow()

    def association(self, x: str, y: str) -> Any:
        """How much column x tells about column y: the uncertainty coefficient I(X; Y) / H(Y), with its error."""
        from .answering.contingency import association

        return association(self.opened, x, y)
