"""What a release says about itself, and whether it is true: recomputed from the bundle alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..engines.statements import COUNT, counted
from ..errors import DataError, PlanError, SpecError, VerificationError
from ..stats.tails import FALSE_ALARM
from .bundle import check_digests
from .checks import check_columns, check_folder, check_order, check_package, check_traces, check_types
from .manifest import guarantee_model
from .opened import OpenedRelease


def describe(release: OpenedRelease) -> dict[str, Any]:
    """The document of `sfumato inspect --json`: what the release says, which nobody has checked."""
    manifest = release.manifest.model_dump(mode="json", exclude_none=True)
    return {name: manifest[name] for name in manifest if name not in {"format"}} | {"verified": False}


def verify(release: OpenedRelease, *, test: bool = False) -> Iterator[str]:
    """Lines that say what holds; VerificationError at the first thing that does not."""
    manifest, method = release.manifest, release.method
    check_folder(release.path, manifest)
    check_digests(release.path, manifest)
    yield "digests of all files"
    check_package(release.path, manifest)
    check_traces(release.path, manifest)
    yield "no file, column or note besides those that are declared"
    check_columns(release)
    check_types(release)
    try:
        computed = guarantee_model(method.guarantee(release.plan))
    except (PlanError, SpecError) as error:
        raise VerificationError(f"the published parameters give no guarantee: {error}") from None
    if manifest.guarantee.model_dump(mode="json") != computed.model_dump(mode="json"):
        raise VerificationError("the stated guarantee is not the one that the published parameters give")
    yield f"guarantee recomputed from the parameters: {computed.statement}"
    check_rows(release)
    method.verify(release.plan, release.published)
    yield f"what is published is what the parameters allow (false alarm: {FALSE_ALARM:g})"
    check_order(release)
    yield f"rows are in random order (false alarm: {FALSE_ALARM:g})"
    yield f"{manifest.rows:,} rows, columns and values as stated"
    if manifest.reproducible and not test:
        raise VerificationError("the release was made with a seed, so its noise can be undone; for tests say --test")
    yield "made with a seed, accepted as a test" if manifest.reproducible else "made without a seed"


def check_rows(release: OpenedRelease) -> None:
    """Refuse a release whose rows, columns or published values are not the ones it states."""
    stated = {c.name for c in release.columns}
    side = {n for d in release.domains for n in d.columns} if release.method.withheld else set()
    if set(release.reader.columns) != stated - side:
        raise VerificationError("the columns of data.parquet are not the ones release.json states")
    if release.reader.run(counted((), table="release"))[COUNT][0].as_py() != release.manifest.rows:
        raise VerificationError("the number of rows is not the one release.json states")
    try:
        if release.method.withheld:
            _ = release.evidence.side
        else:
            for u in range(len(release.domains)):
                release.evidence.totals((u,))
    except DataError:
        raise VerificationError("the release holds values outside the domain that release.json states") from None


def unseen(release: OpenedRelease) -> tuple[str, ...]:
    """What nobody can tell from the bundle alone."""
    swapped = "published values that were swapped between rows, or values of columns that are published as they are"
    halved = () if release.method.part else ("rows left out or repeated: the bundle states no size but their number",)
    return (swapped, *release.method.unseen, *halved)
