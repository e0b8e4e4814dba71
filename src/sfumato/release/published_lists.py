"""Whether the lists and weights of a release that shows sets are those of its list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import VerificationError
from .opened import OpenedRelease

CLOSE = 1e-9  # of the largest weight


def check_sets(release: OpenedRelease) -> None:
    """Refuse lists that are not the published set of their number, in domain order, and weights that do not follow."""
    for name, (numbers, lists) in release.set_lists().items():
        found = release.reader.count((numbers, name))
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
