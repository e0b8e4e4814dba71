"""What commands load late is, to whoever uses it, what it always was."""

from __future__ import annotations

import subprocess
import sys

LATE = "import sys\nfrom sfumato.cli import late_modules\nlate_modules.load_late()\nlate_modules.load_late()\n"


def run(text: str) -> None:
    done = subprocess.run([sys.executable, "-c", LATE + text], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_packages_find_their_version_without_what_reads_mail() -> None:
    run("""
import duckdb, sqlglot.dialects.dialect
assert not {"email", "csv"} & set(sys.modules), "all of it was loaded"
from importlib.metadata import version
assert duckdb.__version__ == version("duckdb") and version("numpy").count(".") >= 2
assert "email" not in sys.modules
from importlib.metadata import PackageNotFoundError
import importlib.metadata
assert importlib.metadata is sys.modules["importlib.metadata"] and "email" in sys.modules
assert importlib.metadata.version("duckdb") == duckdb.__version__ == importlib.metadata.distribution("duckdb").version
try:
    importlib.metadata.version("no-such-package")
except PackageNotFoundError:
    pass
else:
    raise AssertionError
""")


def test_a_package_that_is_not_there_is_told_as_ever() -> None:
    run("""
from importlib.metadata import version, entry_points
try:
    version("no-such-package")
except ImportError as told:
    assert type(told).__name__ == "PackageNotFoundError"
else:
    raise AssertionError
assert {point.name for point in entry_points(group="console_scripts")}
""")


def test_masked_arrays_are_known_as_soon_as_there_can_be_any() -> None:
    run("""
from sfumato.cli.late_pandas import without_pandas
without_pandas()
import numpy as np, pyarrow as pa
pa.array(np.zeros(2))
assert np.unique(np.array([2, 1, 2])).tolist() == [1, 2] and not np.ma.is_masked(np.zeros(1))
assert not isinstance(np.zeros(1), np.ma.MaskedArray) and "numpy.ma" not in sys.modules, "it was loaded"
masked = np.ma.masked_array([1, 2], mask=[True, False])
assert np.ma is sys.modules["numpy.ma"] and isinstance(masked, np.ma.MaskedArray) and np.ma.is_masked(masked)
assert pa.array(masked).to_pylist() == [None, 2]
""")
    run("""
from sfumato.cli.late_pandas import without_pandas
without_pandas()
import numpy as np, pyarrow as pa
import numpy.ma as ma
assert np.ma is ma and pa.array(ma.masked_array([1, 2], mask=[True, False])).to_pylist() == [None, 2]
""")


def test_expressions_of_the_dialect_are_parsed_when_it_writes_them() -> None:
    text = """
from sfumato import lazily
if sys.argv[1:] == ["late"]:
    lazily.one_command()
lazily.sqlglot.parse
import sqlglot
from sqlglot.generators.duckdb import DuckDBGenerator
kinds = {type(v).__name__ for k, v in vars(DuckDBGenerator).items() if k.endswith("_TEMPLATE")}
print("_Template" in kinds)
for text in ("SELECT RANDSTR(5, 1)", "SELECT ZIPF(1, 2, 3)", "SELECT ARRAY_EXCEPT(a, b)", "SELECT a IN (1, 2), SEQ4()"):
    print(sqlglot.parse_one(text, dialect="snowflake").sql(dialect="duckdb"))
"""
    said = []
    for when in ("late", ""):
        command = [sys.executable, "-c", LATE + text, *when.split()]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.splitlines())
    assert said[0][0] == "True"
    assert said[1][0] == "False"
    assert said[0][1:] == said[1][1:]
