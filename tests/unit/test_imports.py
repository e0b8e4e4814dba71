"""What `import sfumato` may load, and which way imports point."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pandas", "polars", "pyspark", "altair", "vl_convert", "nicegui", "fastapi", "opendp", "jinja2", "numba")


@pytest.mark.parametrize("module", ["sfumato", "sfumato.datasets"])
def test_import_loads_no_optional_library(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert loaded == []
