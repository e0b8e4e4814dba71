"""The commands and statements of docs/howto/company.md, against a real PostgreSQL."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import local_postgres as postgres

from commands import sfumato

pytest.importorskip("adbc_driver_postgresql")
pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "company.md").read_text(encoding="utf-8")
TABLE = f"""
CREATE TABLE customers AS SELECT k AS id, 'c' || k || '@example.org' AS email, (ARRAY['at', 'ch', 'de'])[1 + k % 3]
AS country, 2015 + k % 11 AS since, (ARRAY['basic', 'gold', 'silver', 'trial'])[1 + (k * 7) % 4] AS plan
FROM generate_series(1, 2000) AS k;
CREATE ROLE owner LOGIN SUPERUSER PASSWORD '{postgres.PASSWORD}';
"""


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    why = postgres.missing()
    if why:
        pytest.skip(why)
    with postgres.server() as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", postgres.PASSWORD)
        yield started


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_command_and_statement_works(server: postgres.Server, tmp_path: Path) -> None:
    grants, counting = blocks("sql")
    server.run(TABLE)
    server.run(grants.replace("in ~/.pgpass", postgres.PASSWORD))
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) == 5
    for line in lines:
        here = re.sub(
            r"postgresql://(\w+)@db\.example\.org/shop\??", rf"postgresql://\1@/postgres?host={server.host}&", line
        )
        done = sfumato(*shlex.split(here.replace("& ", " "))[1:], cwd=tmp_path)
        assert done.code == 0, (line, done.text)
    counted = [line.split("|") for line in server.run(counting, user="owner").splitlines()]
    assert [country for country, _, _ in counted] == ["at", "ch", "de"]
    found = sfumato(
        "query", tmp_path / "out", "SELECT COUNT(*) AS n FROM release WHERE plan = 'gold'", "--format", "csv"
    )
    total = float(found.out.splitlines()[1].split(",")[0])
    assert sum(float(n) for _, n, _ in counted) == pytest.approx(total)
