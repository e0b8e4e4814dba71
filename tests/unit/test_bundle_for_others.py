"""What a release gives people without sfumato: a README, a codebook, a zip archive that opens too."""

from __future__ import annotations

import gc
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import sfumato as sf
from commands import sfumato
from forging import verified
from patients import METHOD
from sfumato.engines import scratch
from sfumato.errors import ReleaseError, VerificationError
from tables import people

pyreadstat = pytest.importorskip("pyreadstat")
ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], rest="drop")
QUESTION = "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bundle") / "out"
    sf.publish(people(), out, roles=ROLES, method=METHOD, seed=1)
    return out


def test_the_readme_says_what_release_json_does(release: Path, tmp_path: Path) -> None:
    text, stated = (release / "README.md").read_text(), json.loads((release / "release.json").read_text())
    assert stated["guarantee"]["statement"] in text
    assert stated["files"]["data.parquet"]["sha256"] in text
    for column in stated["columns"]:
        assert f"| {column['name']} |" in text
    for name, change in {"words": text + "Nobody can learn anything.\n", "gone": None}.items():
        copy = tmp_path / name
        shutil.copytree(release, copy)
        if change is None:
            (copy / "README.md").unlink()
        else:
            (copy / "README.md").write_text(change)
        with pytest.raises((VerificationError, ReleaseError), match=r"README\.md"):
            verified(copy)


def test_a_readme_of_other_words_with_its_own_digest_is_found(release: Path, tmp_path: Path) -> None:
    import hashlib

    shutil.copytree(release, tmp_path / "out")
    (tmp_path / "out" / "README.md").write_text("All numbers are exact.\n")
    stated = json.loads((tmp_path / "out" / "release.json").read_text())
    stated["documents"]["README.md"]["sha256"] = hashlib.sha256(b"All numbers are exact.\n").hexdigest()
    (tmp_path / "out" / "release.json").write_text(json.dumps(stated))
    with pytest.raises(VerificationError, match="says something else"):
        verified(tmp_path / "out")
    stated["software"]["version"] = "9.9.9"  # whose words are not known
    (tmp_path / "out" / "release.json").write_text(json.dumps(stated))
    assert any(
        "README.md is that of another version and was not compared" in line for line in verified(tmp_path / "out")
    )


def test_labels_of_a_statistics_package_become_the_codebook(tmp_path: Path) -> None:
    frame = people().select(["number", "age", "sex", "disease"]).to_pandas()
    frame["sex"] = (frame["sex"] == frame["sex"].iloc[0]) * 1.0
    labels = {"sex": {0: "one", 1: "the other"}, "number": {}}
    titles = {"age": "Age in years", "number": "zqxjtitle of a dropped column"}
    pyreadstat.write_sav(frame, str(tmp_path / "t.sav"), variable_value_labels=labels, column_labels=titles)
    heard: list[str] = []
    sf.publish(tmp_path / "t.sav", tmp_path / "out", roles=ROLES, method=METHOD, seed=1, notify=heard.append)
    package = json.loads((tmp_path / "out" / "datapackage.json").read_text())
    fields = {f["name"]: f for f in package["resources"][0]["schema"]["fields"]}
    assert fields["sex"]["categories"] == [{"value": 0, "label": "one"}, {"value": 1, "label": "the other"}]
    assert fields["age"]["title"] == "Age in years"
    assert "zqxj" not in json.dumps(package) + (tmp_path / "out" / "release.json").read_text()
    assert any("value labels" in note for note in heard)
    assert verified(tmp_path / "out")


# --- zip -----------------------------------------------------------------------------------------------------


def _zip(
    release: Path, path: Path, change: Callable[[zipfile.ZipFile], None] | None = None, *, root: str = "r/"
) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in release.iterdir():
            archive.write(file, f"{root}{file.name}")
        if change is not None:
            change(archive)
    return path


@pytest.mark.parametrize("root", ["", "out/", "a/b/"])
def test_a_zip_answers_as_its_folder_does(root: str, release: Path, tmp_path: Path) -> None:
    path = _zip(release, tmp_path / "out.zip", root=root)
    held = len(list(scratch.run_folder().iterdir()))
    opened = sf.open_release(path)
    assert opened.sql(QUESTION).rows() == sf.open_release(release).sql(QUESTION).rows()
    assert verified(path)
    del opened
    gc.collect()
    assert len(list(scratch.run_folder().iterdir())) <= held
    assert sfumato("query", path, QUESTION).out == sfumato("query", release, QUESTION).out


HOSTILE: dict[str, tuple[Callable[[zipfile.ZipFile], None], str]] = {
    "a path out of it": (lambda a: a.writestr("r/../../evil", b"x"), "outside|no release"),
    "an absolute path": (lambda a: a.writestr("/tmp/evil", b"x"), "outside"),
    "a file beside it": (lambda a: a.writestr("evil", b"x"), "outside"),
    "two releases": (lambda a: a.writestr("s/release.json", b"{}"), "2 releases"),
    "a deep file": (lambda a: a.writestr("r/a/b/c", b"x"), "no release has"),
    "a comment": (lambda a: setattr(a, "comment", b"0,angina"), "comments"),
    "a file's comment": (lambda a: setattr(a.filelist[0], "comment", b"0,angina"), "comments"),
    "a file's notes": (lambda a: setattr(a.filelist[0], "extra", b"\xfe\xca\x60\0" + b"x" * 96), "comments"),
    "a bomb": (lambda a: a.writestr("r/zeros", b"\0" * 200_000_000), "far more"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archives_are_refused_and_leave_nothing(case: str, release: Path, tmp_path: Path) -> None:
    change, said = HOSTILE[case]
    path = _zip(release, tmp_path / "out.zip", change)
    held = set(scratch.run_folder().iterdir())
    with pytest.raises(ReleaseError, match=said):
        sf.open_release(path)
    assert set(scratch.run_folder().iterdir()) == held
    assert not (tmp_path / "evil").exists()


def test_what_is_no_archive_is_refused(release: Path, tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("nothing")
    whole = _zip(release, tmp_path / "out.zip").read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    for name in ("text.zip", "half.zip"):
        with pytest.raises(ReleaseError, match="not a zip archive"):
            sf.open_release(tmp_path / name)
    with pytest.raises(ReleaseError):
        sf.open_release(tmp_path / "nowhere.zip")
