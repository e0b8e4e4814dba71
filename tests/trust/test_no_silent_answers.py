"""Questions that once got a wrong number without a word: name clashes, numbers that wrap around, errors of 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.codes import Coder
from sfumato.errors import DataError, QueryError
from sfumato.model.public import Domain
from tables import people

WIDE = 72  # Boolean columns: 2^72 combinations do not fit 64 bits


@pytest.fixture(scope="module")
def release() -> sf.Release:
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], rest="drop")
    return sf.publish(people(), roles=roles, method=sf.Anatomy(l=3))


@pytest.mark.parametrize("end", ["_se", "_low", "_high", "_min", "_max"])
@pytest.mark.parametrize("alias", ["n", '"my n"'])
def test_an_alias_does_not_hide_an_error(end: str, alias: str, release: sf.Release) -> None:
    name, taken = alias.strip('"'), f'"{alias.strip(chr(34))}{end}"'
    for text in (
        f"SELECT COUNT(*) AS {alias}, COUNT(number) AS {taken} FROM release",
        f"SELECT COUNT(number) AS {taken}, COUNT(*) AS {alias} FROM release",
        f"SELECT sex AS {taken}, COUNT(*) AS {alias} FROM release GROUP BY sex",
        f"SELECT COUNT(*) AS {alias}, COUNT(number) AS {taken.upper()} FROM release",
    ):
        with pytest.raises(QueryError, match=f"(?i){name}{end}"):
            release.sql(text)
    assert release.sql(f"SELECT sex AS {taken}, COUNT(*) AS other FROM release GROUP BY sex").rows()


@pytest.mark.parametrize(
    "clause",
    ["LIMIT 10 PERCENT", "LIMIT 10%", "LIMIT 1 PERCENT OFFSET 1", "LIMIT 50.0 PERCENT", "LIMIT ALL", "LIMIT 1 + 1",
     "FETCH FIRST 3 ROWS WITH TIES", "FETCH FIRST 3 ROWS ONLY", "LIMIT -1", "OFFSET 1 PERCENT"],
)  # fmt: skip
def test_limits_that_are_not_a_number_of_rows_are_refused(clause: str, release: sf.Release) -> None:
    with pytest.raises(QueryError):
        release.sql(f"SELECT sex, COUNT(*) AS n FROM release GROUP BY sex {clause}")


def _bits(rows: int, seed: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {f"b{i}": rng.random(rows) < 0.5 for i in range(WIDE)}


def test_a_domain_of_many_columns_is_coded_without_wrapping_around() -> None:
    """Every cell is found again, and a cell that is not there is refused, wherever it differs."""
    table = pa.table(_bits(300))
    values = tuple(zip(*[c.to_pylist() for c in table.columns], strict=True))
    coder = Coder(Domain(columns=tuple(table.column_names), values=values), {})
    order = np.random.default_rng(1).permutation(300)
    codes = coder.encode([c.combine_chunks().take(pa.array(order)) for c in table.columns])
    assert np.array_equal(codes, order)
    decoded = coder.decode(codes)
    assert [d.to_pylist() for d in decoded] == [c.take(pa.array(order)).to_pylist() for c in table.columns]
    for column in range(WIDE):
        cells = [pa.array([not values[7][j] if j == column else values[7][j]]) for j in range(WIDE)]
        with pytest.raises(DataError, match="outside the domain"):
            coder.encode(cells)


def test_group_by_many_columns_counts_every_group() -> None:
    rows = 400
    bits = {name: np.tile(column, 2) for name, column in _bits(rows // 2).items()}
    table = pa.table({**bits, "s": ["a", "b", "c", "d"] * (rows // 4)})
    release = sf.publish(
        table, roles=sf.Roles(sensitive="s", rest="quasi"), method=sf.UniformPerturbation(rho1="1/3", rho2="1/2")
    )
    names = ", ".join(bits)
    answer = release.sql(f"SELECT {names}, COUNT(*) AS n FROM release GROUP BY {names}").to_arrow()
    assert answer.num_rows == rows // 2
    assert answer["n"].to_pylist() == [2.0] * (rows // 2)
    by_value = release.sql(f"SELECT {names}, s, COUNT(*) AS n FROM release GROUP BY {names}, s").to_arrow()
    assert by_value.num_rows == rows // 2 * 4
    assert sum(by_value["n"].to_pylist()) == pytest.approx(rows)


@pytest.mark.parametrize("spec", [sf.UniformPerturbation(rho1="1/3", rho2="1/2"), sf.Anatomy(l=2)])
def test_compound_values_of_many_columns(spec: Any) -> None:
    """Sixteen distinct people, told apart by the first columns, which a number of 64 bits forgets, and one more bit."""
    person = np.tile(np.arange(16), 25)
    bits = {f"b{i}": (person >> i & 1 if i < 3 else person >> 3 ^ i & 1) == 1 for i in range(WIDE)}
    table = pa.table({**bits, "q": ["x", "y"] * 200})
    release = sf.publish(table, roles=sf.Roles(sensitive=list(bits), quasi=["q"]), method=spec)
    assert len(release.domains[0]) == 16
    rows = release.sql("SELECT b0, b1, b2, COUNT(*) AS n FROM release GROUP BY 1, 2, 3").rows()
    assert len(rows) == 8
    assert sum(row["n"] for row in rows) == pytest.approx(400)
    if isinstance(spec, sf.Anatomy):  # every true value is published
        assert [row["n"] for row in rows] == [50] * 8


def test_many_conditions_on_one_column_do_not_wrap_around() -> None:
    """Fifty conditions on one randomised column have 3^50 patterns of truth; the answers are those of one at a time."""
    values = [f"v{i:02}" for i in range(50)]
    table = pa.table({"s": values * 40, "q": ["x", "y"] * 1000})
    release = sf.publish(
        table, roles=sf.Roles(sensitive="s", quasi=["q"]), method=sf.UniformPerturbation(rho1="1/3", rho2="1/2")
    )
    wanted = ", ".join(f"COUNT(*) FILTER (WHERE s = '{v}') AS {v}" for v in values)
    together = release.sql(f"SELECT {wanted} FROM release").rows()[0]
    for value in values:
        (alone,) = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE s = '{value}'").rows()
        assert together[value] == pytest.approx(alone["n"])
        assert together[f"{value}_se"] == pytest.approx(alone["n_se"])


def test_an_uncertain_count_has_an_error() -> None:
    """splu with two columns, three people a group: where the estimate of the variance falls below 0, it is not 0."""
    rng = np.random.default_rng(1)
    n = 1200
    columns = {name: [f"{name}{i}" for i in rng.integers(0, 8, n)] for name in ("a", "b")}
    table = pa.table({**columns, "q": rng.integers(0, 400, n), "x": rng.integers(1, 9, n)})
    roles = sf.Roles(sensitive=["a", "b"], quasi=["q", "x"])
    release = sf.publish(table, roles=roles, method=sf.Splu(gamma=4))
    for text in (
        "SELECT q, COUNT(*) AS n FROM release WHERE a = 'a1' AND b = 'b2' GROUP BY q",
        "SELECT q, COUNT(*) AS n FROM release WHERE a = 'a1' OR b = 'b2' GROUP BY q",
        "SELECT q, SUM(x) AS n FROM release WHERE a = 'a1' AND b = 'b2' GROUP BY q",
        "SELECT q, COUNT(*) AS n FROM release WHERE a = 'a1' AND b = 'b2' AND x > 3 OR a = 'a2' AND x < 3 GROUP BY q",
        "SELECT q, a, b, COUNT(*) AS n FROM release GROUP BY q, a, b",
    ):
        rows = release.sql(text).to_arrow()
        open_ended = rows["n_low"].to_numpy() < rows["n_high"].to_numpy()
        assert open_ended.any()
        assert rows["n_se"].to_numpy()[open_ended].min() > 0
