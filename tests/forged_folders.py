"""Changes of the files of a release: added, damaged, cut short, linked, or stating something twice."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from forged_rows import replaced, true_diseases
from forged_statements import Stated
from forging import forged
from parquet_footers import BINARY, CHUNKS, META, ROW_GROUPS, STATISTICS, Struct, closing, read_footer


def edited(change: Callable[[Stated], None], file: str = "release.json") -> Callable[[Path], None]:
    def edit(target: Path) -> None:
        stated = json.loads((target / file).read_text(encoding="utf-8"))
        change(stated)
        (target / file).write_text(json.dumps(stated), encoding="utf-8")

    return edit


def noted(target: Path) -> None:
    """Notes inside data.parquet, digests made anew."""
    found = pq.read_table(target / "data.parquet").replace_schema_metadata({"note": "true values: ..."})
    pq.write_table(found, target / "data.parquet")
    again(target)


def damaged_page(folder: Path) -> None:
    """Zeros over the first page of every Parquet file."""
    stated = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    for name in stated["files"]:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:4] + b"\0" * 40 + data[44:])
        stated["files"][name]["sha256"] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "release.json").write_text(json.dumps(stated), encoding="utf-8")


def stated_twice(name: str) -> Callable[[Path], None]:
    """The first name of the document once more, at its end: readers of JSON differ in which of the two they take."""

    def repeat(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8").rstrip()
        key, value = next(iter(json.loads(text).items()))
        (folder / name).write_text(f"{text[:-1]}, {json.dumps(key)}: {json.dumps(value)}}}", encoding="utf-8")

    return repeat


def cut_short(target: Path) -> None:
    data = (target / "data.parquet").read_bytes()
    (target / "data.parquet").write_bytes(data[: len(data) // 2])
    stated = json.loads((target / "release.json").read_text(encoding="utf-8"))
    stated["files"]["data.parquet"]["sha256"] = hashlib.sha256((target / "data.parquet").read_bytes()).hexdigest()
    (target / "release.json").write_text(json.dumps(stated), encoding="utf-8")


def telling_writer(target: Path) -> None:
    """The name of the writing library as a place for notes."""
    with_footer(target / "data.parquet", lambda footer: footer.update({6: (BINARY, b"true values: ...")}))
    again(target)


def false_statistics(target: Path) -> None:
    """The largest value of every column of data.parquet said to be the least one: readers skip the rows above it."""

    def change(footer: Struct) -> None:
        for group in footer[ROW_GROUPS][1][1]:
            for chunk in group[CHUNKS][1][1]:
                stated = chunk[META][1].get(STATISTICS, (0, {}))[1]
                for least, largest in ((2, 1), (6, 5)):
                    if least in stated:
                        stated[largest] = stated[least]

    with_footer(target / "data.parquet", change)
    again(target)


def true_sets(target: Path) -> None:
    """Where rows show sets: always one of those that hold the true value, each as likely."""
    if not (target / "sets.parquet").exists():
        return
    sets = pq.read_table(target / "sets.parquet").to_pylist()
    found = pq.read_table(target / "data.parquet")
    parts = found["sub_table"].to_pylist() if "sub_table" in found.column_names else [0] * len(found)
    part_of = dict(zip(found["disease_set"].to_pylist(), parts, strict=True))  # of sets that are shown
    holding: dict[tuple[int, str], list[int]] = {}
    for row in sets:
        if row["member"] and row["disease_set"] in part_of:
            holding.setdefault((part_of[row["disease_set"]], row["value"]), []).append(row["disease_set"])
    rng = np.random.default_rng(7)
    numbers = [int(rng.choice(holding[key])) for key in zip(parts, true_diseases(found), strict=True)]
    pq.write_table(replaced(found, "disease_set", numbers), target / "data.parquet", store_schema=False)
    again(target)


def with_footer(path: Path, change: Callable[[Struct], None]) -> None:
    """The file with a changed footer."""
    footer, end = read_footer(path)
    change(footer)
    path.write_bytes(path.read_bytes()[:end] + closing(footer))


def again(target: Path) -> None:
    """Digests and datapackage.json of the folder as it now is."""
    copy = target.with_name(target.name + "-again")
    forged(target, copy)
    shutil.rmtree(target)
    copy.rename(target)


def linked(target: Path) -> None:
    (target / "data.parquet").rename(target.parent / f"{target.name}-elsewhere.parquet")
    (target / "data.parquet").symlink_to(target.parent / f"{target.name}-elsewhere.parquet")
