"""The short form of `make audit`: a few steps of each campaign, and the judge that must not be blind."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import campaigns, fault_campaign, formula_campaign, fuzz_campaign

import sfumato as sf
from commands import SRC
from sfumato.errors import ReleaseError

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_fuzzers_find_no_uncaught_error() -> None:
    rng = random.Random(3)
    for found in (
        fuzz_campaign.sql(150, rng),
        fuzz_campaign.options(300, rng),
        fuzz_campaign.bundles(25, rng),
        fuzz_campaign.tables(15, rng),
        formula_campaign.formulas(1_000, rng),
    ):
        assert sum(found.values()) >= 25
        assert [line for line in found if line.startswith("!")] == []


def test_the_fuzzers_judge_sees() -> None:
    """An error that is not ours, and a message that quotes a cell, are faults."""
    from collections import Counter

    from sfumato.errors import DataError

    found: Counter[str] = Counter()
    fuzz_campaign.tried(found, "x", lambda: 1 / 0)

    def quote() -> None:
        raise DataError(f"a bad cell: {fuzz_campaign.MARK}7")

    fuzz_campaign.tried(found, "x", quote)
    assert sum(n for line, n in found.items() if line.startswith("!")) == 2


def test_a_column_whose_name_is_no_text(tmp_path: Path) -> None:
    sf.publish(
        fault_campaign.table(60),
        tmp_path / "out",
        roles=fault_campaign.ROLES,
        method=sf.UniformPerturbation(rho1="1/5", rho2="1/2"),
        seed=1,
    )
    file = tmp_path / "out" / "data.parquet"
    file.write_bytes(file.read_bytes().replace(b"sex", b"s\xcax"))
    with pytest.raises(ReleaseError, match="cannot be read"):
        sf.open_release(tmp_path / "out", check=False)


def test_the_listener_hears() -> None:
    """Code that runs while a formula is read, and what bears the canary's name while one is fitted."""
    listener = formula_campaign.Listener()
    listener.reading = True
    eval("1 + 1")
    listener.reading, listener.fitting = False, True
    with pytest.raises(ImportError):
        __import__(formula_campaign.NAME)
    listener.fitting = False
    assert listener.heard[0] == "exec"
    assert "import" in listener.heard[1:]


def test_figures_survive_the_page(tmp_path: Path) -> None:
    """A campaign that runs alone leaves the figures of the others alone; the short form is marked as a part."""
    file = tmp_path / "campaigns.md"
    kept = {"SQL": campaigns.Figure(tried=100_000, wrong=2, seconds=7, ran="whole")}
    file.write_text(campaigns.page(kept), encoding="utf-8")
    assert campaigns.recorded(file) == kept
    code = "import sys; from benchmarks.campaigns import main; sys.exit(main(sys.argv[1:]))"
    env = {**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{ROOT}", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code, "--short", "--only", "options", "--record", str(file)]
    subprocess.run(command, check=True, capture_output=True, env=env, cwd=ROOT)
    found = campaigns.recorded(file)
    assert (found["SQL"], found["options"].tried, found["options"].ran) == (kept["SQL"], 200, "in part")
    assert "100,200 fuzzed inputs; half releases, lost, leaked or uncaught: 2" in file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_kills_and_faults_leave_nothing_half(tmp_path: Path) -> None:
    """In a process of its own, whose children are forked before any engine runs: every 25th step."""
    code = (
        "from benchmarks.fault_campaign import kills_and_faults as run, short_disks, warm\n"
        "warm()\n"
        "found = run(25) + short_disks(4)\n"
        "print(sum(found.values())); print(*[k for k in found if k[0] == '!'], sep='\\n')"
    )
    env = {**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{ROOT}", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env, cwd=ROOT)
    count, *wrong = done.stdout.strip().splitlines()
    assert int(count) >= 10
    assert wrong == []
