"""`sfumato fit` and `sfumato test` on a seeded release of Adult; what they print is in cli/inference-<case>.txt."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import sfumato
from sfumato import datasets

GOLDEN = Path(__file__).parent / "cli"
GROUPS = {
    "occupation": {
        "Professional": ["Exec-managerial", "Prof-specialty"],
        "Office": ["Adm-clerical", "Sales", "Tech-support"],
        "Manual": ["Craft-repair", "Transport-moving", "Machine-op-inspct", "Handlers-cleaners", "Farming-fishing"],
        "Service": ["Other-service", "Protective-serv", "Priv-house-serv", "Armed-Forces"],
        "none": [None],
    }
}
FORMULA = "income ~ age + C(sex) + C(occupation)"
CASES = {
    "fit": (0, f'fit out "{FORMULA}" --family binomial --recode groups.json'),
    "fit-table": (0, f'fit out "{FORMULA}" --family binomial --recode groups.json --target table --level 0.9'),
    "fit-refused": (2, f'fit out "{FORMULA}" --family binomial'),
    "fit-column": (2, 'fit out "income ~ agee" --family binomial'),
    "fit-code": (2, "fit out \"income ~ __import__('os').getcwd()\" --family binomial"),
    "fit-recode-missing": (2, f'fit out "{FORMULA}" --recode nowhere.json'),
    "fit-recode-shape": (2, f'fit out "{FORMULA}" --recode list.json'),
    "fit-format": (2, f'fit out "{FORMULA}" --format xml'),
    "test": (0, "test out sex occupation --recode groups.json"),
    "test-where": (0, "test out sex income --where 'age < 30'"),
    "test-target": (2, "test out sex income --target rows"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release of Adult and files of levels."""
    folder = tmp_path_factory.mktemp("inference")
    pq.write_table(datasets.adult(), folder / "adult.parquet")
    (folder / "groups.json").write_text(json.dumps(GROUPS), encoding="utf-8")
    (folder / "list.json").write_text('["occupation"]', encoding="utf-8")
    options = "--sa occupation --rest quasi --null-as-value --method uniform --rho1 1/5 --rho2 1/2 --seed 1"
    done = sfumato(*shlex.split(f"publish adult.parquet out {options}"), cwd=folder)
    assert done.code == 0, done.text
    return folder


@pytest.mark.parametrize("case", CASES)
def test_command_prints_what_it_printed(case: str, here: Path, golden: Callable[[Path, str], None]) -> None:
    code, command = CASES[case]
    done = sfumato(*shlex.split(command), cwd=here)
    shown = f"$ sfumato {command}\n{done.out}--- stderr\n{done.err}--- exit code {done.code}\n"
    golden(GOLDEN / f"inference-{case}.txt", re.sub(r"\d+\.\d{6,}", lambda n: f"{float(n.group()):.6g}", shown))
    assert done.code == code


def test_documents_have_the_stated_shape(here: Path) -> None:
    """Other people's scripts rely on it."""
    fitted = f'fit out "{FORMULA}" --family binomial --recode groups.json'
    document = json.loads(sfumato(*shlex.split(f"{fitted} --format json"), cwd=here).out)
    assert {"family", "target", "nobs", "rows", "caveats"} <= set(document)
    assert {"term", "estimate", "se", "se_table", "low", "high", "p"} <= set(document["rows"][0])
    rows = list(csv.DictReader(io.StringIO(sfumato(*shlex.split(f"{fitted} --format csv"), cwd=here).out)))
    assert [r["term"] for r in rows] == [r["term"] for r in document["rows"]]
    assert float(rows[1]["estimate"]) == document["rows"][1]["estimate"]
    tested = json.loads(sfumato(*shlex.split("test out sex income --format json"), cwd=here).out)
    assert {"statistic", "df", "p", "cramers_v", "odds_ratio"} <= set(tested)


def test_the_page_has_the_plot_and_nothing_from_elsewhere(here: Path) -> None:
    pytest.importorskip("altair")
    done = sfumato("fit", "out", "hours_per_week ~ age + <b>", "--report", "page.html", cwd=here)
    assert done.code == 2
    assert not (here / "page.html").exists()
    done = sfumato("fit", "out", "hours_per_week ~ age + C(sex)", "--report", "page.html", cwd=here)
    assert done.code == 0
    text = (here / "page.html").read_text(encoding="utf-8")
    assert 'id="chart-coefficients"' in text
    assert "C(sex)[T.Male]" in text
    body = text[: text.index("<script>")]
    assert not re.search(r"""(src|href)\s*=""", body)
