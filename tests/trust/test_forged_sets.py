"""Releases that show sets, of every form, bent where types, names and numbers are concerned: refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
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


SETS = {
    "weights in lists": retyped("weight", wrapped),
    "values as texts": retyped("value", texts),
    "numbers of sets as texts": retyped("pay_set", texts),
    "members as texts": retyped("member", texts),
    "members as numbers": retyped("member", lambda column: column.cast(pa.int8())),
    "no number": retyped("weight", lambda column: pa.array([float("nan"), *column.to_pylist()[1:]])),
}


@pytest.mark.parametrize("form", FORMS)
def test_weights_that_plain_sql_would_misread_are_refused(form: str, releases: dict[str, Path], tmp_path: Path) -> None:
    verified(forged(releases[form], tmp_path / "copy"))
    for what, change in SETS.items():
        with pytest.raises(VerificationError, match=r"sets\.parquet") as refused:
            verified(forged(releases[form], tmp_path / what, sets=change))
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("form", FORMS[2:])
def test_rows_without_the_number_of_their_set_do_not_open(form: str, releases: dict[str, Path], tmp_path: Path) -> None:
    """sets.parquet holds the numbers of sets as well: that does not make up for them."""
    forgery = forged(releases[form], tmp_path / "dropped", data=lambda found: found.drop(["pay_set"]))
    with pytest.raises(ReleaseError, match=r"columns of data\.parquet are not"):
        sf.open_release(forgery)


@pytest.mark.parametrize("form", FORMS)
def test_a_release_without_its_sets_does_not_open(form: str, releases: dict[str, Path], tmp_path: Path) -> None:
    def without(stated: dict[str, Any]) -> None:
        del stated["files"]["sets.parquet"]

    with pytest.raises(VerificationError, match=r"names no sets\.parquet"):
        sf.open_release(forged(releases[form], tmp_path / "without", manifest=without))
