"""`sfumato query RELEASE` without SQL: a small prompt with history and completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ..errors import SfumatoError
from ..query import Release
from ..release.verify import describe
from ..reports.documents import UNVERIFIED, render_release
from ..reports.text import bullets, table, visible
from .terminal import say

HISTORY = Path("~/.sfumato_history")
WORDS = ("SELECT", "COUNT(*)", "SUM(", "AVG(", "FROM release", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT")
HELP = """Type a question in SQL, over several lines if you like, and end it with a semicolon.
  .schema      columns, roles, types and the values of changed columns
  .guarantee   what the release promises, and what it does not
  .help        this text
  .quit        leave (or Ctrl-D)"""


def run(release: Release, ask: Callable[[str], str], say: Callable[[str], None], *, level: float) -> None:
    """Read questions with `ask(prompt)` until it raises EOFError; answer with `say`."""
    say(f"{release!r}; .help explains, .quit leaves")
    text = ""
    while True:
        try:
            line = ask("...> " if text else "sfumato> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            text = ""
            continue
        if not text and line.strip().startswith("."):
            if line.strip() in {".quit", ".exit"}:
                return
            say(command(release, line.strip()))
            continue
        text += ("\n" if text else "") + line
        if text.rstrip().endswith(";"):
            say(answer(release, text.rstrip().rstrip(";"), level=level))
            text = ""


def command(release: Release, name: str) -> str:
    """The text that a dot command prints."""
    if name == ".schema":
        return schema(release)
    if name == ".guarantee":
        found = describe(release.opened)["guarantee"]
        parts = [f"{visible(found['statement'])} ({found['trust']})", UNVERIFIED]
        parts.append(bullets("assumes", found["assumptions"]))
        return "\n".join([*parts, bullets("does not cover", found["not_covered"])])
    if name == ".inspect":
        return render_release(describe(release.opened))
    return HELP if name == ".help" else f"there is no {name}\n{HELP}"


def schema(release: Release) -> str:
    """Columns with their role, type and values."""
    rows = []
    for column in release.manifest.columns:
        values = "" if column.domain is None else ", ".join(map(str, column.domain[:8]))
        more = "" if column.domain is None or len(column.domain) <= 8 else f" ... ({len(column.domain)})"
        rows.append([column.name, column.role, column.type, values + more])
    return table(["column", "role", "type", "values"], rows)


def answer(release: Release, text: str, *, level: float) -> str:
    """The answer, or the refusal, as text."""
    if not text.strip():
        return ""
    try:
        return str(release.sql(text, level=level))
    except SfumatoError as error:
        return f"error: {error}"


def candidates(release: Release) -> list[str]:
    """What Tab offers: SQL words, columns, and values of the changed columns."""
    hidden = release.schema.hidden
    names = [c.name for c in release.manifest.columns if c.name not in hidden]
    values = [f"'{v}'" for c in release.manifest.columns for v in (c.domain or ()) if isinstance(v, str)]
    return [*WORDS, *names, *values]


def completer(words: Iterable[str]) -> Callable[[str, int], str | None]:
    """A readline completer over the words, whatever their case."""
    known = list(words)

    def complete(text: str, state: int) -> str | None:
        found = [w for w in known if w.lower().startswith(text.lower())]
        return found[state] if state < len(found) else None

    return complete


def terminal(release: Release, *, level: float) -> None:
    """The prompt on a terminal."""
    file = HISTORY.expanduser()
    with suppress(ImportError):
        import readline

        readline.set_completer(completer(candidates(release)))
        readline.set_completer_delims(" \t\n,=()<>")
        readline.parse_and_bind("tab: complete")
        with suppress(OSError):
            readline.read_history_file(file)
    try:
        run(release, input, say, level=level)
    finally:
        with suppress(ImportError, OSError):
            import readline

            readline.write_history_file(file)
