"""CSV as other countries write it: a decimal comma, days as 31.12.2025; and the note where nobody said so."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from sfumato.errors import DataError, SpecError

ROWS = 400
ROLES = sf.Roles(sensitive="disease", quasi=("born", "weight", "ward"))
METHOD = sf.UniformPerturbation(rho1="1/3", rho2="3/5")


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    days = [datetime.date(1950, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 20_000, ROWS)]
    weights = [None if i % 50 == 7 else float(w) for i, w in enumerate(rng.integers(400, 1100, ROWS) / 10)]
    disease = [["Röteln", "Grippe", "Gicht", "Zöliakie"][i] for i in rng.integers(0, 4, ROWS)]
    ward = [["Süd", "Höchst"][i] for i in rng.integers(0, 2, ROWS)]
    return pa.table({"born": days, "weight": weights, "ward": ward, "disease": disease})


def written(path: Path, form: str = "%d.%m.%Y") -> Path:
    """The same table as a hospital in Cologne has it."""
    lines = ["born;weight;ward;disease"]
    for row in table().to_pylist():
        weight = "k.A." if row["weight"] is None else f"{row['weight']:.1f}".replace(".", ",")
        lines.append(f"{row['born']:{form}};{weight};{row['ward']};{row['disease']}")
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    return path


@pytest.mark.parametrize(
    ("form", "dates", "types"),
    [
        ("%d.%m.%Y", "DD.MM.YYYY", {}),
        ("%m/%d/%Y", "MM/DD/YYYY", {}),
        ("%Y %m %d", "YYYY MM DD", {}),
        ("%d.%m.%Y", "DD.MM.YYYY", {"weight": "DOUBLE", "born": "DATE"}),
    ],
)
def test_the_release_is_that_of_the_table_itself(form: str, dates: str, types: dict[str, str], tmp_path: Path) -> None:
    """Byte for byte, as for every other kind of source."""
    source = sf.Source(
        written(tmp_path / "t.csv", form), encoding="latin-1", null=("k.A.",), decimal=",", dates=dates, types=types
    )
    pq.write_table(table(), tmp_path / "t.parquet")
    for given, out in ((source, "csv"), (tmp_path / "t.parquet", "parquet")):
        sf.publish(given, tmp_path / out, roles=ROLES, method=METHOD, seed=1)
    assert (tmp_path / "csv" / "data.parquet").read_bytes() == (tmp_path / "parquet" / "data.parquet").read_bytes()


def test_a_point_is_no_decimal_sign_where_the_comma_is(tmp_path: Path) -> None:
    """1.234 is a thousand and more there, so it must not become 1.234."""
    (tmp_path / "t.csv").write_text("pay;sex\n" + "1.234;f\n2.500;m\n" * 30)
    kinds = {c["name"]: c["type"] for c in sf.look(tmp_path / "t.csv").to_dict()["columns"]}
    assert kinds["pay"] == "DOUBLE"
    comma = sf.look(sf.Source(tmp_path / "t.csv", decimal=","))
    assert {c["name"]: c["type"] for c in comma.to_dict()["columns"]}["pay"] == "VARCHAR"
    with pytest.raises(DataError, match="cannot be read as DATE"):
        sf.look(sf.Source(tmp_path / "t.csv", types={"pay": "DATE"}, dates="DD.MM.YYYY"))


def test_a_day_that_is_none_keeps_the_column_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("day;sex\n" + "30.01.2025;f\n30.02.2025;m\n" * 30)
    found = sf.look(sf.Source(tmp_path / "t.csv", dates="DD.MM.YYYY")).to_dict()["columns"]
    assert found[0]["type"] == "VARCHAR"


def test_a_note_tells_the_option_and_no_cell(tmp_path: Path) -> None:
    file = written(tmp_path / "t.csv")
    said = ("--encoding", "latin-1", "--null", "k.A.")
    done = sfumato("look", file, *said)
    assert done.code == 0
    assert (
        "\"weight\" is read as text; its cells look like numbers with a decimal comma: if they are, say --decimal ','"
        in (done.err)
    )
    assert '"born" is read as text' in done.err
    assert "--dates DD.MM.YYYY" in done.err
    assert "ward" not in done.err
    mended = sfumato("look", file, *said, "--decimal", ",", "--dates", "DD.MM.YYYY")
    assert mended.err == ""
    wished = sfumato("look", file, *said, "--types", "weight=DOUBLE")
    assert wished.code == 2
    assert "--decimal" in wished.err


@pytest.mark.parametrize("form", ["TT.MM.JJJJ", "DD.MM.DD", "DDMMYYYY", "DD.MM/YYYY", "%d.%m.%Y", ""])
def test_other_forms_are_refused(form: str) -> None:
    with pytest.raises(SpecError, match=r"DD\.MM\.YYYY"):
        sf.Source("t.csv", dates=form)


def test_other_kinds_of_source_refuse_it(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "t.parquet")
    for source in (sf.Source(tmp_path / "t.parquet", decimal=","), sf.Source(table(), dates="DD.MM.YYYY")):
        with pytest.raises(SpecError, match="is for CSV files only"):
            sf.look(source)
