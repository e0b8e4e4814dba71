"""What only the papers' experiments set is an argument in Python, not an option of the command line or a roles file."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from sfumato.errors import SpecError
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build, fields_of
from tables import people

RHOS = {"rho1": "1/5", "rho2": "1/3"}
PYTHON_ONLY = [
    ("small-domain", "objective", "bound"),
    ("target-distribution", "max_weight", "8"),
    ("target-distribution", "randomise_depth", "true"),
]
GONE = [
    ("small-domain", "delta", "0.01"),
    ("target-distribution", "choose_fakes", "paper"),
    ("target-distribution", "work_limit", "1000"),
    ("splu", "t_e", "1/100"),
    ("randomized-response", "cell_limit", "1000"),
    ("randomized-response", "l", "3"),
]


@pytest.mark.parametrize(("method", "field", "value"), PYTHON_ONLY + GONE)
def test_it_cannot_be_typed(method: str, field: str, value: str, tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    option = "--" + field.replace("_", "-")
    typed = (option,) if value == "true" else (option, value)
    done = sfumato("plan", tmp_path / "t.parquet", "--sa", "disease", "--rest", "drop", "--method", method, *typed)
    assert done.code == 2
    assert option in done.err
    assert len(done.err.splitlines()) == 1
    (tmp_path / "roles.toml").write_text(
        f'[roles]\nsensitive = "disease"\nrest = "drop"\n[method]\nname = "{method}"\n{field} = "{value}"\n'
    )
    done = sfumato("plan", tmp_path / "t.parquet", "--roles", tmp_path / "roles.toml")
    assert (done.code, f"{option} is not an option of {method}" in done.err) == (2, True)
    with pytest.raises(SpecError, match="is not an option"):
        build(method, {field: value})
    assert field not in {found.name for found in fields_of(REGISTRY[method].spec)}


def test_one_row_is_typed_as_a_number(tmp_path: Path) -> None:
    done = sfumato("plan", tmp_path / "t.parquet", "--sa", "disease", "--person", "id", "--one-row")
    assert done.code == 2
    assert "--one-row" in done.err


def test_python_still_sets_it() -> None:
    assert sf.SmallDomain(**RHOS, mode="paper", objective="bound").objective == "bound"
    assert sf.TargetDistribution(max_weight=8, randomise_depth=True).max_weight == 8
    for method, field, _ in GONE:
        with pytest.raises(TypeError):
            REGISTRY[method].spec(**{field: 3})
