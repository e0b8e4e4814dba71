"""No missing value goes in silence; a domain is declared, or said to be found."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import METHODS, sfumato
from tables import ROLES, people


def _write(folder: Path, table: pa.Table) -> Path:
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def _with_nulls(count: int = 40) -> pa.Table:
    table = people()
    diseases = table["disease"].to_pylist()
    diseases[:: len(diseases) // count] = [None] * len(diseases[:: len(diseases) // count])
    return table.set_column(4, "disease", pa.array(diseases))


@pytest.mark.parametrize("method", METHODS)
def test_missing_sensitive_values_are_refused(method: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = sfumato("publish", _write(tmp_path, _with_nulls()), out, *ROLES, "--method", method, *METHODS[method])
    assert done.code == 2
    assert "disease" in done.err
    assert "--null-as-value" in done.err
    assert not out.exists()


@pytest.mark.parametrize("method", METHODS)
def test_missing_becomes_a_value_on_request(method: str, tmp_path: Path) -> None:
    table, out = _with_nulls(), tmp_path / "out"
    source = _write(tmp_path, table)
    options = (*ROLES, "--null-as-value", "--method", method, *METHODS[method], "--seed", 3)
    done = sfumato("publish", source, out, *options)
    assert done.code == 0, done.text
    manifest = json.loads((out / "release.json").read_text())
    assert manifest["rows"] == table.num_rows == pq.read_metadata(out / "data.parquet").num_rows
    column = next(column for column in manifest["columns"] if column["name"] == "disease")
    assert "domain" not in column or column["domain"][-1] is None  # a column that is published as it is states none
    answer = sfumato("query", out, "SELECT COUNT(*) AS n FROM release WHERE disease IS NULL", "--format", "json")
    row = json.loads(answer.out)["rows"][0]
    assert row["n_low"] <= 45
    assert row["n_high"] >= 1


def test_domain_found_in_the_data_is_said_in_the_bundle_and_on_the_terminal(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = sfumato("publish", _write(tmp_path, people()), out, *ROLES, "--method", "uniform", *METHODS["uniform"])
    assert done.code == 0, done.text
    assert "domain" in done.err.lower()
    assert _declared(out) is False


def test_declared_domain_is_used_and_said(tmp_path: Path) -> None:
    """A declared value that does not occur is in the domain, so its absence is not disclosed."""
    (tmp_path / "diseases.txt").write_text("\n".join([*sorted(set(people()["disease"].to_pylist())), "rabies"]) + "\n")
    out = tmp_path / "out"
    domain = ("--domain", f"disease={tmp_path / 'diseases.txt'}")
    done = sfumato(
        "publish", _write(tmp_path, people()), out, *ROLES, "--method", "uniform", *METHODS["uniform"], *domain
    )
    assert done.code == 0, done.text
    assert _declared(out) is True
    answer = sfumato("query", out, "SELECT COUNT(*) AS n FROM release WHERE disease = 'rabies'", "--format", "json")
    row = json.loads(answer.out)["rows"][0]
    assert row["n_low"] <= 0 <= row["n_high"]


def test_value_outside_the_declared_domain_is_refused_without_quoting_it(tmp_path: Path) -> None:
    (tmp_path / "diseases.txt").write_text("angina\ncold\n")
    domain = ("--domain", f"disease={tmp_path / 'diseases.txt'}")
    options = (*ROLES, "--method", "uniform", *METHODS["uniform"], *domain)
    done = sfumato("publish", _write(tmp_path, people()), tmp_path / "out", *options)
    assert done.code == 2
    assert "disease" in done.err
    for cell in ("bronchitis", "diabetes", "gout"):
        assert cell not in done.text
    assert not (tmp_path / "out").exists()


def _declared(release: Path) -> bool:
    (unit,) = json.loads((release / "release.json").read_text())["units"]
    return bool(unit["declared"])
