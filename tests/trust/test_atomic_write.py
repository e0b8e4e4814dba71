"""A killed or failing publish leaves no readable release and never harms an old one."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import METHODS, process, sfumato
from sfumato.errors import SfumatoError
from tables import ROLES, people

UNIFORM = ("--method", "uniform", *METHODS["uniform"])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("source") / "people.parquet"
    pq.write_table(people(), file)
    return file


def _state(out: Path) -> str:
    """Absent, whole, or anything worse."""
    if not out.exists():
        return "absent"
    try:
        sf.open_release(out).sql("SELECT COUNT(*) AS n FROM release")
    except SfumatoError:
        return "half"
    return "whole"


def test_existing_out_is_never_touched(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious.txt").write_text("keep me")
    done = sfumato("publish", source, out, *ROLES, *UNIFORM)
    assert done.code == 2
    assert "--force" in done.err
    assert [file.name for file in out.iterdir()] == ["precious.txt"]


def test_force_replaces_a_release(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for extra in ((), ("--force",)):
        done = sfumato("publish", source, out, *ROLES, *UNIFORM, *extra)
        assert done.code == 0, done.text
    assert _state(out) == "whole"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_force_keeps_the_old_release_when_the_new_one_fails(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert sfumato("publish", source, out, *ROLES, *UNIFORM).code == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    bad = ("--method", "uniform", "--rho1", "1/1000", "--rho2", "1/3")
    assert sfumato("publish", source, out, *ROLES, *bad, "--force").code == 3
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_force_does_not_delete_what_is_no_release(source: Path, tmp_path: Path) -> None:
    """A folder with other files in it is somebody's work, not an old release."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious.txt").write_text("keep me")
    done = sfumato("publish", source, out, *ROLES, *UNIFORM, "--force")
    assert (out / "precious.txt").exists()
    assert done.code == 2


def test_unwritable_parent_is_one_line(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = sfumato("publish", source, tmp_path / "file" / "out", *ROLES, *UNIFORM)
    assert done.code in {1, 2}
    assert len(done.err.strip().splitlines()) == 1
    assert "Traceback" not in done.text


LIMIT = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
"""


def test_disk_full_leaves_nothing(source: Path, tmp_path: Path) -> None:
    """Files may not grow beyond 4 KiB: every write past that fails, as on a full disk."""
    out = tmp_path / "out"
    done = process("publish", source, out, *ROLES, *UNIFORM, before=LIMIT.format(size=4096))
    assert done.code in {1, 2}
    assert "Traceback" not in done.text
    assert len(done.err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
