"""Releases that show sets, of every form, bent where types, names and numbers are concerned: refused in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from forging import forged, verified
from pays import METHODS, ROLES, table
from sfumato.errors import ReleaseError, VerificationError

FORMS = ("table-wide", "ranges", "sub-tables", "sums in sub-tables")
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A release of every form, made without a seed."""
    folder = tmp_path_factory.mktemp("sets")
    for form in FORMS:
        sf.publish(table().slice(0, 4_000), folder / form, roles=ROLES, method=METHODS[form])
    return {form: folder / form for form in FORMS}


def retyped(name: str, change: Callable[[pa.ChunkedArray], pa.Array]) -> Change:
    return lambda found: found.set_column(found.column_names.index(name), name, change(found[name]))


def texts(column: pa.ChunkedArray) -> pa.Array:
    return column.cast(pa.string())


def wrapped(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([[cell] for cell in column.to_pylist()])


WEIGHTS = {
    "weights in lists": retyped("weight", wrapped),
    "values as texts": retyped("value", texts),
    "numbers of sets as texts": retyped("pay_set", texts),
    "no number": retyped("weight", lambda column: pa.array([float("nan"), *column.to_pylist()[1:]])),
}


@pytest.mark.parametrize("form", FORMS)
def test_weights_that_plain_sql_would_misread_are_refused(form: str, releases: dict[str, Path], tmp_path: Path) -> None:
    verified(forged(releases[form], tmp_path / "copy"))
    for what, change in WEIGHTS.items():
        with pytest.raises(VerificationError, match=r"weights\.parquet") as refused:
            verified(forged(releases[form], tmp_path / what, weights=change))
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("form", FORMS[:2])
def test_a_note_in_the_name_of_the_elements_is_refused(form: str, releases: dict[str, Path], tmp_path: Path) -> None:
    noted = shutil.copytree(releases[form], tmp_path / "noted")
    found = pq.read_table(noted / "data.parquet")
    lists = found["pay"].combine_chunks()
    kind = pa.list_(pa.field("a note", lists.type.value_type))
    shown = retyped("pay", lambda _: pa.ListArray.from_arrays(lists.offsets, lists.flatten(), type=kind))(found)
    pq.write_table(shown, noted / "data.parquet", store_schema=False, use_compliant_nested_type=False)
    with pytest.raises(VerificationError, match="laid out"):
        verified(forged(noted, tmp_path / "forged"))


@pytest.mark.parametrize("form", FORMS[2:])
@pytest.mark.parametrize("name", ["pay", "pay_set"])
def test_rows_without_the_list_or_its_number_do_not_open(
    form: str, name: str, releases: dict[str, Path], tmp_path: Path
) -> None:
    """weights.parquet holds the numbers of sets as well: that does not make up for them."""
    forgery = forged(releases[form], tmp_path / "dropped", data=lambda found: found.drop([name]))
    with pytest.raises(ReleaseError, match=r"columns of data\.parquet are not"):
        sf.open_release(forgery)
