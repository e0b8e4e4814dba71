"""A table whose columns are called as those that a method adds: refused at once, or published as any other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import METHODS, Done, sfumato
from forging import verified
from sfumato.query import open_release
from tables import MARK, people

ADDING = ("subset-response", "small-domain", "anatomy", "target-distribution")  # columns of their own
WAYS = {**{way: METHODS[way] for way in ADDING}, "small-domain, sets": (*METHODS["small-domain"], "--report", "set")}
ROLES = ("--keep", "number", "--drop", f"{MARK}_name", "--seed", 3)
OF_SETS = {"value", "member", "weight", "variance_weight"}  # no column of the table is in that file


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A table with names of its own, and its release."""

    table: pa.Table
    folder: Path

    @property
    def added(self) -> set[str]:
        """Names of columns in the files that the table does not have."""
        names = {name for file in self.folder.glob("*.parquet") for name in pq.read_schema(file).names}
        return names - set(self.table.column_names)


def published(table: pa.Table, out: Path, way: str, *, sensitive: str = "disease", quasi: str = "sex") -> Done:
    source = out.with_suffix(".parquet")
    pq.write_table(table, source)
    options = [quasi if option == "sex" else option for option in WAYS[way]]
    named = ("--sa", sensitive, "--qi", f"age,{quasi}", "--method", way.partition(",")[0])
    return sfumato("publish", source, out, *named, *options, *ROLES)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Plain]]:
    """A release of every method, and one of numbers where it adds columns that tell of them."""
    here, texts = tmp_path_factory.mktemp("added"), people()
    codes = texts["disease"].combine_chunks().dictionary_encode().indices.cast(pa.int16())
    numbers = texts.set_column(texts.column_names.index("disease"), "disease", codes)
    made: dict[str, list[Plain]] = {way: [] for way in WAYS}
    for way, found in made.items():
        for table in (texts, numbers) if way == "target-distribution" else (texts,):
            folder = here / f"{way} {len(found)}"
            done = published(table, folder, way)
            assert done.code == 0, done.text
            found.append(Plain(table=table, folder=folder))
    return made


def named(one: Plain) -> set[str]:
    """What the law of a release says that it adds."""
    opened = open_release(one.folder).opened
    return {*(opened.law.beside(opened.domains) or ()), *(() if opened.law.part is None else (opened.law.part,))}


@pytest.mark.parametrize("way", list(WAYS))
def test_the_method_names_what_it_adds(way: str, plain: dict[str, list[Plain]]) -> None:
    """All names in the files; that of the set's number is the plan's."""
    for one in plain[way]:
        assert one.added - OF_SETS - {"disease_set"} == named(one)


@pytest.mark.parametrize("role", ["disease", "sex"])
@pytest.mark.parametrize("way", list(WAYS))
def test_a_column_of_that_name(way: str, role: str, plain: dict[str, list[Plain]], tmp_path: Path) -> None:
    """Clear words and no folder, or a release that answers as that of the same table with other names."""
    every = {name for one in plain[way] for name in one.added} | {"count"}
    for number, one in enumerate(plain[way]):
        reserved = named(one) if role == "disease" else {open_release(one.folder).opened.law.part}
        for added in sorted(every):
            for called in (added, added.upper())[: 1 + (role == "disease")]:
                table = one.table.rename_columns([called if n == role else n for n in one.table.column_names])
                names = {"sensitive": "disease", "quasi": "sex"} | {
                    "sensitive" if role == "disease" else "quasi": called
                }
                out = tmp_path / f"{number} {called}"
                done = published(table, out, way, **names)
                if added in reserved | ({"disease_set"} & one.added if role == "sex" else set()):
                    assert done.code == 2, done.text
                    assert f'the method adds a column "{added}", which the table already has' in done.err
                    assert not out.exists()
                else:
                    assert done.code == 0, done.text
                    assert verified(out)
                    same_answers(answers(out, **names), answers(one.folder))


def answers(folder: Path, *, sensitive: str = "disease", quasi: str = "sex") -> list[dict[str, Any]]:
    release = open_release(folder)
    by_quasi = f'SELECT "{quasi}" AS k, COUNT(*) AS n FROM release GROUP BY "{quasi}" ORDER BY k'
    literal = "'cold'" if str(release.manifest.columns[3].type) == "VARCHAR" else 2
    one = f'SELECT "{quasi}" AS k, COUNT(*) AS n FROM release WHERE "{sensitive}" = {literal} GROUP BY k ORDER BY k'
    return [*release.sql(by_quasi).rows(), *release.sql(one).rows()]


def same_answers(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Equal: nothing that is estimated depends on the names."""
    assert [row["k"] for row in found] == [row["k"] for row in expected]
    for a, b in zip(found, expected, strict=True):
        for name in set(a) - {"k"}:
            assert a[name] == b[name] or math.isclose(a[name], b[name], rel_tol=1e-9)
