"""People with several rows: refused, or held as one row would be."""

from __future__ import annotations

import collections
import itertools
import json
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

import sfumato as sf
from commands import METHODS, sfumato
from constants import ALPHA
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import DataError, PlanError, SpecError, VerificationError
from sfumato.methods import REGISTRY
from sfumato.publish import prepare
from sfumato.publishing.custodian import kept_rows
from sfumato.publishing.randomness import Secret
from sfumato.release.bundle import finish
from sfumato.release.manifest import Manifest
from sfumato.release.verify import unseen, verify
from sfumato.stats.gamma import gamma_bound, rooted_gamma
from tables import people as plain_people
from visits import MARK, RACES, visits

UNIFORM = sf.UniformPerturbation(rho1="1/5", rho2="1/2")
RHO1, RHO2 = Fraction(1, 5), Fraction(1, 2)


def roles(**more: object) -> sf.Roles:
    return sf.Roles(sensitive="race", quasi=["age"], person="patient", **more)


def one_visit_each() -> pa.Table:
    table = visits(people=900, most=1)
    assert len(set(table["patient"].to_pylist())) == table.num_rows
    return table


# --- one row each, or refused ----------------------------------------------------------------------------------


def test_one_row_each_is_checked_and_stated(tmp_path: Path) -> None:
    release = sf.publish(one_visit_each(), tmp_path / "out", roles=roles(), method=UNIFORM, seed=1)
    assert "each person has one row: checked" in release.guarantee.assumptions
    assert release.manifest.people.model_dump() == {"checked": True, "rows_per_person": 1, "rows_left_out": 0}
    assert "patient" not in {c.name for c in release.manifest.columns}
    assert any("that people were counted" in line for line in unseen(release.opened)), "no bundle shows it"
    for file in (tmp_path / "out").iterdir():
        assert MARK.encode() not in file.read_bytes()
        assert b"patient" not in file.read_bytes(), "not even the name of the column"
    assert list(verify(release.opened, test=True))
    assert not release.count("race = 'a'").caveats


def test_nobody_looked_is_an_assumption_and_a_note() -> None:
    notes: list[str] = []
    table = one_visit_each().drop_columns("patient")
    release = sf.publish(
        table, roles=sf.Roles(sensitive="race", quasi=["age"]), method=UNIFORM, seed=1, notify=notes.append
    )
    assert any(a.startswith("each person has one row (not checked") for a in release.guarantee.assumptions)
    assert any("--person" in note for note in notes)


def test_several_rows_are_refused_with_the_figures_and_two_ways_out(tmp_path: Path) -> None:
    table = visits()
    count = collections.Counter(table["patient"].to_pylist())
    pq.write_table(table, tmp_path / "visits.parquet")
    done = sfumato(
        "publish", tmp_path / "visits.parquet", tmp_path / "out", "--sa", "race", "--qi", "age", "--person", "patient",
        "--rho1", "1/5", "--rho2", "1/2",
    )  # fmt: skip
    assert done.code == 3
    assert f"{sum(n > 1 for n in count.values())} of {len(count)} people" in done.err
    assert f"up to {max(count.values())} each" in done.err
    assert "--max-rows-per-person 1" in done.err
    assert MARK not in done.text
    assert not (tmp_path / "out").exists()


def test_rows_of_nobody_are_refused() -> None:
    table = visits(most=1)
    someone = table["patient"].to_pylist()
    table = table.set_column(0, "patient", pa.array([None, None, *someone[2:]]))
    with pytest.raises(DataError, match='2 rows have no value in "patient"'):
        sf.publish(table, roles=roles(), method=UNIFORM)


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "2"])
def test_bad_limits_are_refused(most: object) -> None:
    with pytest.raises(SpecError, match="max_rows_per_person"):
        roles(max_rows_per_person=most)


def test_a_limit_needs_people() -> None:
    with pytest.raises(SpecError, match="--person"):
        sf.Roles(sensitive="race", max_rows_per_person=2)


# --- a random k of each person's rows ---------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("batch", [97, 131_072])
def test_at_most_k_rows_of_each_person_stay(most: int, batch: int) -> None:
    table = visits()
    before = collections.Counter(table["patient"].to_pylist())
    kept, known = kept_rows(
        LocalEngine(batch_rows=batch).open(table), roles(max_rows_per_person=most), Secret.from_seed(1)
    )
    path = kept._copy.folder / "rows.parquet"  # type: ignore[attr-defined]
    after = collections.Counter(pq.read_table(path)["patient"].to_pylist())
    assert after == {who: min(most, n) for who, n in before.items()}
    assert known.rows_left_out == sum(before.values()) - sum(after.values())
    assert known.rows_per_person == most
    del kept
    assert not path.exists(), "the copy goes with the table"


def test_the_same_seed_keeps_the_same_rows(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        sf.publish(visits(), tmp_path / name, roles=roles(max_rows_per_person=2), method=UNIFORM, seed=seed)
    files = {name: (tmp_path / name / "data.parquet").read_bytes() for name in "abc"}
    assert files["a"] == files["b"] != files["c"]


def test_every_row_of_a_person_is_as_likely_to_stay() -> None:
    """600 people with five rows, two of which stay: each row of 1 to 5 for 2/5 of the people, each pair for 1/10.

    False alarms: ALPHA in all over the 15 exact binomial tests. Taking the first rows would fail at once.
    """
    people = 600
    table = pa.table(
        {"patient": np.repeat(np.arange(people), 5), "race": ["a"] * 5 * people, "age": np.tile(np.arange(5), people)}
    )
    kept, _ = kept_rows(LocalEngine(batch_rows=777).open(table), roles(max_rows_per_person=2), Secret.from_seed(1))
    rows = pq.read_table(kept._copy.folder / "rows.parquet")  # type: ignore[attr-defined]
    ages = np.sort(rows["age"].to_numpy()[np.argsort(rows["patient"].to_numpy(), kind="stable")].reshape(people, 2))
    stays = collections.Counter(map(tuple, ages.tolist()))
    for pair in itertools.combinations(range(5), 2):
        assert binomtest(stays[pair], people, 1 / 10).pvalue > ALPHA / 15
    for row in range(5):
        assert binomtest(int((ages == row).sum()), people, 2 / 5).pvalue > ALPHA / 15


def test_answers_speak_of_the_rows_that_were_kept() -> None:
    table = visits()
    release = sf.publish(table, roles=roles(max_rows_per_person=1), method=UNIFORM, seed=1)
    people = len(set(table["patient"].to_pylist()))
    left = table.num_rows - people
    assert release.manifest.rows == people
    assert any(f"{left:,} rows left out" in a for a in release.guarantee.assumptions)
    for sql in ("SELECT COUNT(*) AS n FROM release", "SELECT COUNT(*) AS n FROM release WHERE race = 'a'"):
        assert f"rows of people with more than 1 row were left out: {left:,} rows" in release.sql(sql).caveats


# --- the k-th root holds the person -----------------------------------------------------------------------------


@given(
    st.fractions(min_value=Fraction(101, 100), max_value=10**6, max_denominator=10**4), st.integers(1, 12),
    st.integers(1, 4),
)  # fmt: skip
def test_the_root_is_the_largest_of_its_digits(gamma: Fraction, rows: int, digits: int) -> None:
    root = rooted_gamma(gamma, rows, digits)
    size = len(str(int(root)))
    unit = Fraction(10) ** (size - digits)
    assert root**rows <= gamma < (root + unit) ** rows
    assert (root / unit).denominator == 1


def largest_posterior(gamma: Fraction, m: int, rows: int, prior: Fraction) -> Fraction:
    """By enumeration: a person has one value on all rows, every row shows it with odds gamma; all outputs are tried."""
    others = (1 - prior) / (m - 1)
    best = Fraction(0)
    for seen in itertools.product(range(m), repeat=rows):
        weight = [(prior if x == 0 else others) * gamma ** seen.count(x) for x in range(m)]
        best = max(best, weight[0] / sum(weight))
    # all other mass on a value that is never shown is the worst case of the others
    return max(best, prior * gamma**rows / (prior * gamma**rows + 1 - prior))


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_person_with_k_rows_is_held(rows: int) -> None:
    release = sf.publish(visits(), roles=roles(max_rows_per_person=rows), method=UNIFORM, seed=1)
    gamma = release.plan.gamma
    assert largest_posterior(gamma, len(RACES), rows, RHO1) <= RHO2
    assert largest_posterior(gamma + Fraction(1, 100), len(RACES), rows, RHO1) > RHO2, "no larger gamma would do"
    if rows > 1:
        unrooted = gamma_bound(RHO1, RHO2)
        assert largest_posterior(unrooted, len(RACES), rows, RHO1) > RHO2, "one row's gamma does not hold the person"
        assert f"up to {rows} of them" in release.guarantee.statement
    assert list(verify(release.opened, test=True))


def right_by_majority(table: pa.Table, gamma: Fraction, rng: np.random.Generator, rows: int) -> float:
    """Share of the people with `rows` rows or more whose most frequent published value is theirs."""
    q = 1 / (len(RACES) - 1 + float(gamma))
    truth = np.array([RACES.index(v) for v in table["race"].to_pylist()])
    moved = rng.random(len(truth)) < 1 - float(gamma) * q
    shown = np.where(moved, (truth + rng.integers(1, len(RACES), len(truth))) % len(RACES), truth)
    _, who = np.unique(table["patient"].to_pylist(), return_inverse=True)
    seen = np.zeros((who.max() + 1, len(RACES)))
    np.add.at(seen, (who, shown), 1)
    true = np.zeros(who.max() + 1, dtype=int)
    true[who] = truth
    many = seen.sum(axis=1) >= rows
    return float((seen.argmax(axis=1) == true)[many].mean())


def test_why_rows_are_not_people() -> None:
    """rho2 = 1/2 for a row, yet with ten rows or more a reader who counts is right for most people.

    Held as a person, she does little better than by always naming the most frequent value (32 %).
    """
    table, rng = visits(people=1500), np.random.default_rng(1)
    assert right_by_majority(table, gamma_bound(RHO1, RHO2), rng, 10) > 0.85
    ten = kept_rows(LocalEngine().open(table), roles(max_rows_per_person=10), Secret.from_seed(1))[0]
    kept = pq.read_table(ten._copy.folder / "rows.parquet")  # type: ignore[attr-defined]
    held = right_by_majority(kept, rooted_gamma(gamma_bound(RHO1, RHO2), 10, 3), rng, 10)
    assert held < 0.5


@pytest.mark.parametrize("name", list(REGISTRY))
def test_who_takes_several_rows_of_a_person_does_not_give_her_away(name: str) -> None:
    """The parts (sub-tables, groups, classes) of a person's rows, published one by one, would tell her value."""
    who = sf.Roles(sensitive="disease", quasi=["age", "sex"], person="who", max_rows_per_person=3)
    table = plain_people().select(["disease", "age", "sex"])
    table = table.append_column("who", pa.array(np.arange(table.num_rows) // 3))
    method = REGISTRY[name]
    asked = partial(prepare, table, roles=who, method=method.spec(**method.example.spec), secret=Secret.from_seed(1))
    if not method.several_rows:
        with pytest.raises(PlanError, match="--max-rows-per-person 1"):
            asked()
        return
    made = asked()
    person = made.readers(made.claim())["readers"][5]
    assert person["rows"] == 3
    assert person["held"] is not False, person["why"]


def test_epsilons_add() -> None:
    method = sf.RandomizedResponse(keep={"race": "0.6"})
    one = sf.publish(visits(), roles=roles(max_rows_per_person=1), method=method, seed=1).guarantee
    four = sf.publish(visits(), roles=roles(max_rows_per_person=4), method=method, seed=1).guarantee
    assert four.parameters["epsilon_person"] == pytest.approx(4 * one.parameters["epsilon_total"], abs=2e-6)
    assert four.parameters["epsilon_person"] >= 4 * one.parameters["epsilon_total"]
    with pytest.raises(PlanError, match="--max-rows-per-person 1"):
        sf.publish(visits(), roles=roles(max_rows_per_person=4), method=sf.RandomizedResponse(risk="1/2"))


def test_too_many_rows_leave_nothing() -> None:
    with pytest.raises(PlanError, match="--max-rows-per-person"):
        sf.publish(visits(), roles=roles(max_rows_per_person=500), method=UNIFORM)


@pytest.mark.parametrize("name", list(REGISTRY))
def test_every_method_holds_several_rows_or_refuses(name: str, tmp_path: Path) -> None:
    table = plain_people()
    table = table.append_column("who", pa.array([f"{MARK}-{i // 2}" for i in range(table.num_rows)]))
    pq.write_table(table, tmp_path / "people.parquet")
    pq.write_table(table.slice(0, table.num_rows // 2), tmp_path / "kept.parquet")
    named = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop", "--person", "who", "--method", name)
    publish = ("publish", tmp_path / "people.parquet")
    two = sfumato(*publish, tmp_path / "two", *named, *METHODS[name], "--max-rows-per-person", 2)
    one = sfumato(*publish, tmp_path / "one", *named, *METHODS[name], "--max-rows-per-person", 1)
    assert one.code == 0, one.text
    checked = sfumato("verify", tmp_path / "one", "--truth", tmp_path / "people.parquet")
    assert checked.code == 0, checked.text
    assert "rows were left out" in checked.out
    fewer = sfumato("verify", tmp_path / "one", "--truth", tmp_path / "kept.parquet")
    assert fewer.code == 4, "rows that the release says were left out are not in this table"
    if name in {"subset-response", "uniform", "distribution-draw"}:
        assert two.code == 0, two.text
        assert json.loads((tmp_path / "two" / "release.json").read_text())["people"]["rows_per_person"] == 2
    else:
        assert two.code == 3, two.text
        assert "--max-rows-per-person 1" in two.err
    assert MARK not in two.text + one.text


def test_a_release_that_claims_more_rows_than_it_holds_is_caught(tmp_path: Path) -> None:
    sf.publish(visits(), tmp_path / "out", roles=roles(max_rows_per_person=1), method=UNIFORM, seed=1)
    file = tmp_path / "out" / "release.json"
    stated = json.loads(file.read_text())
    stated["people"]["rows_per_person"] = 2
    stated["guarantee"]["assumptions"][-1] = stated["guarantee"]["assumptions"][-1].replace(
        "each person has one row: checked; one random row", "each person has at most 2 rows: checked; a random 2 rows"
    )
    finish(tmp_path / "out", Manifest.model_validate(stated))  # with the README that belongs to it
    with pytest.raises(VerificationError, match="rows of a person"):
        list(verify(sf.open_release(tmp_path / "out").opened, test=True))


def test_choosing_sees_the_kept_rows() -> None:
    from sfumato.choosing.compare import compare

    table = visits()
    people = len(set(table["patient"].to_pylist()))
    found = compare(
        table, roles=roles(max_rows_per_person=1), bound="1/2", rho1="1/5", releases=1, methods=["uniform"], seed=1
    )
    assert found["rows"] == people
    with pytest.raises(PlanError, match="people have several rows"):
        compare(table, roles=roles(), bound="1/2", methods=["uniform"])


def test_a_seed_fixes_which_rows_a_comparison_keeps() -> None:
    """The true counts of the questions follow the kept rows: equal with one seed, others with another."""
    from sfumato.choosing.recommend import recommend

    rng = np.random.default_rng(3)
    table = pa.table(
        {"who": np.repeat(np.arange(300), 3), "town": rng.integers(0, 3, 900), "code": rng.integers(0, 8, 900)}
    )
    one = sf.Roles(sensitive="code", quasi=["town"], person="who", max_rows_per_person=1)
    found = [recommend(table, roles=one, bound="1/2", rho1="1/4", seed=seed)["considered"] for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
