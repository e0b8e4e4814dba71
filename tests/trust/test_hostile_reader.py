"""What a hostile reader recomputes from a release, for every method: what is said to be held is held."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import METHODS, sfumato
from sfumato.methods import REGISTRY
from tables import DISEASES, ROLES, people

NOBODY = "zoster"  # a declared value that no record has


def published(folder: Path, name: str, table: pa.Table, *options: object) -> dict[str, Any]:
    """release.json of a release of the table by the method as its example asks for it."""
    source = folder / "table.parquet"
    pq.write_table(table, source)
    done = sfumato("publish", source, folder / name, *ROLES, "--method", name, *METHODS[name], "--seed", 1, *options)
    assert done.code == 0, done.text
    return json.loads((folder / name / "release.json").read_text(encoding="utf-8"))


def held(manifest: dict[str, Any]) -> set[str]:
    return {r["reader"] for r in manifest["guarantee"]["readers"] if r["held"]}


@pytest.mark.parametrize("name", list(REGISTRY))
def test_a_release_that_rules_a_value_out_holds_no_reader_with_any_prior(name: str, tmp_path: Path) -> None:
    """A prior of rho1 on a value, and all the rest on one that the release shows not to occur, ends at 1.

    Whether a release rules the value out is asked of the release itself: its count is 0 without any error.
    """
    (tmp_path / "domain.txt").write_text("\n".join([*DISEASES, NOBODY]), encoding="utf-8")
    declared = ("--domain", f"disease={tmp_path / 'domain.txt'}")
    if name == "l-diversity":
        declared = ()  # the sensitive column is published as it is, and has no domain to declare
    if name == "small-domain":
        declared = (*declared, "--min-size", 1246)  # one sub-table: the plan that is nearest to a channel
    manifest = published(tmp_path, name, people(), *declared)
    question = f"SELECT COUNT(*) AS n FROM release WHERE disease = '{NOBODY if declared else 'flu'}'"
    done = sfumato("query", tmp_path / name, question, "--format", "json")
    assert done.code == 0, done.text
    (row,) = json.loads(done.out)["rows"]
    if row["n_low"] == row["n_high"]:
        assert held(manifest).isdisjoint({"value", "set", "corruption", "person"})
