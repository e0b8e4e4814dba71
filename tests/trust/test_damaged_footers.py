"""What a footer says of a column's chunk may be anything: a release is refused or answered, and no process ends by it.

pyarrow ends the process where somebody asks it for statistics that are too short for their type: nobody does.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forgeries import RELEASES
from forging import describe
from parquet_footers import (
    BINARY,
    CHUNKS,
    I32,
    KIND,
    META,
    ROW_GROUPS,
    STATISTICS,
    STRUCT,
    Struct,
    closing,
    read_footer,
)

ASKING = """
import sys
import sfumato as sf
from sfumato.errors import SfumatoError
for folder in sys.argv[1:]:
    for ask in (lambda: sf.verify(folder, test=True), lambda: [*map(sf.open_release(folder).sql, TEXTS)]):
        try:
            print(len(ask()), "told")
        except SfumatoError as error:
            print(type(error).__name__)
"""
TEXTS = [f"SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND age > {age}" for age in (30, 40, 50)]
FORGED = {
    "another type": {KIND: (I32, 3)},  # which no release has
    "no type": {KIND: (I32, 99)},
    "short values": {STATISTICS: (STRUCT, {5: (BINARY, b""), 6: (BINARY, b"")})},
    "short values, as of old": {STATISTICS: (STRUCT, dict.fromkeys((1, 2, 5, 6), (BINARY, b"\x01")))},
}


def _damaged(release: Path, into: Path) -> Iterator[Path]:
    """Copies of a release, each with other words about one column; what describes the file is made anew."""
    footer, begins = read_footer(release / "data.parquet")
    content = (release / "data.parquet").read_bytes()[:begins]
    for column in range(len(footer[ROW_GROUPS][1][1][0][CHUNKS][1][1])):
        for name, forged in FORGED.items():
            folder = into / f"{column} {name}"
            shutil.copytree(release, folder)
            other: Struct = copy.deepcopy(footer)
            other[ROW_GROUPS][1][1][0][CHUNKS][1][1][column][META][1].update(forged)
            (folder / "data.parquet").write_bytes(content + closing(other))
            stated = json.loads((folder / "release.json").read_text())
            stated["files"]["data.parquet"]["sha256"] = hashlib.sha256(
                (folder / "data.parquet").read_bytes()
            ).hexdigest()
            (folder / "release.json").write_text(json.dumps(stated))
            describe(folder)
            yield folder


@pytest.mark.parametrize("name", RELEASES)
def test_no_process_ends_by_what_a_footer_says(name: str, honest_releases: dict[str, Path], tmp_path: Path) -> None:
    folders = list(_damaged(honest_releases[name], tmp_path))
    code = f"TEXTS = {TEXTS!r}\n{ASKING}"
    done = subprocess.run([sys.executable, "-c", code, *map(str, folders)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-800:]
    said = done.stdout.splitlines()
    assert len(said) == 2 * len(folders)
