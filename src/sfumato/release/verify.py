"""What a release says about itself, and whether it is true: recomputed from the bundle alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.statements import COUNT, counted
from ..errors import DataError, VerificationError
from .bundle import check_digests
from .manifest import guarantee_model
from .opened import OpenedRelease

CLOSE = 1e-9  # of the largest weight


def describe(release: OpenedRelease) -> dict[str, Any]:
    """The document of `sfumato inspect --json`."""
    manifest = release.manifest.model_dump(mode="json", exclude_none=True)
    return {name: manifest[name] for name in manifest if name not in {"format"}}


def verify(release: OpenedRelease, *, test: bool = False) -> Iterator[str]:
    """Lines that say what holds; VerificationError at the first thing that does not."""
    manifest, method = release.manifest, release.method
    check_digests(release.path, manifest)
    yield "digests of all files"
    computed = guarantee_model(method.guarantee(release.plan))
    if manifest.guarantee.model_dump(mode="json") != computed.model_dump(mode="json"):
        raise VerificationError("the stated guarantee is not the one that the published parameters give")
    yield f"guarantee recomputed from the parameters: {computed.statement}"
    check_rows(release)
    check_sets(release)
    method.verify(release.plan, release.published)
    yield "what is published is what the parameters allow"
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


def check_sets(release: OpenedRelease) -> None:
    """Refuse lists that are not the published set of their number, in domain order, and weights that do not follow."""
    for name, (numbers, lists) in release.set_lists().items():
        found = release.reader.run(counted((numbers, name), table="release"))
        shown = found[name].combine_chunks()
        if not pa.types.is_list(shown.type) or shown.type.value_type != lists.type.value_type:
            raise VerificationError(f'the cells of "{name}" are not lists of its values')
        if not shown.cast(lists.type).equals(lists.take(found[numbers].combine_chunks())):
            raise VerificationError(f'a row shows in "{name}" another list of values than the one of its number')
    weights = release.set_weights()
    stated = "weights.parquet" in release.manifest.files
    if (weights is not None) != stated:
        raise VerificationError("weights.parquet is there where no sets are published, or missing where they are")
    if weights is not None and not same_weights(weights, pq.read_table(release.path / "weights.parquet")):
        raise VerificationError("weights.parquet does not hold the weights that the published parameters give")


def same_weights(expected: pa.Table, found: pa.Table) -> bool:
    """The same sets and values in the same order, and weights equal up to the rounding of other processors."""
    if expected.schema.names != found.schema.names or expected.num_rows != found.num_rows:
        return False
    numbers = ("weight", "variance_weight")
    named = [name for name in expected.column_names if name not in numbers]
    if any(not found[n].combine_chunks().cast(expected[n].type).equals(expected[n].combine_chunks()) for n in named):
        return False
    for name in numbers:
        a, b = expected[name].to_numpy(), found[name].to_numpy()
        if not np.abs(a - b).max(initial=0.0) <= CLOSE * np.abs(a).max(initial=1.0):
            return False
    return True
