"""`verify` on releases whose files were changed and whose digests were made anew, for every method."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from commands import METHODS, sfumato
from forging import forged, verified
from sfumato.errors import ReleaseError, VerificationError
from sfumato.methods import REGISTRY
from sfumato.query import open_release
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


# --- forgeries of any release: each is what `forged` takes ------------------------------------------------------------


def boasting(stated: dict[str, Any]) -> None:
    stated["guarantee"]["statement"] = "Nobody can learn anything."


def silent_about_limits(stated: dict[str, Any]) -> None:
    stated["guarantee"]["not_covered"] = []


def trusted_more(stated: dict[str, Any]) -> None:
    stated["guarantee"]["trust"] = "proved" if stated["guarantee"]["trust"] != "proved" else "baseline"


def no_sensitive_column(stated: dict[str, Any]) -> None:
    for column in stated["columns"]:
        column["role"] = "insensitive" if column["role"] == "sensitive" else column["role"]


def published_as_it_is(stated: dict[str, Any]) -> None:
    """The columns are left out of the units that release.json says are changed."""
    for column in stated["columns"]:
        column.pop("domain", None)
    stated["units"] = []


def of_another_method(stated: dict[str, Any]) -> None:
    stated["method"] = "uniform" if stated["method"] != "uniform" else "splu"


def a_column_more(table: pa.Table) -> pa.Table:
    return table.append_column("secret", table["number"])


def a_column_less(table: pa.Table) -> pa.Table:
    return table.drop_columns(["number"])


def a_foreign_value(table: pa.Table) -> pa.Table:
    """In the first row of what a file may hold of changed columns: values, generalised values, numbers of blocks."""
    for name, foreign in (("disease", "zzz"), ("disease_set", 30_000), ("sex", "zzz"), ("block", 1_000_000)):
        if name in table.column_names:
            table = replaced(table, name, [foreign, *table[name].to_pylist()[1:]])
    return table


STATED = (
    boasting,
    silent_about_limits,
    trusted_more,
    no_sensitive_column,
    published_as_it_is,
    of_another_method,
)


@pytest.mark.parametrize("kind", STATED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", list(REGISTRY))
def test_what_is_stated_must_be_so(name: str, kind: Any, releases: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(REFUSED):
        verified(forged(releases[name], tmp_path / "forged", manifest=kind))


@pytest.mark.parametrize("kind", [a_column_more, a_column_less, a_foreign_value], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", list(REGISTRY))
def test_what_is_published_must_be_as_stated(name: str, kind: Any, releases: dict[str, Path], tmp_path: Path) -> None:
    if kind is a_foreign_value:
        withheld = open_release(releases[name]).opened.law.withheld
        change = {"side": a_foreign_value} if withheld else {"data": a_foreign_value}
    else:
        change = {"data": kind}
    with pytest.raises(REFUSED):
        verified(forged(releases[name], tmp_path / "forged", **change))


# Parameters that describe how a release was made and that nothing promised, and no answer, rests on.
DESCRIBED = {
    "anatomy": {"grouping", "suppressed"},
    "l-diversity": {"suppressed"},
    "randomized-response": {"intervals"},
    "target-distribution": {"hierarchy", "target_by", "fakes", "randomise_depth"},
}  # fmt: skip


LONGER = {"sets": [[0, 1]]}  # what an empty list becomes, where its entries are promised something


def bent(value: Any) -> Any:
    """Another value of the same kind: a number a little off, a list or table one shorter."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return value[:-1]
    if value is None:
        return 0
    if isinstance(value, dict):
        *others, last = value.items()
        return dict(others) if last[1] else {key: bent(inner) for key, inner in others} | dict([last])
    try:
        return str(Fraction(value) * Fraction(9, 10) or Fraction(1, 10))
    except ValueError:
        return f"{value}x"


@pytest.mark.parametrize("name", list(REGISTRY))
def test_no_parameter_can_be_bent(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    """One parameter at a time, the guarantee left as it was stated."""
    manifest = open_release(releases[name]).manifest
    parameters = [(part, key) for part in ("parameters", "law") for key in getattr(manifest, part)]
    accepted = set()
    for part, key in parameters:

        def bend(stated: dict[str, Any], part: str = part, key: str = key) -> None:
            value = stated[part][key]
            stated[part][key] = LONGER[key] if value == [] and key in LONGER else bent(value)

        try:
            verified(forged(releases[name], tmp_path / part / key, manifest=bend))
        except REFUSED:
            continue
        accepted.add(key)
    assert accepted == DESCRIBED.get(name, set()) & {key for _, key in parameters}


@pytest.mark.parametrize("name", list(REGISTRY))
def test_the_same_parameters_do_not_fit_fewer_values(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    """The domain of a changed column without its last value, which rows still hold."""

    def shorten(stated: dict[str, Any]) -> None:
        changed = {column for unit in stated["units"] for column in unit["columns"]}
        for column in stated["columns"]:
            if column["name"] in changed:
                column["domain"] = column["domain"][:-1]

    with pytest.raises(REFUSED):
        verified(forged(releases[name], tmp_path / "forged", manifest=shorten))


GROUPED = ["small-domain", "target-distribution", "anatomy"]


@pytest.mark.parametrize("name", GROUPED)
def test_rows_moved_to_another_group_are_refused(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    part = open_release(releases[name]).opened.law.part

    def move(table: pa.Table) -> pa.Table:
        groups = table[part].to_numpy().copy()
        groups[np.flatnonzero(groups == groups[0])[:2]] = (groups[0] + 1) % (groups.max() + 1)
        return replaced(table, part, groups)

    with pytest.raises(REFUSED):
        verified(forged(releases[name], tmp_path / "forged", data=move))


@pytest.mark.parametrize("name", GROUPED)
def test_an_unknown_group_is_refused(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    part = open_release(releases[name]).opened.law.part

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
        stated["law"]["domains"][0] = stated["law"]["domains"][0][:1]

    with pytest.raises(REFUSED, match=r"one value|a listed set"):
        verified(forged(releases["small-domain"], tmp_path / "forged", manifest=narrow))


SETS = ["subset-response", "small-domain"]


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
        with pytest.raises(VerificationError, match=r"sets\.parquet"):
            verified(forged(releases[name], tmp_path / column, sets=wrong(column)))
    with pytest.raises(VerificationError, match=r"sets\.parquet"):
        verified(forged(releases[name], tmp_path / "short", sets=lambda table: table.slice(1)))


def test_lists_that_are_no_set_channel_are_refused(releases: dict[str, Path], tmp_path: Path) -> None:
    """A set listed twice, one left out (coverage unequal), one that holds everything, a gamma that is too large."""

    def drop(stated: dict[str, Any]) -> None:
        stated["law"]["lists"][0]["sets"] = stated["law"]["lists"][0]["sets"][1:]

    def twice(stated: dict[str, Any]) -> None:
        stated["law"]["lists"][0]["sets"].append(stated["law"]["lists"][0]["sets"][0])

    def full(stated: dict[str, Any]) -> None:
        stated["law"]["lists"][0]["sets"].append(list(range(stated["law"]["values"])))

    def large(stated: dict[str, Any]) -> None:
        stated["law"]["gammas"] = ["5"]

    def blind(stated: dict[str, Any]) -> None:
        """Two halves tell no values apart within them."""
        size = stated["law"]["values"]
        stated["law"]["lists"][0]["sets"] = [list(range(size // 2)), list(range(size // 2, size))]

    for change in (drop, twice, full, large, blind):
        with pytest.raises(REFUSED):
            verified(forged(releases["subset-response"], tmp_path / change.__name__, manifest=change))
