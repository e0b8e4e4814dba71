"""What every frozen release is asked: SQL by the names of its `Data`, and analyses. Refusals are answers too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import sfumato as sf
from frozen.releases import Data

# {s} is the sensitive column, {a} and {b} values of it, {k} a column of few values, {v} one of them, {x} of numbers.
QUESTIONS = (
    "SELECT COUNT(*) AS n FROM release",
    "SELECT COUNT(*) AS n FROM release WHERE {s} = {a}",
    "SELECT COUNT(*) AS n FROM release WHERE {s} IN ({a}, {b}) AND {k} = {v}",
    "SELECT COUNT(*) AS n FROM release WHERE NOT {s} = {a} AND {x} > {m}",
    "SELECT COUNT(*) AS n FROM release WHERE {s} = {a} OR {x} < {m}",
    "SELECT COUNT(*) AS n FROM release WHERE {s} > {a}",
    "SELECT COUNT(*) AS n, COUNT({x}) AS known FROM release WHERE {s} IS NULL OR {x} IS NULL",
    "SELECT {k}, COUNT(*) AS n, MIN({x}) AS least, MAX({x}) AS most FROM release GROUP BY {k}",
    "SELECT {k}, COUNT(*) AS n FROM release WHERE {s} = {a} GROUP BY {k} ORDER BY {k}",
    "SELECT {s}, COUNT(*) AS n FROM release GROUP BY {s}",
    "SELECT {s}, {k}, COUNT(*) AS n FROM release GROUP BY {s}, {k}",
    "SELECT {s}, COUNT(*) AS n FROM release GROUP BY {s} HAVING COUNT(*) > 100 ORDER BY n DESC LIMIT 3",
    "SELECT {k}, {s}, COUNT(*) AS n FROM release WHERE {s} IN ({a}, {b}) GROUP BY CUBE ({k}, {s})",
    "SELECT {k}, COUNT(*) AS n, AVG({x}) AS mean FROM release WHERE {s} <> {b} GROUP BY ROLLUP ({k})",
    "SELECT COUNT(*) FILTER (WHERE {s} = {a}) AS of_a, COUNT(*) AS n FROM release",
    "SELECT {k}, AVG(CASE WHEN {s} = {a} THEN 1 ELSE 0 END) AS share FROM release GROUP BY {k}",
    "SELECT 100.0 * COUNT(*) FILTER (WHERE {s} = {a}) / COUNT(*) AS share FROM release WHERE {k} = {v}",
    "SELECT COUNT(*) FILTER (WHERE {s} = {a}) - COUNT(*) FILTER (WHERE {s} = {b}) AS difference FROM release",
    "SELECT SUM({x}) AS total, AVG({x}) AS mean FROM release WHERE {s} = {a}",
    "SELECT SUM({x} * {x}) AS squares, SUM({x}) FILTER (WHERE {k} = {v}) AS part FROM release WHERE {s} = {b}",
    "SELECT {s}, AVG({x}) AS mean FROM release GROUP BY {s}",
    "SELECT ROUND(AVG({x}), 2) AS mean FROM release WHERE {s} = {a} AND {k} = {v}",
    "SELECT SUM({x}) FILTER (WHERE {s} = {a}) / SUM({x}) AS share FROM release",
    "SELECT MEDIAN({x}) AS middle, STDDEV({x}) AS spread FROM release WHERE {k} = {v}",
    "SELECT MEDIAN({x}) AS middle FROM release WHERE {s} = {a}",
    "SELECT SUM({s}) AS total, AVG({s}) AS mean FROM release WHERE {k} = {v}",
    "SELECT {k}, MEDIAN({s}) AS middle FROM release GROUP BY {k}",
    "SELECT SUM({s} * {x}) AS total FROM release",
    "SELECT CASE WHEN {s} IN ({a}, {b}) THEN 'one' ELSE 'other' END AS which, COUNT(*) AS n FROM release GROUP BY 1",
    "SELECT {x} // 40 AS step, COUNT(*) AS n FROM release WHERE {s} = {a} GROUP BY 1 ORDER BY 1",
    "SELECT kinds.kind, COUNT(*) AS n FROM release JOIN kinds ON release.{s} = kinds.value GROUP BY kinds.kind",
    "SELECT COUNT(*) AS n FROM release JOIN places ON release.{k} = places.place WHERE {s} = {a} AND places.far",
    "SELECT MAX(n) AS most FROM (SELECT {s}, COUNT(*) AS n FROM release GROUP BY {s})",
    "SELECT SUM(n) AS total FROM (SELECT {s}, COUNT(*) AS n FROM release GROUP BY {s})",
    "WITH t AS (SELECT {k}, COUNT(*) AS n FROM release WHERE {s} = {a} GROUP BY {k}) SELECT AVG(n) AS mean FROM t",
    "SELECT COUNT(DISTINCT {k}) AS different FROM release WHERE {x} > {m}",
    "SELECT COUNT(DISTINCT {s}) AS different FROM release",
    "SELECT COUNT(*) AS n FROM release WHERE {s} = {a} AND {x} > 100000",
    "SELECT COUNT(*) AS n FROM release WHERE {s} = 'no such value'",
    "SELECT * FROM release",
)

ESTIMATORS = ("plain", "paper", "corrected", "two-state")
FROM_THE_ENGINE = "cannot evaluate this question"  # what follows is the engine's own text


def filled(question: str, data: Data) -> str:
    """The question about a table."""
    names = {key: '"' + getattr(data, key).replace('"', '""') + '"' for key in "skx"}
    values = {key: _literal(getattr(data, key)) for key in "abvm"}
    return question.format(**names, **values)


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def lookups(data: Data) -> dict[str, pa.Table]:
    """Two small tables that questions may join."""
    return {
        "kinds": pa.table({"value": [data.a, data.b], "kind": ["first", "second"]}),
        "places": pa.table({"place": [data.v], "far": [True]}),
    }


def outcome(told: Callable[[], Any]) -> Any:
    """What a function returns, or the refusal that it raises."""
    try:
        return told()
    except sf.errors.SfumatoError as error:
        said = f"{type(error).__name__}: {error}"
        return said.split(FROM_THE_ENGINE, maxsplit=1)[0]


def answer(release: sf.Release, text: str, **options: Any) -> Any:
    """An answer or a refusal as JSON; rows without the names of the columns, which stand above them."""

    def told() -> dict[str, Any]:
        found = release.sql(text, **options).to_dict()
        rows = found.pop("rows")
        return {**found, "columns": list(rows[0]) if rows else [], "rows": [list(row.values()) for row in rows]}

    return outcome(told)


def answers(release: sf.Release, data: Data) -> dict[str, Any]:
    """Every question with its answer."""
    tables = lookups(data)
    found = {}
    for question in QUESTIONS:
        text = filled(question, data)
        joined = {name: rows for name, rows in tables.items() if f"JOIN {name}" in question}
        found[text] = answer(release, text, tables=joined or None)
    by_value = filled("SELECT {s}, COUNT(*) AS n FROM release GROUP BY {s}", data)
    found["simultaneous at 0.9"] = answer(release, by_value, level=0.9, simultaneous=True)
    for estimator in ESTIMATORS:
        found[f"estimator {estimator}"] = answer(release, by_value, estimator=estimator)
    by_key = filled("SELECT {k}, COUNT(*) AS n FROM release WHERE {s} = {a} GROUP BY {k}", data)
    found["covariance"] = outcome(lambda: release.sql(by_key).covariance()[:6, :6])
    return found


def analyses(release: sf.Release, data: Data) -> dict[str, Any]:
    """Models, tests, quantiles, correlations, comparisons and smoothed tables of the release, as JSON."""
    s, k, x = (f"`{name}`" for name in (data.s, data.k, data.x))
    is_a, complete = filled("{s} = {a}", data), data.complete
    equals_a = f"{{{s} == {data.a!r}}}"

    def fit(formula: str, **options: Any) -> Callable[[], Any]:
        return lambda: release.fit(formula, **{"where": complete} | options).to_dict()

    asked: dict[str, Callable[[], Any]] = {
        "fit x by all s": fit(f"{x} ~ C({s}) + C({k})"),
        "fit x by s = a": fit(f"{x} ~ {equals_a} * C({k})"),
        "fit x where s = a": fit(f"{x} ~ C({k})", where=f"{is_a} AND {complete}" if complete else is_a),
        "fit s by k": fit(f"{s} ~ C({k})", target="table"),
        "fit s = a by k": fit(f"{equals_a} ~ C({k})", family="binomial", level=0.9),
        "fit merged s by k": fit(f"{s} ~ C({k})", family="multinomial", recode={data.s: {"one": [data.a, data.b]}}),
        "test s and k": lambda: release.test(data.s, data.k).to_dict(),
        "test s = a and k": lambda: release.test(data.s, data.k, recode={data.s: {"one": [data.a]}}).to_dict(),
        "quantiles of x": lambda: release.quantile(data.x, [0.25, 0.5], by=data.k, where=is_a).to_dict(),
        "quantiles of s": lambda: release.quantile(data.s, [0.5, 0.9]).to_dict(),
        "correlation": lambda: release.correlation(data.s, data.x, where=complete).to_dict(),
        "shares compared": lambda: release.compare(by=data.k, share=is_a).to_dict(),
        "means compared": lambda: release.compare(by=data.s, mean=data.x, where=complete, target="table").to_dict(),
        "smoothed": lambda: release.table([data.s, data.k], nonnegative="simplex").to_pylist(),
        "association": lambda: dataclasses.asdict(release.association(data.s, data.k)),
    }
    return {name: outcome(told) for name, told in asked.items()}
