"""The table of docs/sql.md that says which method answers what, made by asking."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
BLOCK = re.compile(r"(?<=<!-- support -->\n).*?(?=<!-- /support -->)", re.DOTALL)
OPTIONS = {
    "subset-response": {"rho1": "1/5", "rho2": "1/2"},
    "uniform": {"rho1": "1/5", "rho2": "1/2"},
    "small-domain": {"rho1": "1/5", "rho2": "1/2", "min_size": "300"},
    "splu": {"gamma": "3"},
    "randomized-response": {"keep": "pay=0.7"},
    "target-distribution": {"fakes": "0"},
    "anatomy": {"l": "3"},
    "l-diversity": {"l": "4"},
    "distribution-draw": {},
}
QUESTIONS = {
    "COUNT, no sensitive condition": "SELECT COUNT(*) AS n FROM release WHERE age < 40",
    "COUNT, sensitive condition": "SELECT COUNT(*) AS n FROM release WHERE pay >= 50 AND age < 40",
    "COUNT, mixed OR and NOT": "SELECT COUNT(*) AS n FROM release WHERE NOT (pay = 20 OR age > 40)",
    "GROUP BY sensitive column": "SELECT pay, COUNT(*) AS n FROM release GROUP BY pay",
    "CUBE with sensitive condition": (
        "SELECT sex, age // 20, COUNT(*) AS n FROM release WHERE pay = 30 GROUP BY CUBE (sex, age // 20)"
    ),
    "SUM of an untouched column": "SELECT SUM(visits) AS n FROM release WHERE pay >= 50",
    "AVG of an untouched column": "SELECT AVG(visits) AS n FROM release WHERE pay >= 30",
    "SUM of the sensitive column": "SELECT SUM(pay) AS n FROM release WHERE age < 40",
    "AVG of the sensitive column": "SELECT AVG(pay) AS n FROM release WHERE age < 40",
    "share of sensitive values": "SELECT AVG(CASE WHEN pay >= 50 THEN 1 ELSE 0 END) AS n FROM release WHERE age < 40",
    "MIN, MAX of an untouched column": "SELECT MIN(visits) AS n FROM release",
    "MIN, MAX of the sensitive column": "SELECT MAX(pay) AS n FROM release WHERE age < 40",
    "quantile of the sensitive column": "SELECT MEDIAN(pay) AS n FROM release",
    "condition on a quasi-identifier": "SELECT COUNT(*) AS n FROM release WHERE age BETWEEN 30 AND 39",
}


def table() -> pa.Table:
    rng = np.random.default_rng(3)
    pay = rng.permutation(np.repeat([20, 30, 40, 50, 60, 70], [500, 450, 420, 380, 350, 300]))
    n = len(pay)
    return pa.table(
        {
            "age": rng.integers(20, 60, n),
            "sex": np.where(rng.random(n) < 0.5, "f", "m"),
            "visits": rng.integers(0, 9, n),
            "pay": pay,
        }
    )


def how(release: sf.Release, sql: str) -> str:
    """In a word or two, how the question is answered."""
    try:
        answer = release.sql(sql)
    except QueryError:
        return "no"
    if answer.kind != "confidence":
        return answer.kind
    row = answer.rows()[0]
    if row["n"] is None:
        return "no"
    if row["n_se"] is None:  # a quantile has an interval and no standard error
        return "interval" if any("QUANTILE_DISC" in caveat for caveat in answer.caveats) else "estimate"
    return "interval, bounds" if row.get("n_min") is not None else "interval"


def test_table_of_the_page(update_golden: bool) -> None:
    assert set(OPTIONS) == set(REGISTRY)
    roles = sf.Roles(sensitive="pay", quasi=["age", "sex"], insensitive=["visits"])
    releases = {m: sf.publish(table(), roles=roles, method=build(m, OPTIONS[m]), seed=5) for m in REGISTRY}
    lines = ["| asked | " + " | ".join(f"`{m}`" for m in releases) + " |", "|---" * (len(releases) + 1) + "|"]
    found = {title: {m: how(r, sql) for m, r in releases.items()} for title, sql in QUESTIONS.items()}
    lines += [f"| {title} | " + " | ".join(answers.values()) + " |" for title, answers in found.items()]
    for name, said in found["COUNT, sensitive condition"].items():  # what the tables of methods say in a word
        assert ("bounds" in said) is ("certain bounds" in REGISTRY[name].answers), name
    text = PAGE.read_text(encoding="utf-8")
    made = BLOCK.sub(lambda _: "\n".join(lines) + "\n", text)
    if update_golden:
        PAGE.write_text(made, encoding="utf-8")
    assert made == PAGE.read_text(encoding="utf-8"), "make golden writes it"
