"""Files of an export: none is replaced in silence, none takes the place of another, and all of them come or none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import sfumato as sf
from sfumato.errors import ReleaseError
from sfumato.exporting import export
from sfumato.exporting.files import _free
from sfumato.methods import REGISTRY
from tables import people

ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], rest="drop")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("places")


@pytest.mark.parametrize("name", REGISTRY)
def test_a_file_beside_the_rows_is_not_replaced_either(name: str, folder: Path, tmp_path: Path) -> None:
    """Whichever of them exists: all others are as they were, and nothing else came."""
    method = REGISTRY[name]
    spec = method.spec(**method.example.spec)
    release = sf.publish(people(), folder / name, roles=ROLES, method=spec, seed=1, accept_unprotected=True).opened
    (tmp_path / "whole").mkdir()
    export(release, tmp_path / "whole" / "t.csv")
    names = sorted(file.name for file in (tmp_path / "whole").iterdir())
    for number, taken in enumerate(names):
        place = tmp_path / str(number)
        place.mkdir()
        (place / taken).write_text("mine")
        with pytest.raises(ReleaseError, match=f'"{taken}" exists'):
            export(release, place / "t.csv")
        assert [(file.name, file.read_text()) for file in place.iterdir()] == [(taken, "mine")]
        export(release, place / "t.csv", force=True)
        assert sorted(file.name for file in place.iterdir()) == names
        (place / "t.csv").unlink()
        (place / taken).unlink(missing_ok=True)
        (place / taken).mkdir()
        with pytest.raises(ReleaseError, match=f'"{taken}" exists'):
            export(release, place / "t.csv", force=True)
        assert (place / taken).is_dir()
        assert [file.name for file in place.iterdir() if "partial" in file.name] == []


def test_columns_whose_names_a_file_cannot_tell_apart(tmp_path: Path) -> None:
    table = pa.table({"a.b": [0, 1, 2] * 40, "a_b": [3, 4, 5, 6] * 30, "A:b": [7, 8] * 60})
    keep = dict.fromkeys(table.column_names, 0.6)
    roles = sf.Roles(sensitive=table.column_names)
    method = sf.RandomizedResponse(scope="s", keep=keep)
    release = sf.publish(table, roles=roles, method=method, seed=1, accept_unprotected=True)
    export(release.opened, tmp_path / "t.csv")
    found = [pacsv.read_csv(file) for file in sorted(tmp_path.glob("t-weights*.csv"))]
    assert {name for weights in found for name in weights.column_names} >= set(table.column_names)
    assert len(found) == 3


def test_free_names_are_short_and_differ() -> None:
    taken, long = set[str](), "x" * 31
    found = [_free(name, taken) for name in (long, long, f"{'x' * 27}-2", long.upper(), long, "y", "Y")]
    assert len({name.lower() for name in found}) == len(found) == len(taken)
    assert max(map(len, found)) == 31
    assert found[0] == long
