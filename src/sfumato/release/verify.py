"""What a release says about itself, and whether it is true: recomputed from the bundle alone.

Looked at is what a reader sees: files, columns, values, the order of rows, and whether they follow the stated law.
Bytes hidden beside the values, for example between the pages of a Parquet file, are not looked for.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..engines.statements import COUNT, distinct
from ..errors import DataError, PlanError, SpecError, VerificationError
from ..methods import AnyMethod
from ..methods.ladder import public_readers
from ..methods.shared.readers import ONE_ROW
from ..model.coarsening import Recoding
from ..stats.tails import FALSE_ALARM
from .checks import (
    check_columns,
    check_folder,
    check_order,
    check_package,
    check_readme,
    check_sets,
    check_texts,
    check_traces,
)
from .files import check_digests
from .manifest import Manifest, encode, guarantee_model
from .opened import OpenedRelease, open_path, stated_by_a_stranger

NEAR = 1e-9  # of a step, to which a rounded real number is a multiple


def describe(release: OpenedRelease) -> dict[str, Any]:
    """The document of `sfumato inspect --json`: what the release says, which nobody has checked."""
    manifest = release.manifest.model_dump(mode="json", exclude_none=True)
    found = {name: manifest[name] for name in manifest if name not in {"format"}} | {"verified": False}
    return found if release.method is not None else found | {"method_installed": False}


def stated_guarantee(manifest: Manifest) -> dict[str, Any]:
    """The same of the guarantee alone."""
    return manifest.guarantee.model_dump(mode="json", exclude_none=True)


def verify(
    release: str | Path | OpenedRelease, *, test: bool = False, key: str | Path | None = None
) -> tuple[str, ...]:
    """What holds of a release, line by line, recomputed from the bundle alone; VerificationError where something fails.

    `release` is a folder, a zip archive, or an open one. `test` accepts a release that was made with a seed. `key` is a
    file with the custodian's public key in PEM: the signature is checked with it.
    """
    opened = release if isinstance(release, OpenedRelease) else open_path(release)
    lines = tuple(verified_lines(opened, test=test))
    if key is None:
        return lines
    from .signing import check_signature, read_public

    check_signature(opened.path, read_public(key))
    opened.check_unchanged()
    return (*lines, "signed with the private half of this key")


def verified_lines(release: OpenedRelease, *, test: bool = False) -> Iterator[str]:
    """Lines that say what holds; VerificationError at the first thing that does not."""
    manifest = release.manifest
    check_folder(release.path, manifest)
    check_digests(release.path, manifest)
    yield "digests of all files"
    yield from _contents(release)
    check_order(release)
    release.check_unchanged()
    yield f"rows are in random order (false alarm: {FALSE_ALARM:g})"
    yield f"{manifest.rows:,} rows, columns and values as stated"
    if manifest.reproducible and not test:
        raise VerificationError("the release was made with a seed, so its noise can be undone; for tests say --test")
    yield "made with a seed, accepted as a test" if manifest.reproducible else "made without a seed"
    if release.method is None:
        raise VerificationError(
            f'the method "{manifest.method}" is not installed, so that its promise was not recomputed; files, rows and '
            "the law of the rows are as stated"
        )


def _contents(release: OpenedRelease) -> Iterator[str]:
    """Lines about everything that is stated, but for digests and the order of the rows."""
    manifest, method = release.manifest, release.method
    check_package(release.path, manifest)
    check_readme(release.path, manifest)
    check_traces(release.path, manifest)
    yield "no file, column or note besides those that are declared"
    check_columns(release)
    check_texts(release)
    check_coarser(release)
    if method is not None:
        yield from _promise(release, method)
    check_rows(release)
    with stated_by_a_stranger(VerificationError, "the published parameters do not fit the published rows"):
        check_sets(release)
        release.law.check(release.published)
        if method is not None:
            method.verify(release.plan, release.published)
    yield f"what is published is what the parameters allow (false alarm: {FALSE_ALARM:g})"


def _promise(release: OpenedRelease, method: AnyMethod) -> Iterator[str]:
    """Lines about the guarantee and the readers, recomputed from the parameters."""
    manifest = release.manifest
    with stated_by_a_stranger(VerificationError, "the guarantee cannot be computed from the published parameters"):
        try:
            computed = guarantee_model(method.guarantee(release.plan), manifest.people.noun())
        except (PlanError, SpecError) as error:
            raise VerificationError(f"the published parameters give no guarantee: {error}") from None
    beside = {"readers", "unprotected"}
    if manifest.guarantee.model_dump(mode="json", exclude=beside) != computed.model_dump(mode="json", exclude=beside):
        raise VerificationError("the stated guarantee is not the one that the published parameters give")
    if method.rows_held(release.plan) not in {None, manifest.people.rows_per_person}:
        raise VerificationError("the parameters do not hold as many rows of a person as the release states")
    yield f"guarantee recomputed from the parameters: {computed.statement}"
    yield from _check_readers(release, method)


def _check_readers(release: OpenedRelease, method: AnyMethod) -> Iterator[str]:
    """A line about the readers, recomputed; and about the values that are stated not to be covered."""
    stated = release.manifest.guarantee
    if stated.readers is not None:
        person = next((r.rows for r in stated.readers if r.rows is not None), None)
        assumed = any(ONE_ROW in r.why for r in stated.readers)
        sensitive = {column.name for column in release.columns if column.role == "sensitive"}
        domains = [d for d in release.domains if set(d.columns) <= sensitive]
        found = public_readers(method, release.plan, domains, rows_per_person=None if assumed else person)
        if tuple(r.noun() for r in stated.readers) != found:
            raise VerificationError("the stated readers are not the ones that the published parameters give")
        held = ", ".join(r.reader for r in found if r.held) or "none"
        yield f"readers recomputed from the parameters; held: {held}"
    if stated.unprotected is not None and stated.unprotected.values:
        domain = {tuple(c.domain or ()) for c in release.columns if c.role == "sensitive"}
        allowed = {str(encode(v)) for column in domain for v in column}
        for value in stated.unprotected.values:
            cells = value if isinstance(value, list) else [value]
            if not {str(c) for c in cells} <= allowed:
                raise VerificationError("a value is said not to be covered that is not in the published domain")
        left = stated.unprotected
        yield f"not covered, as stated: {left.share:.0%} of the rows, by value: {len(left.values)}"


def check_rows(release: OpenedRelease) -> None:
    """Refuse a release whose rows or published values are not the ones it states."""
    if release.reader.count(())[COUNT][0].as_py() != release.manifest.rows:
        raise VerificationError("the number of rows is not the one release.json states")
    try:
        if release.law.withheld:
            _ = release.evidence.side
        else:
            for unit in range(len(release.domains)):
                release.published.evidence.totals((unit,))
    except DataError:
        raise VerificationError("the release holds values outside the domain that release.json states") from None


def check_coarser(release: OpenedRelease) -> None:
    """Raise VerificationError where a published value is finer than the release says."""
    recodings = release.manifest.recodings()
    columns = {column.name: column for column in release.columns}
    last = {recoding.column: recoding for recoding in recodings}
    for name, recoding in last.items():
        if name not in columns:
            raise VerificationError(f'release.json says that "{name}" was made coarser, which it does not publish')
        column = columns[name]
        if column.released_type is not None:
            continue
        values: Sequence[Any] = column.domain or ()
        if column.domain is None:
            values = release.reader.run(distinct(name, table="release"))["v"].to_pylist()
        before = [r for r in recodings if r.column == name and r is not recoding]
        if any(v is not None and not _fits(v, recoding, before) for v in values):
            raise VerificationError(f'"{name}" holds values that are finer than release.json says')


def _fits(value: Any, recoding: Recoding, before: list[Recoding]) -> bool:
    if recoding.edges:
        return value in recoding.labels
    if recoding.top is not None:
        at_top = float(value) == float(recoding.top)
        return at_top or (float(value) < float(recoding.top) and all(_fits(value, r, []) for r in before))
    if recoding.period is not None:
        return isinstance(value, datetime.date) and _first_day(value, recoding.period)
    assert recoding.step is not None
    if isinstance(value, float):
        return abs(value / float(recoding.step) - round(value / float(recoding.step))) <= NEAR
    return (Fraction(value) / recoding.step).denominator == 1


def _first_day(day: datetime.date, period: str) -> bool:
    if period == "week":
        return day.weekday() == 0
    months = {"year": (1,), "quarter": (1, 4, 7, 10)}.get(period, tuple(range(1, 13)))
    return day.day == 1 and day.month in months


def unseen(release: OpenedRelease) -> tuple[str, ...]:
    """What nobody can tell from the bundle alone."""
    swapped = "published values that were swapped between rows, or values of columns that are published as they are"
    halved = () if release.law.part else ("rows left out or repeated: the bundle states no size but their number",)
    hidden = "bytes hidden in a file beside its values, where no reader looks"
    own = () if release.method is None else release.method.unseen
    return (swapped, *own, *halved, hidden)
