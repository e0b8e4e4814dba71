"""Ask a release: parse -> observe -> reconstruct -> answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from .answering import estimate
from .answering.answer import Answer
from .answering.computed import TABLE as INNER
from .answering.computed import over, with_derived
from .answering.covariance import shown_covariance
from .answering.estimate import Options
from .answering.explain import explained
from .answering.observe import Frame, layout, look_at_domains, observe, wanted_of
from .answering.subject import Subject, subject_of
from .engines.statements import columns_of, refined
from .model.names import ENDS, free_name
from .model.public import Domain, Floats
from .release.bundle import copy_files, writing
from .release.files import check_digests
from .release.manifest import GuaranteeModel, Manifest
from .release.opened import OpenedRelease, open_path
from .sql.nesting import Nested
from .sql.nodes import Aggregate, Query, Schema
from .sql.parse import question, read, single_select
from .sql.scalar import quoted

if TYPE_CHECKING:
    from .analysis.association import Correlation, Independence
    from .analysis.cells import Recode
    from .analysis.contrasts import Comparison
    from .analysis.fit import Fit
    from .analysis.quantiles import Quantiles
    from .engines.contract import Engine
    from .laws.functionals import Target

DEFAULT_LEVEL = 0.95
ANSWER, ROW = "__answer__", "__row__"
AT_ONCE = "rows are chosen by their estimates: the level holds for all {:,} that could have been at once"
ONE_BY_ONE = (
    "rows are chosen by their estimates, of {:,}: among those chosen intervals hold less often than the level says"
)


def ask(
    subject: Subject,
    text: str,
    *,
    level: float = DEFAULT_LEVEL,
    simultaneous: bool | None = None,
    estimator: str | None = None,
    tables: Mapping[str, Any] | None = None,
) -> Answer:
    """The answer to a SQL question, with its error; `tables` are look-up tables that it may join."""
    subject.check_estimator(estimator)
    options = Options(level=level, simultaneous=simultaneous, estimator=estimator)
    lookups = {}
    if tables:
        from .engines.files import small_table

        lookups = {name: small_table(given, name) for name, given in tables.items()}
    found = read(text, subject.schema, lookups)
    if isinstance(found, Query):
        return answered(subject, found, options)
    ((name, select),) = found.inner
    inner = answered(subject, asked := question(select, text, subject.schema), options)

    def run(statement: Any, table: pa.Table) -> pa.Table:
        return subject.reader.run(statement, text=text, tables={INNER: table})

    return over(found.outer, name, inner, text, run, options.z, asked.keys)


def answered(subject: Subject, query: Query, options: Options) -> Answer:
    """The answer to one question; intervals are simultaneous where estimates choose the rows, unless told otherwise."""
    frame = observe(query, subject)
    together = options.simultaneous if options.simultaneous is not None else bool(query.chosen_by)
    whole, listed, kind, caveats = _every_number(frame, replace(options, simultaneous=together))
    chosen = kind == "confidence" and any(_uncertain(whole.filter(listed), name) for name in query.chosen_by)
    if together and not chosen and not options.simultaneous:
        whole, listed, kind, caveats = _every_number(frame, replace(options, simultaneous=False))
    if chosen:
        caveats += ((AT_ONCE if together else ONE_BY_ONE).format(listed.true_count),)
    numbered = whole.append_column(ROW, pa.array(range(whole.num_rows), type=pa.int64()))
    columns = numbered.filter(listed)
    if query.refined:
        statement = refined(
            table=ANSWER, row=ROW, having=query.having, order=query.order, limit=query.limit, offset=query.offset
        )
        compared = estimate.without_last_bits(columns)
        columns = numbered.take(subject.reader.run(statement, text=query.text, tables={ANSWER: compared})[ROW])
    shown, names = estimate.shown(query, columns)
    for name, digits in query.digits:
        shown = estimate.rounded(shown, name, digits)
    return Answer(
        method=subject.method,
        level=options.level,
        kind=kind,
        table=shown,
        aggregates=names,
        caveats=(*caveats, *subject.said("table", columns_of(single_select(query.text)))),
        chosen=chosen,
        joint=lambda: shown_covariance(frame, whole, columns[ROW].to_numpy()),
    )


def _every_number(frame: Frame, options: Options) -> tuple[pa.Table, pa.Array, str, tuple[str, ...]]:
    """Aggregates and numbers computed from them: (columns, which rows SQL would list, kind, caveats)."""
    plain, listed, kind, caveats = estimate.answer(frame, options, partial(_quantile, frame, options))
    if not frame.query.derived:
        return plain, listed, kind, caveats
    numbers = estimate.numbers_told(frame.query, listed.true_count)

    def together(parts: int) -> tuple[pa.Table, float]:
        if options.simultaneous or parts < 2:
            return plain, options.z(numbers)
        stricter = replace(options, level=1 - (1 - options.level) / parts)
        return estimate.answer(frame, stricter, partial(_quantile, frame, stricter))[0], stricter.z(numbers)

    whole, kind, notes = with_derived(frame, plain, kind, z=options.z(numbers), together=together)
    return whole, listed, kind, (*caveats, *notes)


def _uncertain(columns: pa.Table, name: str) -> bool:
    """Whether a number has an error in some row; one that is NULL for certain has none."""
    certain = pc.equal(pc.fill_null(columns[f"{name}_se"], 1.0), 0.0)
    return bool(pc.any(pc.and_not(pc.is_valid(columns[f"{name}_low"]), certain)).as_py())


def _quantile(
    frame: Frame, options: Options, aggregate: Aggregate, keys: tuple[int, ...], comparisons: int
) -> dict[tuple[Any, ...], tuple[float, float, float]] | None:
    from .analysis.quantiles import by_keys

    if options.estimator is not None:
        return None
    level = options.one_of(comparisons)
    return by_keys(frame.subject, frame.query, aggregate, keys, level=level, target="table")


def counts(columns: Sequence[str], *, where: str | None = None, what: str = "COUNT(*)", called: str = "n") -> str:
    """The question whose answer is every cell's count, or another aggregate, with its error.

    The number is `called` so, or with _2, _3 .. behind it where a column has that name or that of an error.
    """
    names = ", ".join(quoted(c) for c in columns)
    what = f"{what} AS {free_name(called, columns, ENDS)}"
    asked = f"SELECT {names + ', ' if columns else ''}{what} FROM release" + (f" WHERE {where}" if where else "")
    return asked + (f" GROUP BY {names} ORDER BY {names}" if columns else "")


def open_release(path: str | Path, *, check: bool = True, engine: Engine | None = None) -> Release:
    """The release in a folder or a zip archive; `check` compares the digests of its files with those it states.

    A file that is not the stated one is a VerificationError. A process that is forked off opens the release itself.
    """
    return Release(open_path(path, check=check, engine=engine))


class Release:
    """An open release: ask it SQL."""

    def __init__(self, opened: OpenedRelease) -> None:
        self.opened = opened  # what release.json states, the method and its plan, and an engine over the rows
        self.subject = subject_of(opened)  # the release as a question sees it

    @contextmanager
    def _question(self) -> Iterator[Subject]:
        """The subject, for the length of a question; VerificationError where a file changed before or meanwhile."""
        self.opened.check_unchanged()
        try:
            yield self.subject
        finally:
            self.opened.check_unchanged()

    def _covariance(self, joint: Callable[[], Floats]) -> Floats:
        """The covariances of an answer that was given before: they may look at the rows again."""
        with self._question():
            return joint()

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
        with writing(Path(out), force=force) as folder, self._question():
            copy_files(self.path, folder, self.manifest)
            check_digests(folder, self.manifest)
        return Path(out)

    def sql(
        self,
        text: str,
        *,
        level: float = DEFAULT_LEVEL,
        simultaneous: bool | None = None,
        estimator: str | None = None,
        tables: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The answer to a SQL question, with its error; `tables` are small look-up tables that it may JOIN.

        `simultaneous`: whether the level holds for all rows at once; None: where HAVING or LIMIT chooses by estimates.
        """
        with self._question() as subject:
            found = ask(subject, text, level=level, simultaneous=simultaneous, estimator=estimator, tables=tables)
        return found if found.joint is None else replace(found, joint=partial(self._covariance, found.joint))

    def explain(self, text: str) -> str:
        """What will be observed, by which weights and with which variance; no data is read but the domains."""
        with self._question() as subject:
            asked = read(text, subject.schema)
            if isinstance(asked, Nested):
                ((_, select),) = asked.inner
                query, outer = question(select, text, subject.schema), asked.outer.sql(dialect="duckdb", comments=False)
            else:
                query, outer = asked, None
            views = look_at_domains(query, subject).views
            place = layout(query.units(), views, lumpable=subject.lumpable, sets=subject.sets)
            said = explained(query, wanted_of(query, subject, "release", None), place, self.opened)
        return said if outer is None else f"{said}\nover the answer, errors by its covariances: {outer}"

    def count(self, where: str | None = None, by: Sequence[str] = (), **options: Any) -> Answer:
        """How many rows meet the condition, in all or by some columns; aggregate `n`."""
        return self.sql(counts(by, where=where), **options)

    def table(self, columns: list[str], *, nonnegative: str | None = None) -> pa.Table:
        """Counts of every cell over some columns; `nonnegative` "em" or "simplex": no cell below 0, and no errors."""
        from .analysis.association import smoothed

        if nonnegative is not None:
            with self._question():
                return smoothed(self.opened, columns, nonnegative)
        return self.sql(counts(columns)).to_arrow()

    def association(self, x: str, y: str, *, level: float = DEFAULT_LEVEL) -> Any:
        """How much column x tells about column y: the uncertainty coefficient I(X; Y) / H(Y), with its interval."""
        from .analysis.association import association

        with self._question():
            return association(self.opened, x, y, level)

    # --- models and tests: `analysis` is loaded when one is asked for --------------------------------------------

    def fit(
        self,
        formula: str,
        *,
        family: str = "gaussian",
        where: str | None = None,
        weights: str | None = None,
        recode: Recode | None = None,
        target: str = "population",
        level: float = DEFAULT_LEVEL,
    ) -> Fit:
        """The model that would have been fitted on the true rows: gaussian, binomial, poisson or multinomial.

        `where` is an SQL condition, `recode` {column: {level: [values that it merges]}}, `weights` a column of numbers.
        `target`: errors for a "population" of which the table is a sample, or of the randomisation only ("table").
        """
        from .analysis.regression import fit

        with self._question() as subject:
            return fit(
                subject, formula, family=family, where=where, weights=weights, recode=recode, target=target, level=level
            )

    def test(
        self,
        x: str,
        y: str,
        *,
        where: str | None = None,
        recode: Recode | None = None,
        target: Target = "population",
        level: float = DEFAULT_LEVEL,
    ) -> Independence:
        """Whether two columns go together: a test of independence, Cramer's V, the odds ratio of two by two levels."""
        from .analysis.association import independence_test

        with self._question() as subject:
            return independence_test(subject, x, y, where=where, recode=recode, target=target, level=level)

    def quantile(
        self,
        column: str,
        shares: float | Sequence[float] = 0.5,
        *,
        by: str | Sequence[str] = (),
        where: str | None = None,
        target: Target = "table",
        level: float = DEFAULT_LEVEL,
    ) -> Quantiles:
        """Quantiles of a column of numbers, with intervals, in all or by some columns."""
        from .analysis.quantiles import quantile

        with self._question() as subject:
            return quantile(subject, column, shares, by=by, where=where, target=target, level=level)

    def correlation(
        self,
        x: str,
        y: str,
        *,
        where: str | None = None,
        target: Target = "population",
        level: float = DEFAULT_LEVEL,
    ) -> Correlation:
        """Pearson's correlation of two columns of numbers."""
        from .analysis.association import correlation

        with self._question() as subject:
            return correlation(subject, x, y, where=where, target=target, level=level)

    def compare(
        self,
        *,
        by: str,
        share: str | None = None,
        mean: str | None = None,
        where: str | None = None,
        recode: Recode | None = None,
        target: Target = "population",
        level: float = DEFAULT_LEVEL,
    ) -> Comparison:
        """The share that meets an SQL condition, or the mean of a column, between the groups of a column."""
        from .analysis.contrasts import compare

        with self._question() as subject:
            return compare(
                subject, by=by, share=share, mean=mean, where=where, recode=recode, target=target, level=level
            )

    def crosstab(
        self,
        x: str,
        y: str,
        *,
        weights: str | None = None,
        where: str | None = None,
        level: float = DEFAULT_LEVEL,
    ) -> Answer:
        """Counts `n` of every combination of two columns (`n_2` beside an n), or sums `total` of `weights`."""
        what, called = ("COUNT(*)", "n") if weights is None else (f"SUM({quoted(weights)})", "total")
        return self.sql(counts((x, y), where=where, what=what, called=called), level=level)
