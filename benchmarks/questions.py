"""Random questions over Adult that both DuckDB (on the original) and a release can be asked, by SQL feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

OCCUPATIONS = (
    "Sales",
    "Craft-repair",
    "Exec-managerial",
    "Prof-specialty",
    "Adm-clerical",
    "Other-service",
    "Tech-support",
)
SENSITIVE = (
    *(f"occupation = '{o}'" for o in OCCUPATIONS),
    "occupation IN ('Sales', 'Tech-support', 'Adm-clerical')",
    "occupation <> 'Sales'",
    "occupation LIKE '%service%'",
    "occupation IS NULL",
    "occupation IS NOT NULL",
    "occupation >= 'F'",
    "occupation BETWEEN 'E' AND 'P'",
    "NOT (occupation = 'Craft-repair')",
)
PLAIN = (
    "sex = 'Female'",
    "sex <> 'Female'",
    "age >= 40",
    "age BETWEEN 25 AND 44",
    "age // 10 = 3",
    "hours_per_week > 40",
    "education_num IN (9, 10, 13)",
    "workclass IS NULL",
    "workclass = 'Private'",
    "income = '>50K'",
    "native_country = 'United-States'",
    "lower(race) LIKE 'w%'",
    "marital_status LIKE 'Married%'",
    "relationship IN ('Husband', 'Wife')",
    "education_num >= 13 AND sex = 'Male'",
)
KEYS = ("sex", "income", "race", "age // 20", "(education_num >= 13)", "relationship", "workclass", "left(race, 1)")
UNIT_KEYS = ("occupation", "left(occupation, 1)", "(occupation = 'Sales')")
MEASURES = ("age", "hours_per_week", "capital_loss", "education_num - 9", "CASE WHEN sex = 'Male' THEN 1 ELSE 0 END")


@dataclass(frozen=True, slots=True)
class Question:
    """SQL, the features it uses, and which columns of the answer are keys and aggregates."""

    sql: str
    features: frozenset[str]
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]


def question(rng: np.random.Generator, *, sensitive: bool = True, sums: bool = True) -> Question:
    """A random question."""
    features = set()
    where = _where(rng, features, sensitive=sensitive)
    keys, group = _group(rng, features, sensitive=sensitive)
    count = int(rng.integers(1, 3))
    aggregates = [f"{_aggregate(rng, features, sensitive=sensitive, sums=sums)} AS n{j}" for j in range(count)]
    names = [f"k{i}" for i in range(len(keys))]
    select = ", ".join([*(f"{k} AS {n}" for k, n in zip(keys, names, strict=True)), *aggregates])
    sql = (
        f"SELECT {select} FROM release" + (f" WHERE {where}" if where else "") + (f" GROUP BY {group}" if group else "")
    )
    return Question(sql, frozenset(features), tuple(names), tuple(f"n{j}" for j in range(len(aggregates))))


def _pick(rng: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _where(rng: np.random.Generator, features: set[str], *, sensitive: bool) -> str:
    shape = rng.integers(6)
    s = _pick(rng, SENSITIVE) if sensitive else _pick(rng, PLAIN)
    a, b = _pick(rng, PLAIN), _pick(rng, PLAIN)
    if shape == 0:
        return ""
    if shape == 1:
        return s
    if shape in {2, 3}:
        return f"{a} AND {s}"
    features.add("OR/NOT")
    if shape == 4:
        return f"({a} OR {s}) AND {b}"
    return f"NOT ({a} AND {s})"


def _group(rng: np.random.Generator, features: set[str], *, sensitive: bool) -> tuple[list[str], str]:
    count = int(rng.integers(0, 3))
    keys = list(rng.choice(KEYS, size=count, replace=False))
    if sensitive and rng.random() < 0.3:
        keys.append(_pick(rng, UNIT_KEYS))
    keys = [str(k) for k in keys]
    if not keys:
        return [], ""
    features.add("GROUP BY")
    style = rng.integers(4)
    if len(keys) > 1 and style == 0:
        features.add("CUBE")
        return keys, f"CUBE ({', '.join(keys)})"
    if style == 1:
        features.add("CUBE")
        return keys, f"ROLLUP ({', '.join(keys)})"
    return keys, ", ".join(keys)


def _aggregate(rng: np.random.Generator, features: set[str], *, sensitive: bool, sums: bool) -> str:
    s = _pick(rng, SENSITIVE) if sensitive else _pick(rng, PLAIN)
    shape = int(rng.integers(7 if sums else 3))
    if shape == 0:
        return "COUNT(*)"
    if shape == 1:
        features.add("FILTER")
        return f"COUNT(*) FILTER (WHERE {s})"
    if shape == 2:
        return "COUNT(workclass)"
    if shape == 3:
        features.add("SUM")
        return f"SUM({_pick(rng, MEASURES)})"
    if shape == 4:
        features.add("AVG")
        return f"AVG({_pick(rng, MEASURES)})"
    if shape == 5:
        features.add("AVG")
        return f"AVG(CASE WHEN {s} THEN 1 ELSE 0 END)"
    features.add("SUM")
    return f"SUM(CASE WHEN {s} THEN {_pick(rng, MEASURES[:3])} END)"
