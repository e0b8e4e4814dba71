"""A small release that states large numbers, or puts its rows into one group, costs whoever reads it little."""

from __future__ import annotations

import copy
import json
import tracemalloc
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from commands import sfumato
from forging import forged
from sfumato.errors import ReleaseError, SfumatoError
from sfumato.laws import groups as channels
from sfumato.laws.groups import groups_of
from sfumato.methods import REGISTRY
from sfumato.query import open_release
from sfumato.release.verify import verify

LARGE = (20_000, 10**8, 2**52)  # what a whole number may be, by the largest of which nothing can be laid out
MOST_BYTES = 100 << 20
ALIKE = 2  # places of one kind that are tried
ROWS = 3_000
BY_VALUE = "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease"
QUESTIONS = (BY_VALUE, "SELECT sex, disease, COUNT(*) AS n FROM release GROUP BY sex, disease")


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One release of every method."""
    here, rng, made = tmp_path_factory.mktemp("releases"), np.random.default_rng(1), {}
    table = pa.table({"disease": rng.integers(0, 8, ROWS).astype(str), "sex": rng.choice(["f", "m"], ROWS)})
    for name, method in REGISTRY.items():
        made[name] = here / name
        sf.publish(
            table,
            made[name],
            roles=sf.Roles(sensitive="disease", quasi=["sex"]),
            method=method.spec(**method.example.spec),
            accept_unprotected=True,
            seed=1,
        )
    return made


def costs_little(folder: Path) -> list[str]:
    """What is said when it is verified and asked, digests not looked at; none of that takes much, or warns."""
    asked = cache(lambda: open_release(folder, check=False))
    acts = [lambda: list(verify(open_release(folder, check=False).opened, test=True))]
    acts += [lambda text=text: asked().sql(text) for text in QUESTIONS]  # type: ignore[misc]
    said = []
    for act in acts:
        tracemalloc.start()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                act()
            said.append("")
        except SfumatoError as error:
            said.append(str(error))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_BYTES, said[-1]
    return said


def whole_numbers(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where they stand in a document."""
    if isinstance(node, dict | list):
        inner = node.items() if isinstance(node, dict) else enumerate(node)
        return [place for key, below in inner for place in whole_numbers(below, (*path, key))]
    return [path] if isinstance(node, int) and not isinstance(node, bool) else []


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REGISTRY))
def test_numbers_that_a_release_states(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    """In release.json, wherever a whole number stands; as many files as there are."""
    folder = forged(releases[name], tmp_path / "out")
    file = folder / "release.json"
    stated = json.loads(file.read_text(encoding="utf-8"))
    seen: dict[tuple[Any, ...], int] = {}
    for path in whole_numbers(stated):
        kind = tuple("#" if isinstance(key, int) else key for key in path)
        seen[kind] = seen.get(kind, 0) + 1
        for large in LARGE if seen[kind] <= ALIKE else ():
            bent = copy.deepcopy(stated)
            place = bent
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = large
            file.write_text(json.dumps(bent), encoding="utf-8")
            costs_little(folder)
    assert seen


def crowded(most: int) -> Any:
    """Rows of all parts from `most` on in that one, wherever a file names parts."""

    def changed(table: pa.Table) -> pa.Table:
        for place, field in enumerate(table.schema):
            if pa.types.is_integer(field.type) and field.name in {"sub_table", "group_id"}:
                numbers = np.minimum(table[field.name].to_numpy(), most)
                table = table.set_column(place, field, pa.array(numbers, field.type))
        return table

    return changed


@pytest.mark.parametrize("name", ["small-domain", "target-distribution", "anatomy"])
@pytest.mark.parametrize("most", [0, 30])
def test_nearly_all_rows_in_one_part(name: str, most: int, releases: dict[str, Path], tmp_path: Path) -> None:
    change = crowded(most)
    side = change if (releases[name] / "sensitive.parquet").exists() else None
    for j, files in enumerate(({"data": change, "side": side}, {"data": change}, {"side": side})):
        costs_little(forged(releases[name], tmp_path / str(j), **files))


def shifted(table: pa.Table) -> pa.Table:
    place = table.column_names.index("group_id")
    return table.set_column(place, table.schema.field(place), pa.array(table["group_id"].to_numpy() + 5, pa.int32()))


@pytest.mark.parametrize("change", [crowded(30), shifted], ids=["one large group", "numbers from 5 on"])
def test_groups_of_anatomy_that_cannot_be(change: Any, releases: dict[str, Path], tmp_path: Path) -> None:
    """They are refused, by one line and the code of a malformed release; `verify` has a code of its own."""
    folder = forged(releases["anatomy"], tmp_path / "out", data=change, side=change)
    verification, *answers = costs_little(folder)
    assert verification
    assert {"other groups than" in answer for answer in answers} == {True}
    for command, code in ((("query", folder, BY_VALUE), 2), (("test", folder, "disease", "sex"), 2)):
        done = sfumato(*command)
        assert (done.code, done.text.count("\n")) == (code, 1), done.text
    assert sfumato("verify", folder, "--test").code == 4


def test_a_number_of_values_that_the_domain_does_not_have(releases: dict[str, Path], tmp_path: Path) -> None:
    """A channel over a million values would be laid out, and answer for eight of them."""
    folder = forged(releases["uniform"], tmp_path / "out", manifest=lambda stated: stated["law"].update(values=10**6))
    with pytest.raises(ReleaseError, match="states 1000000 values and lists 8"):
        open_release(folder, check=False).sql(BY_VALUE)


def test_groups_as_large_as_they_may_be() -> None:
    """Every group holds all of many values, which is what l says: pairs of its places are not gone through."""
    values = 400
    groups = groups_of(
        np.repeat(np.arange(values), values), np.tile(np.arange(values), values).astype(np.int32), values
    )
    tracemalloc.start()
    channel = channels.Channel(groups)
    assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    tracemalloc.stop()
    np.testing.assert_allclose(channel.mean(np.eye(values)[:2]), 1 / values)


def test_more_values_than_can_be_solved_for() -> None:
    """Where a matrix of them would fill the memory they are refused by their number, before it is made."""
    values = 2 * channels.MOST_SOLVED
    pairs = np.stack([np.arange(values), np.roll(np.arange(values), 1)], axis=1)
    groups = groups_of(np.repeat(np.arange(values), 2), np.sort(pairs, axis=1).ravel().astype(np.int32), values)
    with pytest.raises(SfumatoError, match="too many to solve for"):
        channels.Channel(groups)
