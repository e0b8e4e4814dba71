"""What is loaded before anything is asked: `import sfumato` and help are quick because they load little."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

OPTIONAL = {"pandas", "polars", "pyspark", "starlette", "uvicorn", "jinja2", "altair", "formulaic", "matplotlib"}
ENGINES = {"numpy", "scipy", "pyarrow", "duckdb", "sqlglot"}


def loaded(text: str) -> set[str]:
    """The packages that are loaded after the lines of Python."""
    text = f"import json, sys\n{text}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    return {module.split(".")[0] for module in json.loads(done.stderr.splitlines()[-1])}


def test_importing_the_package_loads_no_library() -> None:
    assert loaded("import sfumato") & (OPTIONAL | ENGINES | {"typer"}) == set()


def test_public_names_load_no_optional_library() -> None:
    text = "import sfumato\nfor name in sfumato.__all__: getattr(sfumato, name)"
    seen = loaded(text)
    assert "numpy" in seen, "nothing was loaded"
    assert seen & OPTIONAL == set()


@pytest.mark.parametrize("arguments", [["--help"], ["query", "--help"], ["--version"]])
def test_help_loads_no_engine(arguments: list[str]) -> None:
    text = f"from sfumato.cli import main\ntry:\n    main({arguments!r})\nexcept SystemExit: pass"
    assert loaded(text) & (OPTIONAL | ENGINES) == set()


def test_help_of_publishing_loads_the_methods_and_no_engine() -> None:
    text = "from sfumato.cli import main\ntry:\n    main(['publish', '--help'])\nexcept SystemExit: pass"
    assert loaded(text) & (OPTIONAL | {"duckdb", "sqlglot"}) == set()
