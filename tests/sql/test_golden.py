"""SQL cases kept as text: title, method, query, and what must come of it. `make golden` rewrites the last part.

Answers are compared by shape (columns, kind, number of rows), questions by their plan, refusals word for word.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.methods.registry import build

FILE = Path(__file__).parents[1] / "golden" / "sql_cases.txt"
OPTIONS = {
    "subset-response": {"rho1": "1/5", "rho2": "1/2"},
    "uniform": {"rho1": "1/5", "rho2": "1/2"},
    "small-domain": {"rho1": "1/5", "rho2": "1/2", "report": "value"},
    "splu": {"gamma": "4"},
    "anatomy": {"l": "4"},
    "randomized-response": {"keep": "occupation=0.6,sex=0.9"},
    "distribution-draw": {},
}
CASE = re.compile(
    r"^-- (?P<title>[^\n]+) \[(?P<method>[a-z-]+)\]\n(?P<sql>.*?);\n(?P<expected>(?:-->[^\n]*\n)*)", re.M | re.S
)


def cases() -> list[dict[str, str]]:
    return [m.groupdict() for m in CASE.finditer(FILE.read_text(encoding="utf-8"))]


@functools.cache
def release(method: str) -> sf.Release:
    spec = build(method, OPTIONS[method])
    roles = sf.Roles(sensitive="occupation", rest="quasi")
    return sf.publish(sf.datasets.adult(), roles=roles, method=spec, null_as_value=True, seed=7)


def outcome(method: str, sql: str) -> str:
    """What the question comes to, as text."""
    try:
        explained = release(method).explain(sql).splitlines()
        answer = release(method).sql(sql)
    except SfumatoError as error:
        return f"{type(error).__name__}: {error}"
    plan = [line for line in explained if not line.startswith(("method:", "weights"))]
    shape = f"{answer.kind}: {answer.table.num_rows} rows of {', '.join(answer.table.column_names)}"
    return "\n".join([*plan, shape])


def test_there_are_enough_cases() -> None:
    found = cases()
    assert len(found) >= 150
    assert len({(c["title"], c["method"]) for c in found}) == len(found), "titles are unique"
    leftover = CASE.sub("", FILE.read_text(encoding="utf-8")).strip()
    assert not leftover, f"not a case: {leftover[:200]}"


@pytest.mark.parametrize("method", sorted(OPTIONS))
def test_cases(method: str, update_golden: bool) -> None:
    text = FILE.read_text(encoding="utf-8")

    def fill(match: re.Match[str]) -> str:
        case = match.groupdict()
        if case["method"] != method:
            return match.group(0)
        lines = outcome(method, case["sql"]).splitlines()
        expected = "".join(f"--> {line}".rstrip() + "\n" for line in lines)
        return f"-- {case['title']} [{method}]\n{case['sql']};\n{expected}"

    found = CASE.sub(fill, text)
    if update_golden:
        FILE.write_text(found, encoding="utf-8")
    assert found == FILE.read_text(encoding="utf-8")
