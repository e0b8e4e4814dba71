"""Nothing private in a bundle, on the terminal, in an error or in a repr."""

from __future__ import annotations

import base64
import getpass
import json
import socket
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import METHODS, sfumato
from sfumato.publishing.randomness import Secret
from tables import COUNTS, MARK, ROLES, people, with_traces

SEED = 918_273_645_546_372


@pytest.fixture(scope="module", params=METHODS)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A release of the table with traces, and what the command printed."""
    folder = tmp_path_factory.mktemp(f"{MARK}-folder")
    pq.write_table(with_traces(people()), folder / f"{MARK}.parquet")
    out = folder / "out"
    options = ("--method", request.param, *METHODS[request.param], "--seed", SEED)
    done = sfumato("publish", folder / f"{MARK}.parquet", out, *ROLES, *options)
    assert done.code == 0, done.text
    return out, done.text


def _everything(release: Path) -> str:
    """All bytes of all files (Parquet footers are not compressed), all strings of the JSON, all cells: one text."""
    raw = [file.read_bytes().decode("latin-1") for file in release.rglob("*") if file.is_file()]
    cells = [str(pq.read_table(file).to_pydict()) for file in release.rglob("*.parquet")]
    texts = [text for file in release.rglob("*.json") for text in _strings(json.loads(file.read_text()))]
    return "\n".join(raw + cells + texts)


def test_bundle_holds_no_name_path_seed_host_or_user(published: tuple[Path, str]) -> None:
    text = _everything(published[0])
    assert MARK not in text
    assert str(SEED) not in text
    assert str(published[0].parent) not in text
    assert socket.gethostname() not in text
    user = getpass.getuser()
    assert user not in _strings(json.loads((published[0] / "release.json").read_text()))


def test_bundle_holds_no_key(published: tuple[Path, str]) -> None:
    """The run's secret, in the forms in which it might slip in."""
    key = Secret.from_seed(SEED).key
    text = _everything(published[0]) + published[1]
    forms = (
        key.hex(),
        str(key),
        str(int.from_bytes(key, "little")),
        base64.b64encode(key).decode(),
        key.decode("latin-1"),
    )
    assert [form for form in forms if form in text] == []


def test_compound_domain_is_sorted(tmp_path: Path) -> None:
    """The combinations that occur are listed in sorted order, not as they first appear."""
    pq.write_table(people(), tmp_path / "t.parquet")
    roles = ("--sa", "sex,disease", "--qi", "age", "--rest", "drop")
    done = sfumato(
        "publish", tmp_path / "t.parquet", tmp_path / "out", *roles, "--method", "uniform", *METHODS["uniform"]
    )
    assert done.code == 0, done.text
    (unit,) = json.loads((tmp_path / "out" / "release.json").read_text())["units"]
    assert unit["cells"] == sorted(unit["cells"])


def test_parquet_carries_no_foreign_metadata(published: tuple[Path, str]) -> None:
    for file in published[0].rglob("*.parquet"):
        metadata = pq.read_metadata(file).metadata or {}
        assert not {b"pandas", b"owner"} & set(metadata)
        assert b"ARROW:schema" not in metadata


def test_bundle_lists_domains_sorted(published: tuple[Path, str]) -> None:
    """Not in order of first appearance, which tells who came first."""
    manifest = json.loads((published[0] / "release.json").read_text())
    domains = [column["domain"] for column in manifest["columns"] if "domain" in column]
    assert domains
    assert domains == [sorted(domain) for domain in domains]


def test_no_true_count_is_stated(published: tuple[Path, str]) -> None:
    """No number of release.json or datapackage.json is a true count of a sensitive value; ages in a domain may be."""
    for name in ("release.json", "datapackage.json"):
        found = _numbers(json.loads((published[0] / name).read_text()))
        assert not found & set(COUNTS)


def test_terminal_shows_no_cell_and_no_seed(published: tuple[Path, str]) -> None:
    assert f"{MARK}-" not in published[1].replace(f"{MARK}-folder", "")
    assert str(SEED) not in published[1]


def test_file_times_and_modes_tell_nothing(published: tuple[Path, str]) -> None:
    """Data files can be read by whoever may read the folder; no temporary leftovers are beside them."""
    names = {file.name for file in published[0].rglob("*") if file.is_file()}
    parquet = {"data.parquet", "sensitive.parquet", "sets.parquet"}
    assert names <= {"release.json", "datapackage.json", "README.md", *parquet}
    assert [file.name for file in published[0].parent.iterdir() if file.name not in {"out", f"{MARK}.parquet"}] == []


def _numbers(node: object) -> set[float]:
    if isinstance(node, dict):
        return set().union(*(_numbers(value) for key, value in node.items() if key != "domain"))
    if isinstance(node, list):
        return set().union(*map(_numbers, node))
    return {node} if isinstance(node, int | float) else set()


def _strings(node: object) -> set[str]:
    if isinstance(node, dict):
        return set().union(*map(_strings, node.values()), *map(_strings, node.keys()))
    if isinstance(node, list):
        return set().union(*map(_strings, node))
    return {node} if isinstance(node, str) else set()
