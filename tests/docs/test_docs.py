"""Every `console` and `python` block of the README and of docs/ runs and prints what the page shows.

A `console` block holds `$ command` lines, each followed by its output; a line `...` stands for any number of lines. A
`python` block prints what the `text` block right after it shows. The blocks of a page run in order in one empty folder.
`make golden` rewrites the shown outputs. Blocks of other kinds (`sh`, `json`, `sql`) are not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import sfumato

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder in which `sfumato` and `python` are those of this environment."""
    bin_dir, here = tmp_path / "bin", tmp_path / "here"
    bin_dir.mkdir()
    here.mkdir()
    scripts = {"python": f'exec {sys.executable} "$@"'}
    scripts["sfumato"] = f'exec {sys.executable} -m sfumato "$@"'
    for name, line in scripts.items():
        (bin_dir / name).write_text(f"#!/bin/sh\n{line}\n")
        (bin_dir / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{bin_dir}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    monkeypatch.chdir(here)
    return here


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_print_what_the_page_shows(page: Path, workspace: Path, update_golden: bool) -> None:
    text = page.read_text(encoding="utf-8")
    rewritten = "".join(_run_page(text))
    if update_golden:
        page.write_text(rewritten, encoding="utf-8")
    else:
        assert rewritten == text, _first_difference(rewritten, text)


def _run_page(text: str) -> Iterator[str]:
    """The page with every shown output replaced by the real one."""
    position, namespace, printed = 0, {"__name__": "__page__"}, None
    for fence in FENCE.finditer(text):
        between = text[position : fence.start()]
        yield between
        kind, body = fence["kind"], fence["body"]
        if printed is not None and kind == "text" and between.strip() == "":
            body = printed
        printed = None
        if kind == "console":
            body = "".join(_run_console(body))
        elif kind == "python":
            printed = _run_python(body, namespace)
        yield f"```{kind}\n{body}```"
        position = fence.end()
    yield text[position:]


def _run_console(body: str) -> Iterator[str]:
    """Each command with what it prints; an output shown as `...` stays so when it still fits."""
    for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE):
        if not part.startswith("$ "):
            yield part
            continue
        lines = part.splitlines(keepends=True)
        count = 1
        while lines[count - 1].rstrip("\n").endswith("\\"):
            count += 1
        command, shown = "".join(lines[:count]), "".join(lines[count:])
        real = _tidy(_shell(command[2:]))
        trailing = re.search(r"\n*\Z", shown).group()[1:] if shown else ""
        yield command + (shown if _fits(real, shown) else real + trailing)


def _run_python(body: str, namespace: dict[str, object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(body, "<page>", "exec"), namespace)
    return _tidy(out.getvalue())


def _shell(command: str) -> str:
    """What a command prints, errors included. A plain `sfumato ...` runs in this process, to save its start-up time."""
    words = shlex.split(command)
    if words[:1] == ["sfumato"] and not set(words) & {"|", ">", "2>", "&&", ";"}:
        return sfumato(*words[1:]).text
    done = subprocess.run(["sh", "-c", command], check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def _tidy(output: str) -> str:
    """The output without spaces at line ends and empty lines at its end."""
    lines = [line.rstrip() + "\n" for line in output.rstrip().splitlines()]
    return "".join(lines)


def _fits(real: str, shown: str) -> bool:
    """Whether the output is the shown one, `...` lines taken as any lines."""
    if "...\n" in shown:  # what is left out may set the width of the columns
        shown, real = (re.sub(r"(?<=\S)  +", "  ", text) for text in (shown, real))
    lines = shown.rstrip("\n").splitlines()
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(line) + r"\n" for line in lines)
    return re.fullmatch(pattern, real) is not None


def _first_difference(real: str, shown: str) -> str:
    pairs = zip(real.splitlines(), shown.splitlines(), strict=False)
    for number, (now, then) in enumerate(pairs, start=1):
        if now != then:
            return f"line {number}: the page shows {then!r}, the command prints {now!r}"
    return "one of them is longer"


def test_the_runner_sees_a_wrong_output(workspace: Path) -> None:
    """The checker itself: a right page stays as it is, a wrong one does not, `...` stands for lines only."""
    right = "```console\n$ printf 'a\\nb\\n'\na\nb\n```\n```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n"
    assert "".join(_run_page(right)) == right
    assert "".join(_run_page(right.replace("\nb\n```", "\nc\n```"))) == right
    assert "".join(_run_page(right.replace("\n2\n", "\n3\n"))) == right
    loose = "```console\n$ printf 'a\\nb\\nc\\n'\na\n...\n```\n"
    assert "".join(_run_page(loose)) == loose
    assert "".join(_run_page(loose.replace("\na\n", "\nx\n"))) != loose.replace("\na\n", "\nx\n")
