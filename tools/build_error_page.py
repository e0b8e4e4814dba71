"""Writes docs/reference/errors.md: every error class with cause and remedy, from the docstrings, and a real message.

    python -m tools.build_error_page

tests/docs/test_errors.py holds the page to the code; `make golden` rewrites it.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

import sfumato as sf
from sfumato import errors

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"
HEAD = """# Errors

What sfumato refuses, it refuses with one of these classes: one line (a question has a caret under it), and an [exit
code](../cli.md). Messages quote parameters and published labels, never cells of the original table. Generated from
`sfumato.errors` by `tools/build_error_page.py`; the messages are those of real runs.

```text
"""
TABLE = pa.table({"age": [34, 58, 71, 45] * 50, "disease": ["flu", "gout", "cold", "acne"] * 50})
ROLES = sf.Roles(sensitive="disease", quasi=["age"])
METHOD = sf.UniformPerturbation(rho1="1/3", rho2="3/5")
PARTS = re.compile(r"(?P<what>.*?)\n\nCause: (?P<cause>.*?)\nRemedy: (?P<remedy>.*)", re.DOTALL)


def classes() -> list[type[errors.SfumatoError]]:
    """The classes in the order of the tree."""
    found = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.SfumatoError)]
    return [c for c in found if c.__module__ == errors.__name__]


def told(found: type[errors.SfumatoError]) -> dict[str, str]:
    """what, cause and remedy of a class; KeyError where its docstring lacks one."""
    parts = PARTS.fullmatch(inspect.getdoc(found) or "")
    if parts is None:
        raise KeyError(f"{found.__name__} says no cause or no remedy")
    return {name: " ".join(text.split()) for name, text in parts.groupdict().items()}


def examples(folder: Path) -> dict[type[errors.SfumatoError], tuple[str, Callable[[], object]]]:
    """Class -> a line that raises it, as shown, and as run."""
    release = sf.publish(TABLE, folder / "out", roles=ROLES, method=METHOD, seed=1)
    few = sf.Anatomy(l=5)
    return {
        errors.SpecError: (
            'sf.UniformPerturbation(rho1="1/2", rho2="1/3")',
            lambda: sf.publish(TABLE, roles=ROLES, method=sf.UniformPerturbation(rho1="1/2", rho2="1/3")),
        ),
        errors.DataError: ('sf.look("nowhere.parquet")', lambda: sf.look("nowhere.parquet")),
        errors.PlanError: (
            "sf.plan(table, roles=roles, method=sf.Anatomy(l=5))",
            lambda: sf.plan(TABLE, roles=ROLES, method=few),
        ),
        errors.QueryError: (
            "release.sql(\"SELECT COUNT(*) FROM release WHERE diseese = 'flu'\")",
            lambda: release.sql("SELECT COUNT(*) FROM release WHERE diseese = 'flu'"),
        ),
        errors.UnsupportedQuery: (
            'release.sql("SELECT age, disease FROM release")',
            lambda: release.sql("SELECT age, disease FROM release"),
        ),
        errors.ReleaseError: ('sf.open_release("nowhere")', lambda: sf.open_release(folder / "nowhere")),
        errors.VerificationError: ("sf.verify(release.path)", lambda: sf.verify(release.path)),
    }


def message(expected: type[errors.SfumatoError], call: Callable[[], object]) -> str:
    """What the call says when it is refused; AssertionError where it is not, or by another class."""
    try:
        call()
    except errors.SfumatoError as error:
        found = error
    else:
        raise AssertionError(f"{expected.__name__} was not raised")
    if type(found) is not expected:
        raise AssertionError(f"{type(found).__name__} was raised, not {expected.__name__}")
    return str(found)


def sections() -> Iterator[str]:
    """A heading for every class."""
    with tempfile.TemporaryDirectory() as name:
        shown = examples(Path(name))
        for found in classes():
            parts = told(found)
            yield f"## `{found.__name__}`\n\nExit code {found.exit_code}. {parts['what']}\n"
            remedy = parts["remedy"].replace("(docs/sql.md)", "([SQL](../sql.md))")
            yield f"**Cause**: {parts['cause']}\n\n**Remedy**: {remedy}\n"
            if found in shown:
                line, call = shown[found]
                yield f"```text\n>>> {line}\n{found.__name__}: {message(found, call)}\n```\n"


def page() -> str:
    """The whole page."""
    tree = (inspect.getdoc(errors) or "").split("\n\n")[1]
    return HEAD + inspect.cleandoc(tree) + "\n```\n\n" + "\n".join(sections())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
