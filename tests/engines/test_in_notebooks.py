"""A kernel of notebooks without ipywidgets: DuckDB has no progress bar there, and refuses to turn it off."""

from __future__ import annotations

import subprocess
import sys

KERNEL = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
sys.modules["ipywidgets"] = None
import duckdb
try:
    duckdb.connect().execute("SET enable_progress_bar=false")
    sys.exit("DuckDB does not take this for a kernel")
except duckdb.InvalidInputException:
    pass
from sfumato.engines.duckdb.connection import connect
assert connect().execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]
"""


def test_a_connection_is_made_in_a_kernel_without_widgets() -> None:
    done = subprocess.run([sys.executable, "-c", KERNEL], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
