"""A release whose rows lie in several part files is the same release."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from forging import describe, verified
from sfumato.errors import ReleaseError, VerificationError
from sfumato.release.bundle import describe_files
from tables import MARK, people

ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
QUESTION = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM release WHERE disease <> 'flu' GROUP BY sex ORDER BY sex"
TOKENS = ("0123456789abcdef", "7c00000000000000", "f00d00000000beef")


def cut(release: Path, table: pa.Table | None = None) -> Path:
    """The release with its rows in three parts, and everything that describes them made anew."""
    whole = pq.read_table(release / "data.parquet") if table is None else table
    (release / "data.parquet").unlink()
    (release / "data").mkdir()
    size = -(-whole.num_rows // len(TOKENS))
    for i, token in enumerate(TOKENS):
        file = release / "data" / f"part-{token}.parquet"
        pq.write_table(whole.slice(i * size, size), file, store_schema=False)
    stated = json.loads((release / "release.json").read_text())
    stated["files"] = {name: file.model_dump() for name, file in describe_files(release).items()}
    (release / "release.json").write_text(json.dumps(stated))
    describe(release)
    return release


@pytest.fixture
def release(tmp_path: Path) -> Path:
    sf.publish(people(), tmp_path / "out", roles=ROLES, method=sf.SmallDomain(rho1="1/5", rho2="1/3", min_size=100))
    return tmp_path / "out"


def test_parts_answer_like_the_whole(release: Path) -> None:
    whole = sf.open_release(release).sql(QUESTION).to_json()
    parts = sf.open_release(cut(release))
    assert parts.manifest.data_files == tuple(f"data/part-{token}.parquet" for token in TOKENS)
    assert parts.sql(QUESTION).to_json() == whole
    assert any("random order" in line for line in verified(release))
    package = json.loads((release / "datapackage.json").read_text())
    assert package["resources"][0]["path"] == list(parts.manifest.data_files)


def test_parts_are_copied_and_replaced(release: Path, tmp_path: Path) -> None:
    parts = sf.open_release(cut(release))
    parts.save(tmp_path / "copy")
    parts.save(tmp_path / "copy", force=True)
    assert verified(tmp_path / "copy") == verified(release)
    (tmp_path / "copy" / "data" / "note.txt").write_text("mine")
    with pytest.raises(ReleaseError, match=r"note\.txt"):
        parts.save(tmp_path / "copy", force=True)


def test_parts_in_the_order_of_a_column_are_refused(release: Path) -> None:
    """Each part is random by itself; one after the other they tell the row numbers."""
    table = pq.read_table(release / "data.parquet")
    third = pc.divide(table["number"], -(-table.num_rows // 3))
    order = pc.sort_indices(third)
    with pytest.raises(VerificationError, match="order"):
        verified(cut(release, table.take(order)))


@pytest.mark.parametrize("name", ["data/part-0.parquet", "data/../data.parquet", "data/part-0123456789ABCDEF.parquet"])
def test_other_names_are_refused(release: Path, name: str) -> None:
    cut(release)
    stated = json.loads((release / "release.json").read_text())
    stated["files"][name] = stated["files"].pop(f"data/part-{TOKENS[0]}.parquet")
    (release / "release.json").write_text(json.dumps(stated))
    with pytest.raises(ReleaseError, match="not valid at files"):
        sf.open_release(release)


def test_both_forms_at_once_are_refused(release: Path) -> None:
    table = pq.read_table(release / "data.parquet")
    cut(release)
    pq.write_table(table, release / "data.parquet", store_schema=False)
    stated = json.loads((release / "release.json").read_text())
    stated["files"] = {name: file.model_dump() for name, file in describe_files(release).items()}
    (release / "release.json").write_text(json.dumps(stated))
    with pytest.raises(ReleaseError, match="one or the other"):
        sf.open_release(release)


def test_a_part_that_nobody_declared_is_found(release: Path) -> None:
    cut(release)
    pq.write_table(people().slice(0, 1), release / "data" / "part-00.parquet")
    with pytest.raises(VerificationError, match="does not declare"):
        verified(release)


def test_a_missing_part_and_a_linked_folder_are_refused(release: Path, tmp_path: Path) -> None:
    cut(release)
    part = release / "data" / f"part-{TOKENS[1]}.parquet"
    kept = part.read_bytes()
    part.unlink()
    with pytest.raises(ReleaseError, match="missing"):
        sf.open_release(release)
    part.write_bytes(kept)
    (release / "data").rename(tmp_path / "elsewhere")
    (release / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReleaseError, match="plain folder"):
        sf.open_release(release)


def test_parts_with_other_columns_are_refused(release: Path) -> None:
    cut(release)
    part = release / "data" / f"part-{TOKENS[2]}.parquet"
    pq.write_table(pq.read_table(part).drop_columns(["age"]), part, store_schema=False)
    stated = json.loads((release / "release.json").read_text())
    stated["files"] = {name: file.model_dump() for name, file in describe_files(release).items()}
    (release / "release.json").write_text(json.dumps(stated))
    with pytest.raises(ReleaseError, match="different columns"):
        sf.open_release(release)
