"""Every mutant must turn `make test` red: `python -m tests.mutants [NAME ...]` prints how many do.

Each is applied in a copy of the package, and the tests that should see it are run on the copy: a few of `make test`,
for speed. The same tests are green on the package as it is, which is tried first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "sfumato"
FAILED = 1  # pytest's code for tests that failed


def file_of(mutant: Mutant) -> Path:
    """The only file of the package that holds the mutant's text, once."""
    found = [file for file in PACKAGE.rglob("*.py") if mutant.text in file.read_text(encoding="utf-8")]
    if len(found) != 1 or found[0].read_text(encoding="utf-8").count(mutant.text) != 1:
        raise SystemExit(f"{mutant.name}: {len(found)} files of the package hold, instead of one once: {mutant.text}")
    return found[0]


def run(tests: Iterable[str], package: Path) -> subprocess.CompletedProcess[str]:
    """The tests, with the package of this folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    env = {**os.environ, "PYTHONPATH": str(package.parent), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def caught(mutant: Mutant) -> bool:
    """Whether a test fails on a copy of the package that has the mutant."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / PACKAGE.name
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / file_of(mutant).relative_to(PACKAGE)
        file.write_text(file.read_text(encoding="utf-8").replace(mutant.text, mutant.instead), encoding="utf-8")
        done = run(mutant.tests, copy)
    if done.returncode not in {0, FAILED}:
        raise SystemExit(f"{mutant.name}: the tests did not run\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.returncode == FAILED


def main(names: list[str]) -> int:
    """Apply the mutants of these names, or all; 0 where every one is caught."""
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    for mutant in chosen:
        file_of(mutant)
    before = run(sorted({test for mutant in chosen for test in mutant.tests}), PACKAGE)
    if before.returncode:
        print(before.stdout[-3000:])
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as beside:
        found = list(beside.map(caught, chosen))
    for mutant, red in zip(chosen, found, strict=True):
        print(f"{'caught' if red else 'MISSED'}  {mutant.name}")
    print(f"{sum(found)} of {len(chosen)} caught")
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
