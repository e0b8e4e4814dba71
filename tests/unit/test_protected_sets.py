"""Sets of values in sub-tables: no protected set has more than rho1 of one, by a recount that shares no code."""

from __future__ import annotations

import collections
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sfumato as sf
from commands import sfumato
from sfumato.errors import PlanError, SpecError
from sfumato.methods.small_domain.plan import Costs, SetLimits, ValueSet, column_sets, listed_sets, partition
from sfumato.model.public import Domain
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.release.verify import verify

RHO1, RHO2 = Fraction(1, 10), Fraction(1, 3)


def codes_table(seed: int = 1) -> pa.Table:
    """4,000 rows with 60 codes in 12 chapters of five, c00 .. c59; chapters of unequal shares, each below 1/10."""
    rng = np.random.default_rng(seed)
    chapter = np.linspace(1.15, 0.85, 12)
    within = np.array([8, 4, 2, 1, 1])
    share = np.concatenate([c * within for c in chapter / chapter.sum()]) / within.sum()
    code = rng.choice(60, 4000, p=share)
    return pa.table({"code": [f"c{c:02}" for c in code], "sex": np.array(["f", "m"])[rng.integers(0, 2, 4000)]})


CHAPTERS = [(f"c{c:02}", f"chapter {c // 5}") for c in range(60)]
ROLES = sf.Roles(sensitive="code", quasi=["sex"])


def report(method: Any, table: Any, roles: sf.Roles = ROLES, **options: Any) -> dict[str, Any]:
    return prepare(table, roles=roles, method=method, secret=Secret.from_seed(1), **options).report()


def largest_shares(found: dict[str, Any], set_of: Any) -> dict[Any, tuple[Fraction, Fraction]]:
    """Set -> (share of the table, largest share of a sub-table), counted from the custodian's report."""
    whole: collections.Counter[Any] = collections.Counter()
    parts = []
    for table in found["sub_tables"]:
        here: collections.Counter[Any] = collections.Counter()
        for value, count in zip(table["domain"], table["counts"], strict=True):
            here[set_of(value)] += count
        parts.append(here)
        whole += here
    rows = whole.total()
    return {k: (Fraction(n, rows), max(Fraction(p[k], p.total()) for p in parts)) for k, n in whole.items()}


def exceeded(shares: dict[Any, tuple[Fraction, Fraction]], rho1: Fraction) -> list[Any]:
    return [k for k, (of_table, of_part) in shares.items() if of_table <= rho1 < of_part]


def test_chapters_are_held_where_they_were_given_away() -> None:
    rhos = {"rho1": RHO1, "rho2": RHO2, "min_size": 100}
    table = codes_table()

    def chapter(value: str) -> int:
        return int(value[1:]) // 5

    free = report(sf.SmallDomain(**rhos), table)
    assert exceeded(largest_shares(free, chapter), RHO1), "the example shows nothing"
    held = report(sf.SmallDomain(**rhos, protect_groups={"code": CHAPTERS}, report="value"), table)
    assert len(held["sub_tables"]) > 1
    assert not exceeded(largest_shares(held, chapter), RHO1)
    assert held["retention"] > held["uniform_retention"]


def test_the_release_states_the_sets(tmp_path: Path) -> None:
    rows = "\n".join(f"{code};{chapter};all" for code, chapter in [*CHAPTERS, ("c99", "chapter 99")])
    (tmp_path / "chapters.csv").write_text(rows)
    pq.write_table(codes_table(), tmp_path / "codes.parquet")
    done = sfumato(
        "publish", tmp_path / "codes.parquet", tmp_path / "out", "--sa", "code", "--qi", "sex", "--rho1", RHO1,
        "--rho2", RHO2, "--min-size", 100, "--method", "small-domain", "--seed", 1,
        "--protect-groups", f"code={tmp_path / 'chapters.csv'}",
    )  # fmt: skip
    assert done.code == 0, done.text
    assert '1 values listed in the groups of "code" do not occur' in done.err
    release = sf.open_release(tmp_path / "out")
    assert tuple(range(5)) in release.plan.sets
    assert "13 stated sets" in release.guarantee.statement  # twelve chapters, and all of them
    assert list(verify(release.opened, test=True))


def test_a_line_may_be_a_set() -> None:
    lists = [[f"c{c:02}" for c in range(5 * k, 5 * k + 5)] for k in range(12)]
    domain = Domain(columns=("code",), values=tuple((f"c{c:02}",) for c in range(60)))
    as_lists, missing = listed_sets(domain, "code", lists)
    as_hierarchy, _ = listed_sets(domain, "code", CHAPTERS)
    assert [s.codes for s in as_lists] == [s.codes for s in as_hierarchy]
    assert missing == 0


def test_a_mistyped_value_does_not_make_a_list_a_hierarchy() -> None:
    domain = Domain(columns=("code",), values=(("a",), ("b",), ("c",), ("8",)))
    sets, missing = listed_sets(domain, "code", [["a", "b"], ["c", "bb"]])
    assert [s.codes for s in sets] == [(0, 1), (2,)]
    assert missing == 1
    labelled, missing = listed_sets(domain, "code", [["a", "8"], ["b", "8"], ["c", "other"]])  # a label that is a value
    assert [s.codes for s in labelled] == [(0, 1), (2,)]
    assert missing == 0


@pytest.mark.parametrize("groups", [{"sex": CHAPTERS}, {"code": [["x", "y"]]}])
def test_groups_of_other_columns_or_values_are_refused(groups: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        report(sf.SmallDomain(rho1=RHO1, rho2=RHO2, min_size=100, protect_groups=groups), codes_table())


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    method = sf.SmallDomain(rho1=RHO1, rho2=RHO2, protect_groups=f"code={tmp_path / 'none.csv'}")
    with pytest.raises(SpecError, match=r'"none\.csv"'):
        report(method, codes_table())


# --- compound values -------------------------------------------------------------------------------------------


def compound(seed: int = 2, rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(seed)
    a = rng.choice(6, rows, p=[0.3, 0.25, 0.15, 0.12, 0.1, 0.08])
    b = (a + rng.choice(4, rows, p=[0.55, 0.2, 0.15, 0.1])) % 5
    return pa.table({"a": [f"a{x}" for x in a], "b": [f"b{x}" for x in b]})


@pytest.mark.parametrize("rho1", [Fraction(1, 5), Fraction(1, 4), Fraction(3, 10)])
def test_each_column_of_a_compound_value_is_held(rho1: Fraction) -> None:
    roles = sf.Roles(sensitive=("a", "b"))
    found = report(sf.SmallDomain(rho1=rho1, rho2="1/2", min_size=60), compound(), roles)
    assert len(found["sub_tables"]) > 1
    for j in (0, 1):
        assert not exceeded(largest_shares(found, lambda value, j=j: value[j]), rho1)


@given(st.data())
def test_no_partition_gives_a_protected_set_away(data: st.DataObject) -> None:
    """Random histograms and random, overlapping sets; either held in every sub-table, or refused with the figure."""
    counts = np.array(data.draw(st.lists(st.integers(0, 60), min_size=6, max_size=24)))
    assume(np.count_nonzero(counts) > 3)
    rho1, rho2 = data.draw(st.sampled_from([(Fraction(1, 5), Fraction(1, 2)), (Fraction(1, 3), Fraction(3, 4))]))
    some = st.lists(st.integers(0, len(counts) - 1), min_size=2, max_size=8, unique=True)
    sets = [tuple(sorted(s)) for s in data.draw(st.lists(some, min_size=1, max_size=6))]
    limits = SetLimits.of([ValueSet(name=str(s), codes=s) for s in sets], counts, rho1)
    rows = int(counts.sum())
    try:
        found = partition(counts, Costs(rho1=rho1, rho2=rho2, rows=rows, min_size=10, sets=limits))
    except PlanError:
        return
    total = np.zeros_like(counts)
    for table in found.sub_tables:
        total[table.values] += table.true_counts
        inside = dict(zip(table.values.tolist(), table.true_counts.tolist(), strict=True))
        for codes in sets:
            if Fraction(int(counts[list(codes)].sum()), rows) <= rho1:
                assert Fraction(sum(inside.get(c, 0) for c in codes), table.size) <= rho1
    assert np.array_equal(total, counts)


def test_where_only_one_table_holds_the_sets_it_is_refused_with_the_figure() -> None:
    """Four values, all pairs of them sets: every sub-table of two values is a pair."""
    table = pa.table({"x": ["a"] * 250 + ["b"] * 250 + ["c"] * 250 + ["d"] * 250})
    pairs = [["a", "b"], ["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"], ["c", "d"]]
    method = sf.SmallDomain(rho1="1/2", rho2="3/4", min_size=100, protect_groups={"x": pairs})
    with pytest.raises(PlanError, match=r"50\.0% of the table, would have 100\.0% of a sub-table.*--method uniform"):
        report(method, table, sf.Roles(sensitive="x"))


# --- the real table --------------------------------------------------------------------------------------------

ENDS = (139, 239, 279, 289, 319, 389, 459, 519, 579, 629, 679, 709, 739, 759, 779, 799, 999)


def icd9_chapter(code: str) -> str:
    """The chapter of an ICD-9 code, from the ranges of the classification."""
    if not code[0].isdigit():
        return code[0]
    return str(next(k for k, end in enumerate(ENDS) if float(code) < end + 1))


@pytest.mark.slow
def test_icd_chapters_of_diabetes130(data_dir: Path) -> None:
    path, rho1 = data_dir / "diabetes130.parquet", Fraction(1, 14)
    rhos = {"rho1": rho1, "rho2": "1/6"}
    seen = {c for c in pq.read_table(path, columns=["diag_1"])["diag_1"].to_pylist() if c is not None}
    chapters = [(code, icd9_chapter(code)) for code in sorted(seen)]
    roles = sf.Roles(sensitive="diag_1", rest="drop")

    def set_of(value: str | None) -> str:
        return "missing" if value is None else icd9_chapter(value)

    free = largest_shares(report(sf.SmallDomain(**rhos), path, roles, null_as_value=True), set_of)
    assert max(free[k][1] for k in exceeded(free, rho1)) > Fraction(1, 4)
    method = sf.SmallDomain(**rhos, protect_groups={"diag_1": chapters}, report="value")
    found = report(method, path, roles, null_as_value=True)
    assert not exceeded(largest_shares(found, set_of), rho1)
    assert len(found["sub_tables"]) > 20
    assert found["retention"] > 3 * found["uniform_retention"]


@pytest.mark.slow
def test_compound_value_of_diabetes130(data_dir: Path) -> None:
    """Without the sets, six of eleven two-value sub-tables fix a column; with them no protected value stands out."""
    path, rho1 = data_dir / "diabetes130.parquet", Fraction(1, 5)
    table = pq.read_table(path, columns=["readmitted", "A1Cresult"])
    roles = sf.Roles(sensitive=("readmitted", "A1Cresult"))
    found = report(sf.SmallDomain(rho1=rho1, rho2="1/2"), table, roles, null_as_value=True)
    for j in (0, 1):
        assert not exceeded(largest_shares(found, lambda value, j=j: value[j]), rho1)
    counted = collections.Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))
    values = sorted(counted)
    counts = np.array([counted[v] for v in values])
    free = partition(counts, Costs(rho1=rho1, rho2=Fraction(1, 2), rows=table.num_rows, min_size=1000))
    pairs = [t for t in free.sub_tables if t.values.size == 2]
    fixing = [t for t in pairs if any(len({values[v][j] for v in t.values}) == 1 for j in (0, 1))]
    assert (len(pairs), len(fixing)) == (11, 6)
    assert sum(t.size for t in fixing) / table.num_rows == pytest.approx(0.82, abs=0.005)
    domain = Domain(columns=("readmitted", "A1Cresult"), values=tuple(values))
    limits = SetLimits.of(column_sets(domain), counts, rho1)
    assert limits is not None
    assert not limits.held(
        np.array([limits.member[:, t.values] @ t.true_counts for t in fixing]), np.array([t.size for t in fixing])
    ).all()
