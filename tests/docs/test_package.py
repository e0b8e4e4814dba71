"""The source archive and the wheel: built without a network, complete, and working where nothing else of us is."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from sfumato.version import __version__

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
pytest.importorskip("build", reason="the dev extra is not installed")
pytestmark = pytest.mark.slow


def run(*arguments: object, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": "/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel that was made from it."""
    out = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return built / f"sfumato-{__version__}-py3-none-any.whl"


def test_the_index_would_take_them(built: Path) -> None:
    shown = run("-m", "twine", "--no-color", "check", "--strict", *sorted(built.iterdir()), cwd=built)
    assert shown.count("PASSED") == 2


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    about = f"sfumato-{__version__}.dist-info/"
    files = {p for p in (SRC / "sfumato").rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert {name for name in held if name.startswith("sfumato/")} == {p.relative_to(SRC).as_posix() for p in files}
    others = {name for name in held if not name.startswith(("sfumato/", about))}
    assert others == {f"sfumato-{__version__}.data/data/share/man/man1/sfumato.1"}
    assert {f"{about}licenses/LICENSE", f"{about}entry_points.txt"} <= held


def test_the_archive_can_be_tested(built: Path) -> None:
    with tarfile.open(built / f"sfumato-{__version__}.tar.gz") as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "constraints.txt", "Makefile", "CITATION.cff", "mkdocs.yml", "tests/conftest.py"} <= held


def test_the_wheel_works_alone(wheel: Path, tmp_path: Path) -> None:
    """Installed into an empty folder, which comes first; the package there publishes, asks and verifies."""
    place = tmp_path / "place"
    run("-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target", place, wheel, cwd=tmp_path)
    code = f"""
import sys
sys.path.insert(0, {str(place)!r})
import sfumato as sf
assert sf.__file__.startswith({str(place)!r}), sf.__file__
roles = sf.Roles(sensitive="occupation", quasi=["sex"], rest="drop")
method = sf.SubsetResponse(rho1="1/5", rho2="1/2")
sf.publish(sf.datasets.adult(), "out", roles=roles, method=method, null_as_value=True)
sf.verify("out")
print(sf.open_release("out").sql("SELECT COUNT(*) AS n FROM release").to_arrow()["n"][0].as_py() == 48842)
"""
    assert run("-I", "-c", code, cwd=tmp_path).split() == ["True"]
