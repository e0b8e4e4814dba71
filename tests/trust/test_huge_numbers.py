"""Numbers that no table could give rise to, and cells that no method publishes: one line, no traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError, SpecError
from sfumato.methods import REGISTRY
from sfumato.query import open_release
from sfumato.release.verify import verify
from tables import people

HUGE = (10**30, "9" * 300, -(2**70))  # a text of digits is read as a number where one is wanted
QUESTION = "SELECT sex, COUNT(*) AS n FROM release WHERE disease IN ('flu', 'gout') GROUP BY sex"
ALIKE = 2  # places of one kind that are tried


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def refused(act: Callable[[], Any]) -> str:
    """What is said against it, by us; nothing where it works."""
    try:
        act()
    except SfumatoError as error:
        return str(error)
    return ""


def asked(folder: Path) -> None:
    """Verified and asked, digests not looked at; whatever is refused is one of ours."""
    for act in (
        lambda: list(verify(open_release(folder, check=False).opened, test=True)),
        lambda: open_release(folder, check=False).sql(QUESTION),
    ):
        assert "\n" not in refused(act)


def released(name: str, out: Path) -> None:
    method = REGISTRY[name]
    sf.publish(
        people().slice(0, 400),
        out,
        roles=sf.Roles(sensitive="disease", quasi=["sex"], rest="drop"),
        method=method.spec(**method.example.spec),
        accept_unprotected=True,
        seed=1,
    )


def bent_cells(column: pa.Array) -> list[Any]:
    """What its first cell may become."""
    if pa.types.is_integer(column.type):
        return [max(column.to_pylist()) + 1, 2**62, -1, None]
    if pa.types.is_list(column.type):
        return [None, [], [None]]
    return [None, "nobody has it"] if pa.types.is_string(column.type) else [None]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REGISTRY))
def test_every_column(name: str, tmp_path: Path) -> None:
    """One cell of every file becomes another: a group that does not exist, nothing, a value that nobody has."""
    out = tmp_path / "out"
    released(name, out)
    for file in sorted(out.glob("*.parquet")):
        whole = pq.read_table(file)
        for place, field in enumerate(whole.schema):
            column = whole[field.name].combine_chunks()
            column = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
            for bent in bent_cells(column):
                cells = pa.array([bent, *column.to_pylist()[1:]], column.type) if fits(bent, column.type) else None
                if cells is not None:
                    pq.write_table(whole.set_column(place, field.name, cells), file)
                    asked(out)
            pq.write_table(whole.drop_columns(field.name), file)
            asked(out)
        pq.write_table(whole, file)
    open_release(out, check=False).sql(QUESTION)  # whole again


def fits(bent: Any, kind: pa.DataType) -> bool:
    return not isinstance(bent, int) or bent < 2 ** (kind.bit_width - 1)


@pytest.mark.parametrize("name", ["small-domain", "target-distribution", "anatomy"])
@pytest.mark.parametrize("group", [-1, 400, None])
def test_groups_that_cannot_be(name: str, group: int | None, tmp_path: Path) -> None:
    """Counting backwards from the last group would answer, and wrongly.

    Where sets are published their numbers tell the sub-tables, and nobody who asks reads the column; what `verify`
    says of a column that does not agree is in test_forgeries.
    """
    out = tmp_path / "out"
    released(name, out)
    whole = pq.read_table(out / "data.parquet")
    right = open_release(out, check=False)
    part = str(right.opened.law.part)
    expected, told_by_sets = right.sql(QUESTION).to_arrow(), right.opened.part is None
    cells = pa.array([group, *whole[part].to_pylist()[1:]], pa.int32())
    pq.write_table(whole.set_column(whole.column_names.index(part), part, cells), out / "data.parquet")
    if told_by_sets:
        assert open_release(out, check=False).sql(QUESTION).to_arrow().equals(expected)
    else:
        assert "group" in refused(lambda: open_release(out, check=False).sql(QUESTION))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REGISTRY))
def test_every_parameter(name: str, tmp_path: Path) -> None:
    released(name, tmp_path / "out")
    file = tmp_path / "out" / "release.json"
    stated = json.loads(file.read_text(encoding="utf-8"))
    seen: dict[tuple[Any, ...], int] = {}
    every = {part: stated[part] for part in ("parameters", "law")}
    for path in places(every):
        kind = tuple("#" if isinstance(key, int) else key for key in path)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] > ALIKE:
            continue
        for huge in HUGE:
            bent = copy.deepcopy(stated)
            place = bent
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = huge
            file.write_text(json.dumps(bent), encoding="utf-8")
            asked(tmp_path / "out")
    assert seen


@pytest.mark.parametrize("name", list(REGISTRY))
def test_a_person_with_many_rows(name: str, tmp_path: Path) -> None:
    """Powers of what a row tells are beyond floating point long before; more rows than can be held are refused."""
    table, method = people().slice(0, 1200), REGISTRY[name]
    table = table.append_column("who", pa.array([0] * 1000 + [1] * 200))

    def publish(most: int) -> None:
        sf.publish(
            table,
            tmp_path / "out",
            roles=sf.Roles(sensitive="disease", quasi=["sex"], rest="drop", person="who", max_rows_per_person=most),
            method=method.spec(**method.example.spec),
            accept_unprotected=True,
            seed=1,
        )

    with pytest.raises(SpecError, match="from 1 to 1,000"):
        publish(1001)
    told = refused(lambda: publish(1000))
    assert "\n" not in told
    assert (tmp_path / "out").exists() == (not told)
    assert told or open_release(tmp_path / "out").manifest.people.rows_per_person == 1000
