"""Writes the table of docs/install.md: what each extra brings, and how much it adds to the plain install.

    python tools/measure_extras.py

Names come from pyproject.toml. Sizes are those of the installed files here, without what the plain install has already;
tests/docs/test_install.py holds names exactly and sizes within a factor of two, as they differ between machines.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "install.md"
MARK = re.compile(r"(?<=<!-- extras -->\n)(.*?)(?=<!-- end of extras -->)", re.DOTALL)
FOR = {
    "report": "charts and HTML reports of `compare` and `plan`",
    "fit": "regressions: `sfumato fit`, `release.fit`",
    "web": "`sfumato serve` and `sfumato studio`",
    "sign": "signed releases: `publish --sign`, `verify --key`",
    "files": "Excel, SPSS, Stata and SAS, read and written",
    "databases": "PostgreSQL and SQLite by their addresses",
    "odbc": "any other database, through its ODBC driver",
    "spark": "`--engine spark`; it needs Java 17 as well",
    "docs": "this documentation: `make docs`",
    "test": "the tests: `make test`",
    "dev": "types, formatting, building: `make check`, `make package`",
}
MEGABYTE = 1e6


def extras() -> dict[str, list[str]]:
    """Extra -> its requirements, as pyproject.toml has them; "" is the plain install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def named(requirements: Iterable[str]) -> tuple[str, ...]:
    """The names of the distributions that requirements ask for."""
    return tuple(canonicalize_name(Requirement(text).name) for text in requirements)


def needed(requirements: Iterable[str]) -> set[str]:
    """All distributions that the requirements bring here; KeyError where one is not installed."""
    found: set[str] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        asked, extra = waiting.pop()
        if asked.marker and not asked.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(asked.name)
        new = name not in found
        found.add(name)
        if new or asked.extras:
            try:
                own = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                raise KeyError(f"{name} is not installed") from None
            waiting += [(Requirement(text), e) for text in own for e in ("", *asked.extras)]
    return found


def size(distributions: Iterable[str]) -> float:
    """Megabytes of the files of some distributions; caches of bytecode are not theirs."""
    total = 0
    for name in distributions:
        for file in metadata.files(name) or ():
            path = Path(str(file.locate()))
            total += path.stat().st_size if path.suffix != ".pyc" and path.is_file() else 0
    return total / MEGABYTE


def shown(megabytes: float) -> str:
    """Two figures are enough."""
    return f"{float(f'{megabytes:.2g}'):g} MB" if megabytes >= 1 else "under 1 MB"


def lines() -> Iterator[str]:
    """The rows of the table, the plain install first."""
    wanted = extras()
    base = needed(wanted[""])
    yield "| extra | for | brings | adds |"
    yield "|---|---|---|---|"
    for extra, requirements in wanted.items():
        own = needed(requirements) - (base if extra else set())
        name = f"`[{extra}]`" if extra else "none"
        what = FOR[extra] if extra else "publish, ask, verify, compare, recommend"
        brought = ", ".join(named(requirements))
        yield f"| {name} | {what} | {brought} | {shown(size(own))} |"


def rewritten() -> str:
    """The page with the table measured here."""
    return MARK.sub(lambda _: "\n" + "\n".join(lines()) + "\n\n", PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(rewritten(), encoding="utf-8")
