"""Columns made coarser before anything looks at them, for every method, stated in the release."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import METHODS, sfumato
from forging import forged, verified
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import DataError, SpecError, VerificationError
from sfumato.methods import REGISTRY
from sfumato.model.coarsening import Recoding, bins, rounded, top_coded
from tables import people

DAYS = [datetime.date(2020, 2, 29), datetime.date(2021, 12, 31), None]
CASES: dict[str, tuple[list[Any], tuple[Recoding, ...], list[Any]]] = {
    "bins": ([1, 5, 9, None], bins(["x=1,5,7.5"]), ["[1, 5)", "[5, 7.5)", "[7.5, inf)", None]),
    "whole": ([14, 15, -15, None, 0], rounded({"x": 10}), [10, 20, -20, None, 0]),
    "largest whole": ([2**62 + 1], rounded({"x": 2}), [2**62 + 2]),
    "real": ([0.1, 0.26, 0.25, None], rounded(["x=1/10"]), [0.1, 0.3, 0.3, None]),
    "decimal": ([decimal.Decimal("9.96"), None], rounded({"x": "0.5"}), [decimal.Decimal("10.00"), None]),
    "year": (DAYS, rounded(["x=year"]), [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), None]),
    "quarter": (DAYS, rounded(["x=quarter"]), [datetime.date(2020, 1, 1), datetime.date(2021, 10, 1), None]),
    "top": ([3, 90, 91, 10**9, None], top_coded(["x=90"]), [3, 90, 90, 90, None]),
    "top of real": ([3.5, 90.5, float("inf")], top_coded({"x": 90}), [3.5, 90.0, 90.0]),
    "rounded, then cut": ([87, 92, 1000], (*top_coded({"x": 90}), *rounded({"x": 5})), [85, 90, 90]),
    "rounded, then binned": ([4, 6], (*bins({"x": [0, 5]}), *rounded({"x": 5})), ["[5, inf)", "[5, inf)"]),
}


def _cells(table: Any) -> list[Any]:
    with table._session() as session:
        return session.query(f"SELECT {table._select(['x'])} FROM source")["x"].to_pylist()


@pytest.mark.parametrize("case", CASES)
def test_cells_are_coarser(case: str) -> None:
    cells, recode, expected = CASES[case]
    assert _cells(LocalEngine().open(sf.Source(pa.table({"x": cells}), recode=recode))) == expected


WRONG: dict[str, tuple[Any, tuple[type[Exception], str]]] = {
    "edges fall": (lambda: bins(["x=5,1"]), (SpecError, "rise")),
    "one edge": (lambda: bins(["x=5"]), (SpecError, "two or more")),
    "no name": (lambda: bins(["5,6"]), (SpecError, "column=EDGE")),
    "no number": (lambda: bins(["x=a,b"]), (SpecError, "number")),
    "step of nothing": (lambda: rounded(["x=0"]), (SpecError, "above 0")),
    "no step": (lambda: rounded(["x"]), (SpecError, "column=STEP")),
    "other column": (lambda: rounded(["y=5"]), (SpecError, 'no column "y"')),
    "twice": (lambda: (*rounded(["x=5"]), *rounded(["x=10"])), (SpecError, "twice")),
    "half of a whole number": (lambda: rounded(["x=1/2"]), (SpecError, "whole step")),
    "numbers by year": (lambda: rounded(["x=year"]), (SpecError, "no dates")),
    "texts by number": (lambda: rounded(["s=5"]), (SpecError, "not a column of numbers")),
    "below the first edge": (lambda: bins(["x=50,60"]), (DataError, "49 rows")),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_done_is_refused(case: str) -> None:
    made, (kind, said) = WRONG[case]
    with pytest.raises(kind, match=said):
        LocalEngine().open(sf.Source(pa.table({"x": range(1, 100), "s": ["a"] * 99}), recode=made()))


@pytest.mark.parametrize("method", REGISTRY)
def test_every_method_publishes_coarser_columns_and_says_so(method: str, tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    roles = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop", "--top-code", "age=60", "--round", "age=5")
    done = sfumato(
        "publish", tmp_path / "t.parquet", tmp_path / "out", *roles, "--method", method, *METHODS[method], "--seed", 1
    )
    assert done.code == 0, done.text
    release = sf.open_release(tmp_path / "out")
    stated = json.loads((tmp_path / "out" / "release.json").read_text())["recoded"]
    assert stated == [{"column": "age", "step": "5"}, {"column": "age", "top": "60"}]
    assert "values above 60 became 60" in (tmp_path / "out" / "README.md").read_text()
    (age,) = (c for c in release.opened.columns if c.name == "age")
    if age.domain is None:
        ages = [row["age"] for row in release.sql("SELECT age, COUNT(*) AS n FROM release GROUP BY age").rows()]
    else:
        ages = list(age.domain)
    assert max(ages) == 60
    assert {a % 5 for a in ages} == {0}
    assert verified(tmp_path / "out")


def test_bins_of_a_changed_column_are_its_declared_domain(tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    method = ("--method", "uniform", "--rho1", "1/2", "--rho2", "4/5", "--accept-unprotected")
    roles = ("--sa", "age", "--qi", "sex", "--rest", "drop")
    done = sfumato(
        "publish", tmp_path / "t.parquet", tmp_path / "out", *roles, *method, "--bins", "age=0,30,50,200,300"
    )
    assert done.code == 0, done.text
    release = sf.open_release(tmp_path / "out")
    (domain,) = release.opened.domains
    assert domain.declared
    assert len(domain) == 5  # the bin that nobody is in is there too


def test_values_finer_than_stated_are_found(tmp_path: Path) -> None:
    source = sf.Source(people(), recode=rounded({"age": 5}))
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], rest="drop")
    release = sf.publish(
        source, tmp_path / "out", roles=roles, method=sf.UniformPerturbation(rho1="1/4", rho2="1/2"), seed=1
    )
    assert release.manifest.recodings() == rounded({"age": 5})

    def older(table: pa.Table) -> pa.Table:
        place = table.column_names.index("age")
        ages = [a + 1 if i == 3 else a for i, a in enumerate(table["age"].to_pylist())]
        return table.set_column(place, "age", pa.array(ages, table["age"].type))

    assert verified(forged(tmp_path / "out", tmp_path / "same"))
    with pytest.raises(VerificationError, match='"age" holds values that are finer'):
        verified(forged(tmp_path / "out", tmp_path / "finer", data=older))


def test_the_truth_is_made_coarser_in_the_same_way(tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    roles = ("--sa", "disease", "--qi", "age,sex", "--keep", "number", "--rest", "drop", "--round", "age=5")
    method = ("--method", "uniform", "--rho1", "1/4", "--rho2", "1/2", "--seed", 1)
    assert sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *roles, *method).code == 0
    done = sfumato("verify", tmp_path / "out", "--test", "--truth", tmp_path / "t.parquet")
    assert done.code == 0, done.text
