"""sensitive.parquet: what is read of it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from sfumato.engines.codes import Coder
from sfumato.errors import ReleaseError, SfumatoError
from sfumato.model.public import Domain
from sfumato.release.bundle import write_beside
from sfumato.release.files import read_side

RNG = np.random.default_rng(31)
TEXTS = ("", "asthma", "été", "flu" * 40, "gout")


def _domain(kind: str) -> tuple[Domain, dict[str, pa.DataType]]:
    values: dict[str, tuple[tuple[Any, ...], pa.DataType]] = {
        "numbers": (tuple(range(3, 60)), pa.int16()),
        "texts": (TEXTS, pa.string()),
        "one": ((5,), pa.int32()),
        "floats": ((-0.5, 0.0, 2.5), pa.float64()),
        "many": (tuple(range(0, 900, 3)), pa.int32()),
        "truth": ((False, True), pa.bool_()),
        "none among them": ((*TEXTS, None), pa.string()),
    }
    found, written = values[kind]
    return Domain(columns=("x",), values=tuple((v,) for v in found)), {"x": written}


def _side(domain: Domain, coder: Coder, *, hidden: int = 0, rows: int = 4_000) -> tuple[pa.Table, list[int]]:
    codes = RNG.integers(hidden, len(domain), rows).astype(np.int32)
    group = pa.array(np.arange(rows) // 3, pa.int32())
    return pa.table({"group_id": group, "x": coder.decode(codes)[0]}), codes.tolist()


def _read(path: Path, coder: Coder, rows: int = 4_000) -> dict[str, NDArray[Any]]:
    return read_side(path, [coder], "group_id", rows)


KINDS = ["numbers", "texts", "one", "floats", "many", "truth", "none among them"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [0, 1])
def test_codes_and_groups_are_read_whatever_the_values(kind: str, hidden: int, tmp_path: Path) -> None:
    """`hidden` values come first in the domain and nowhere in the rows."""
    domain, types = _domain(kind)
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    table, codes = _side(domain, coder, hidden=hidden if len(domain) > 1 else 0)
    write_beside(table, path)
    found = _read(path, coder)
    assert found["unit0"].tolist() == codes
    assert found["group_id"].tolist() == table["group_id"].to_pylist()


@pytest.mark.parametrize("kind", ["numbers", "texts"])
@pytest.mark.parametrize(
    "options", [{"use_dictionary": False}, {"row_group_size": 1_000}, {"compression": "snappy"}, {"version": "1.0"}]
)
def test_what_others_wrote_is_read_the_same(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    domain, types = _domain(kind)
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    table, codes = _side(domain, coder)
    pq.write_table(pa.table({"group_id": table["group_id"], "x": table["x"].cast(types["x"])}), path, **options)
    found = _read(path, coder)
    assert found["unit0"].tolist() == codes
    assert found["group_id"].tolist() == table["group_id"].to_pylist()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    domain, types = _domain("texts")
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    write_beside(_side(domain, coder)[0], path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ReleaseError, match=r"sensitive\.parquet cannot be read"):
        _read(path, coder)


@pytest.mark.parametrize("first", [-1, 2_000])
def test_numbers_that_no_group_has_are_refused(first: int, tmp_path: Path) -> None:
    domain, types = _domain("numbers")
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    table, _ = _side(domain, coder)
    group = pa.array(np.arange(4_000) // 2 + first, pa.int32())
    write_beside(table.set_column(0, "group_id", group), path)
    with pytest.raises(SfumatoError, match="belongs to a group that cannot be"):
        _read(path, coder, rows=2_500)


def test_a_value_outside_the_domain_is_refused(tmp_path: Path) -> None:
    wide, types = _domain("numbers")
    coder, path = Coder(wide, types), tmp_path / "sensitive.parquet"
    write_beside(_side(wide, coder)[0], path)
    narrow = Domain(columns=("x",), values=wide.values[:-1])
    with pytest.raises(SfumatoError, match="outside the domain"):
        _read(path, Coder(narrow, types))


def test_a_file_without_rows_has_empty_columns(tmp_path: Path) -> None:
    domain, types = _domain("texts")
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    write_beside(_side(domain, coder, rows=10)[0].slice(0, 0), path)
    found = _read(path, coder)
    assert (len(found["unit0"]), len(found["group_id"])) == (0, 0)


@pytest.mark.parametrize("order", ["by chance", "falling", "one comes back"])
def test_groups_that_do_not_lie_together_are_refused(order: str, tmp_path: Path) -> None:
    """Answers look at runs of one group: rows of a group in two places would be two groups."""
    domain, types = _domain("texts")
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    table, _ = _side(domain, coder)
    rows = {"by chance": RNG.permutation(4_000), "falling": np.arange(4_000)[::-1], "one comes back": np.arange(4_000)}
    taken = table.take(pa.array(rows[order]))
    if order == "one comes back":
        taken = pa.concat_tables([taken.slice(3), taken.slice(0, 3)])
    pq.write_table(taken, path)
    with pytest.raises(SfumatoError, match="one after the other"):
        _read(path, coder)
