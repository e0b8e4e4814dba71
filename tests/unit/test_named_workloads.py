"""What a refused workload names instead is accepted there, by every method that has workloads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import SpecError
from sfumato.methods.registry import REGISTRY

QUESTION = "SELECT COUNT(*) FROM release WHERE job IN ('a', 'b')"
RHOS = {"rho1": "1/4", "rho2": "1/2"}
WITH_WORKLOADS = [name for name in REGISTRY if "workload" in {f.name for f in fields(REGISTRY[name].spec)}]


def people() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({"town": rng.integers(0, 5, 4_000), "job": rng.choice(list("abcdef"), 4_000).astype(object)})


def published(name: str, workload: str) -> sf.Release:
    spec = REGISTRY[name].spec(**RHOS, workload=workload)
    return sf.publish(people(), roles=sf.Roles(sensitive="job", quasi="town"), method=spec, seed=1)


def test_some_methods_have_workloads() -> None:
    assert len(WITH_WORKLOADS) > 1


@pytest.mark.parametrize("name", WITH_WORKLOADS)
@pytest.mark.parametrize("workload", ["prefixes", "ranges", "sum"])
def test_texts_have_no_ranges(name: str, workload: str) -> None:
    with pytest.raises(SpecError, match="its workloads are histogram and questions in SQL"):
        published(name, workload)


@pytest.mark.parametrize("name", WITH_WORKLOADS)
@pytest.mark.parametrize("workload", ["histogram", QUESTION])
def test_what_is_named_instead_is_taken(name: str, workload: str) -> None:
    assert published(name, workload).sql("SELECT COUNT(*) AS n FROM release").table["n"].to_pylist() == [4_000]


@pytest.mark.parametrize("name", WITH_WORKLOADS)
def test_on_the_command_line_a_file_of_questions_is_taken(name: str, tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "people.parquet")
    (tmp_path / "questions.sql").write_text(f"{QUESTION};\n")
    arguments = ["people.parquet", "out", "--sa", "job", "--qi", "town", "--method", name, "--rho1", "1/4"]
    arguments += ["--rho2", "1/2", "--workload", "questions.sql"]
    done = subprocess.run([sys.executable, "-m", "sfumato", "publish", *arguments], cwd=tmp_path, check=False)
    assert done.returncode == 0
