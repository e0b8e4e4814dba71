"""A release from a stranger is hostile. It is refused in one line, or does no harm."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from sfumato.errors import ReleaseError, SfumatoError
from tables import MARK, people

QUESTION = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu'"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
    sf.publish(people(), folder / "out", roles=roles, method=sf.UniformPerturbation(rho1="1/5", rho2="1/3"))
    return folder / "out"


@pytest.fixture
def release(good: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(good, tmp_path / "release"))


def _edit(release: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((release / "release.json").read_text())
    change(manifest)
    (release / "release.json").write_text(json.dumps(manifest))


def _files(manifest: dict[str, Any]) -> dict[str, Any]:
    return dict(manifest["files"])


def _refused(release: Path) -> str:
    with pytest.raises(ReleaseError) as caught:
        sf.open_release(release).sql(QUESTION)
    return str(caught.value)


def test_the_copy_is_good(release: Path) -> None:
    assert sf.open_release(release).sql(QUESTION) is not None


@pytest.mark.parametrize(
    "name", ["../t.parquet", "/etc/passwd", "data/../../t.parquet", "C:\\t.parquet", "..", "", "a\0b"]
)
def test_paths_that_leave_the_folder(release: Path, name: str) -> None:
    shutil.copy(release / "data.parquet", release.parent / "t.parquet")

    def move(manifest: dict[str, Any]) -> None:
        files = manifest["files"]
        files[name] = files.pop("data.parquet")

    _edit(release, move)
    _refused(release)


def test_symbolic_link_out_of_the_folder(release: Path) -> None:
    shutil.move(release / "data.parquet", release.parent / "elsewhere.parquet")
    (release / "data.parquet").symlink_to(release.parent / "elsewhere.parquet")
    _refused(release)


def test_changed_bytes(release: Path) -> None:
    data = bytearray((release / "data.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (release / "data.parquet").write_bytes(data)
    assert "data.parquet" in _refused(release)


def test_other_rows_with_a_matching_schema(release: Path) -> None:
    table = pq.read_table(release / "data.parquet")
    pq.write_table(table.slice(0, 10), release / "data.parquet")
    _refused(release)


@pytest.mark.parametrize("version", [0, 1, 3, 99, "1; DROP", None, 1e308, [1]])
def test_unknown_format_version(release: Path, version: object) -> None:
    manifest = json.loads((release / "release.json").read_text())
    (key,) = [key for key in manifest if "version" in key and isinstance(manifest[key], int)] or ["format_version"]
    _edit(release, lambda m: m.__setitem__(key, version))
    _refused(release)


def test_format_1_is_refused_by_its_version_alone(release: Path) -> None:
    """Whatever else of it is not understood any more: lists in rows, and weights beside them."""

    def of_old(manifest: dict[str, Any]) -> None:
        manifest["format_version"] = 1
        next(c for c in manifest["columns"] if c["name"] == "disease")["released_type"] = "VARCHAR[]"
        manifest["files"]["weights.parquet"] = manifest["files"]["data.parquet"]
        manifest["format_version"] = manifest.pop("format_version")  # last

    _edit(release, of_old)
    told = _refused(release)
    assert told.startswith("this release has format 1, this sfumato reads format 2; ")
    for command in (("query", release, QUESTION), ("verify", release), ("inspect", release)):
        done = sfumato(*command)
        assert done.code == 2, done.text
        assert done.err.strip() == f"error: {told}"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"x"', "{}", "[" * 100_000, '{"a": NaN}', "\x00\x01", '{"files": {}}', "9" * 5_000],
    ids=["empty", "cut", "list", "null", "text", "nothing", "deep", "nan", "binary", "no method", "huge number"],
)
def test_manifest_that_is_no_manifest(release: Path, text: str) -> None:
    (release / "release.json").write_text(text)
    _refused(release)


def test_pickle_is_never_loaded(release: Path) -> None:
    (release / "release.json").write_bytes(pickle.dumps({"format": 1}))
    _refused(release)


@pytest.mark.parametrize("size", [8_000_001, 4 * 2**30])
def test_a_manifest_above_8_mb(size: int, release: Path) -> None:
    """Refused by its size, before it is read into memory."""
    with (release / "release.json").open("r+b") as file:
        file.truncate(size)  # sparse
    with pytest.raises(ReleaseError, match=r"^release.json is larger than 8 MB; it is not read$"):
        sf.open_release(release)
    _refused(release)


def test_a_manifest_of_8_mb(release: Path) -> None:
    text = (release / "release.json").read_text(encoding="utf-8")
    (release / "release.json").write_text(text.ljust(8_000_000), encoding="utf-8")
    assert sf.open_release(release).count().rows()


def test_nobody_publishes_a_manifest_above_8_mb(tmp_path: Path) -> None:
    long = pa.table({"disease": [f"{i % 9:01000000}" for i in range(90)], "age": list(range(90))})
    method = sf.UniformPerturbation(rho1="1/5", rho2="1/2")
    with pytest.raises(ReleaseError, match=r"would have 9.0 MB, and nobody reads one above 8 MB"):
        sf.publish(long, tmp_path / "out", roles=sf.Roles(sensitive="disease", quasi=["age"]), method=method, seed=1)
    assert not list(tmp_path.iterdir())


def test_missing_file_and_missing_folder(release: Path) -> None:
    (release / "data.parquet").unlink()
    _refused(release)
    shutil.rmtree(release)
    _refused(release)


def test_data_file_that_is_no_parquet(release: Path) -> None:
    import hashlib

    junk = b"PAR1" + b"\0" * 100 + b"PAR1"
    (release / "data.parquet").write_bytes(junk)

    def sign(manifest: dict[str, Any]) -> None:
        manifest["files"]["data.parquet"]["sha256"] = hashlib.sha256(junk).hexdigest()

    _edit(release, sign)
    _refused(release)


@pytest.mark.parametrize(
    "text",
    [
        "VARCHAR); DROP TABLE release; --",
        "INTEGER) FROM read_csv('/etc/passwd'",
        "STRUCT(a INTEGER)",
        "",
        "ENUM('a')",
    ],
)
def test_type_names_are_not_sql(release: Path, text: str) -> None:
    """The type of a column is compared with a list, never pasted into a statement."""

    def change(manifest: dict[str, Any]) -> None:
        for column in manifest["columns"]:
            column["type"] = text

    _edit(release, change)
    with pytest.raises(SfumatoError):
        sf.open_release(release).sql(QUESTION)


def test_column_names_with_quotes_do_no_harm(tmp_path: Path) -> None:
    """Names that break naive quoting survive publish and query."""
    table = people().rename_columns(["name", 'a"b', "c'd", "e; DROP TABLE release", 'disease" OR 1=1 --'])
    roles = sf.Roles(
        sensitive='disease" OR 1=1 --',
        quasi=["c'd", "e; DROP TABLE release"],
        insensitive=['a"b'],
        identifying=["name"],
    )
    sf.publish(table, roles=roles, method=sf.UniformPerturbation(rho1="1/5", rho2="1/3")).save(tmp_path / "out")
    opened = sf.open_release(tmp_path / "out")
    answer = opened.sql('SELECT COUNT(*) AS n FROM release WHERE "disease"" OR 1=1 --" = \'flu\' AND "a""b" >= 0')
    assert len(answer.to_arrow()) == 1


@pytest.mark.parametrize("change", ["gammas", "rho2", "domain", "rows"])
def test_manifest_whose_numbers_make_no_sense(release: Path, change: str) -> None:
    """Negative, absurd or contradicting numbers are refused, not computed with."""

    def spoil(manifest: dict[str, Any]) -> None:
        if change == "rows":
            manifest["rows"] = -5
        elif change == "domain":
            next(c for c in manifest["columns"] if c["name"] == "disease")["domain"] = ["flu", "flu"]
        else:
            _set_deep(manifest, change, ["-1/2"] if change == "gammas" else "-1/2")

    _edit(release, spoil)
    _refused(release)


def _set_deep(node: object, key: str, value: object) -> None:
    if isinstance(node, dict):
        for name in node:
            if name == key:
                node[name] = value
            else:
                _set_deep(node[name], key, value)
    elif isinstance(node, list):
        for item in node:
            _set_deep(item, key, value)


def test_command_line_refuses_with_one_line(release: Path) -> None:
    (release / "release.json").write_text("{")
    from commands import sfumato

    for command in (("inspect", release), ("query", release, QUESTION)):
        done = sfumato(*command)
        assert done.code == 2
        assert len(done.err.strip().splitlines()) == 1
        assert "Traceback" not in done.text


def test_wrong_columns_in_the_data(release: Path) -> None:
    """The file has a right digest but lacks what the manifest says."""
    import hashlib

    table = pa.table({"other": [1, 2, 3]})
    pq.write_table(table, release / "data.parquet")

    def sign(manifest: dict[str, Any]) -> None:
        entry = manifest["files"]["data.parquet"]
        entry["sha256"] = hashlib.sha256((release / "data.parquet").read_bytes()).hexdigest()
        entry["rows"] = 3
        manifest["rows"] = 3

    _edit(release, sign)
    _refused(release)
