"""`verify` on releases whose files were changed and whose digests were made anew, for every method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from commands import METHODS, sfumato
from forging import forged, verified
from sfumato.errors import ReleaseError, VerificationError
from sfumato.methods import REGISTRY
from tables import MARK, people

ROLES = ("--sa", "disease", "--qi", "age,sex", "--keep", "number", "--drop", f"{MARK}_name", "--null-as-value")
REFUSED = (VerificationError, ReleaseError)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One release of every method."""
    import pyarrow.parquet as pq

    here = tmp_path_factory.mktemp("releases")
    pq.write_table(people(), here / "t.parquet")
    made = {}
    for name, options in METHODS.items():
        done = sfumato("publish", here / "t.parquet", here / name, *ROLES, "--method", name, *options, "--seed", 3)
        assert done.code == 0, done.text
        made[name] = here / name
    return made


def replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    at = table.column_names.index(name)
    return table.set_column(at, name, pa.array(values, type=table.schema.field(name).type))


@pytest.mark.parametrize("name", list(REGISTRY))
def test_an_honest_release_is_verified(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    assert verified(forged(releases[name], tmp_path / "copy"))


@pytest.mark.parametrize("name", list(REGISTRY))
def test_a_stronger_statement_is_refused(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    def boast(stated: dict[str, Any]) -> None:
        stated["guarantee"]["statement"] = "Nobody can learn anything."

    with pytest.raises(REFUSED):
        verified(forged(releases[name], tmp_path / "forged", manifest=boast))


@pytest.mark.parametrize("name", list(REGISTRY))
def test_a_value_outside_the_domain_is_refused(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    method = REGISTRY[name]
    column = "disease" if name != "l-diversity" else "sex"

    def odd(table: pa.Table) -> pa.Table:
        if column not in table.column_names:
            return table
        values = table[column].to_pylist()
        outside = ["zzz"] if isinstance(values[0], list) else "zzz"
        return replaced(table, column, [outside, *values[1:]])

    if method.withheld and name == "target-distribution":
        pytest.skip("its blocks are numbers; see the next tests")
    with pytest.raises(REFUSED):
        verified(forged(releases[name], tmp_path / "forged", data=odd, side=odd))


@pytest.mark.parametrize("name", [n for n in REGISTRY if REGISTRY[n].part])
def test_rows_moved_to_another_group_are_refused(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    part = REGISTRY[name].part

    def move(table: pa.Table) -> pa.Table:
        groups = table[part].to_numpy().copy()
        groups[np.flatnonzero(groups == groups[0])[:2]] = (groups[0] + 1) % (groups.max() + 1)
        return replaced(table, part, groups)

    with pytest.raises(REFUSED):
        verified(forged(releases[name], tmp_path / "forged", data=move))


@pytest.mark.parametrize("name", [n for n in REGISTRY if REGISTRY[n].part])
def test_an_unknown_group_is_refused(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    part = REGISTRY[name].part

    def move(table: pa.Table) -> pa.Table:
        return replaced(table, part, [1_000_000, *table[part].to_pylist()[1:]])

    with pytest.raises(REFUSED):
        verified(forged(releases[name], tmp_path / "forged", data=move))


def test_anatomy_groups_of_one_value_are_refused(releases: dict[str, Path], tmp_path: Path) -> None:
    """Every group a single repeated value: the reader would know each record's."""

    def one_value(table: pa.Table) -> pa.Table:
        groups = table["group_id"].to_numpy()
        values = table["disease"].to_pylist()
        first = dict(zip(groups[::-1], values[::-1], strict=True))
        return replaced(table, "disease", [first[g] for g in groups])

    with pytest.raises(VerificationError, match="twice"):
        verified(forged(releases["anatomy"], tmp_path / "forged", side=one_value))


def test_anatomy_groups_of_fewer_values_are_refused(releases: dict[str, Path], tmp_path: Path) -> None:
    def short(table: pa.Table) -> pa.Table:
        return table.slice(1)

    with pytest.raises(VerificationError, match="fewer than 3"):
        verified(forged(releases["anatomy"], tmp_path / "forged", side=short))


def test_classes_that_are_not_diverse_are_refused(releases: dict[str, Path], tmp_path: Path) -> None:
    def same(table: pa.Table) -> pa.Table:
        return replaced(table, "disease", [table["disease"][0].as_py()] * table.num_rows)

    with pytest.raises(VerificationError, match="diverse"):
        verified(forged(releases["l-diversity"], tmp_path / "forged", data=same))


def test_a_sub_table_of_one_value_is_refused(releases: dict[str, Path], tmp_path: Path) -> None:
    def narrow(stated: dict[str, Any]) -> None:
        stated["parameters"]["domains"][0] = stated["parameters"]["domains"][0][:1]

    with pytest.raises(REFUSED, match=r"one value|a listed set"):
        verified(forged(releases["small-domain"], tmp_path / "forged", manifest=narrow))


def test_a_sensitive_column_published_as_it_is_is_refused(releases: dict[str, Path], tmp_path: Path) -> None:
    """The column is left out of the units that release.json says are randomised."""

    def leave_out(stated: dict[str, Any]) -> None:
        for column in stated["columns"]:
            column.pop("domain", None)
        stated["units"] = []

    for name in (n for n in REGISTRY if n not in {"l-diversity"}):
        with pytest.raises(REFUSED):
            verified(forged(releases[name], tmp_path / name, manifest=leave_out))


SETS = ["subset-response", "small-domain"]


@pytest.mark.parametrize("name", SETS)
def test_a_list_that_is_not_the_one_of_its_number_is_refused(
    name: str, releases: dict[str, Path], tmp_path: Path
) -> None:
    """Another listed set under this number, the same set in another order, one value short: each is refused."""

    def shown(change: Any) -> Any:
        def alter(table: pa.Table) -> pa.Table:
            lists = table["disease"].to_pylist()
            return replaced(table, "disease", [change(lists), *lists[1:]])

        return alter

    changes = {
        "another": lambda lists: next(values for values in lists if values != lists[0]),
        "turned": lambda lists: lists[0][::-1],
        "short": lambda lists: lists[0][1:],
        "missing": lambda lists: None,
    }
    for what, change in changes.items():
        with pytest.raises(VerificationError, match="another list"):
            verified(forged(releases[name], tmp_path / what, data=shown(change)))


@pytest.mark.parametrize("name", SETS)
def test_an_unlisted_set_is_refused(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    for number in (30_000, -1, None):

        def odd(table: pa.Table, number: int | None = number) -> pa.Table:
            return replaced(table, "disease_set", [number, *table["disease_set"].to_pylist()[1:]])

        with pytest.raises(VerificationError):
            verified(forged(releases[name], tmp_path / str(number), data=odd))


@pytest.mark.parametrize("name", SETS)
def test_other_weights_are_refused(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    def wrong(column: str) -> Any:
        return lambda table: replaced(table, column, [table[column][0].as_py() + 0.001, *table[column].to_pylist()[1:]])

    for column in ("weight", "variance_weight"):
        with pytest.raises(VerificationError, match=r"weights\.parquet"):
            verified(forged(releases[name], tmp_path / column, weights=wrong(column)))
    with pytest.raises(VerificationError, match=r"weights\.parquet"):
        verified(forged(releases[name], tmp_path / "short", weights=lambda table: table.slice(1)))


def test_lists_that_are_no_set_channel_are_refused(releases: dict[str, Path], tmp_path: Path) -> None:
    """A set listed twice, one left out (coverage unequal), one that holds everything, a gamma that is too large."""

    def drop(stated: dict[str, Any]) -> None:
        stated["parameters"]["listed"]["sets"] = stated["parameters"]["listed"]["sets"][1:]

    def twice(stated: dict[str, Any]) -> None:
        stated["parameters"]["listed"]["sets"].append(stated["parameters"]["listed"]["sets"][0])

    def full(stated: dict[str, Any]) -> None:
        stated["parameters"]["listed"]["sets"].append(list(range(stated["parameters"]["values"])))

    def large(stated: dict[str, Any]) -> None:
        stated["parameters"]["gamma"] = "5"

    def blind(stated: dict[str, Any]) -> None:
        """Two halves tell no values apart within them."""
        size = stated["parameters"]["values"]
        stated["parameters"]["listed"]["sets"] = [list(range(size // 2)), list(range(size // 2, size))]

    for change in (drop, twice, full, large, blind):
        with pytest.raises(REFUSED):
            verified(forged(releases["subset-response"], tmp_path / change.__name__, manifest=change))
