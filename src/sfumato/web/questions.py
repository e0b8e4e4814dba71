"""What is asked of a release: SQL, a model or a test; read from an address, written as one or as a command."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from ..analysis.design import FAMILIES
from .refusals import Refused, wrong

FORMS = {"query": ("json", "csv", "parquet"), "fit": ("json", "csv"), "test": ("json",)}  # kind -> files of the answer
TEXTS = {"query": ("sql",), "explain": ("sql",), "fit": ("formula", "family", "where"), "test": ("x", "y", "where")}
ON = {"1", "true", "on", "yes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a release: `sql`, a model (`formula`) or a test (`x` and `y`)."""

    release: str
    kind: str  # query, fit, test, explain or vocabulary
    form: str = "json"  # of the answer: one of FORMS, or "page"
    sql: str = ""
    formula: str = ""
    family: str = FAMILIES[0]
    x: str = ""
    y: str = ""
    where: str = ""
    level: float = 0.95
    simultaneous: bool | None = None  # None: where estimates choose the rows

    @property
    def typed(self) -> str:
        """What was typed."""
        return self.sql or self.formula or f"{self.x}, {self.y}"

    def options(self) -> dict[str, Any]:
        """What differs from the defaults, but for what the answer is about."""
        usual = Question(release="", kind="")
        names = ("family", "where", "level", "simultaneous")
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(usual, name)}

    def fields(self) -> dict[str, str]:
        """The question as fields of an address."""
        about = {name: getattr(self, name) for name in ("sql", "formula", "x", "y") if getattr(self, name)}
        return about | {name: str(int(v) if isinstance(v, bool) else v) for name, v in self.options().items()}

    def links(self, digest: str) -> dict[str, str]:
        """Addresses of the answer: the page, and the files; they name the release's contents."""
        place, fields = f"/{quote(self.release)}", self.fields() | {"digest": digest[:16]}
        files = {form: f"{place}/{self.kind}?{urlencode(fields | {'format': form})}" for form in FORMS[self.kind]}
        return {"page": f"{place}/ask?{urlencode(fields)}#answer", **files}

    def lines(self) -> dict[str, str]:
        """The same question on a command line and in Python."""
        words = [self.x, self.y] if self.kind == "test" else [self.formula or _in_one_line(self.sql)]
        options = "".join(
            f" --{'' if value else 'no-'}{name}" if isinstance(value, bool) else f" --{name}={shlex.quote(str(value))}"
            for name, value in self.options().items()
        )
        # what follows -- is no option
        ended = ["--"] if any(word.startswith("-") for word in (self.release, *words)) else []
        shell = " ".join(shlex.quote(word) for word in (*ended, self.release, *words))
        given = [*map(repr, words), *(f"{name}={value!r}" for name, value in self.options().items())]
        function = "sql" if self.kind == "query" else self.kind
        return {
            "shell": f"sfumato {self.kind}{options} {shell}",
            "python": f"import sfumato\n\nrelease = sfumato.open_release({self.release!r})\n"
            f"print(release.{function}({', '.join(given)}))",
        }


def read_question(kind: str, given: Mapping[str, Any], release: str, form: str) -> Question:
    """The question in a query string or a body; Refused where it is incomplete."""
    texts = {name: given.get(name, "") for name in TEXTS[kind]}
    for name, text in texts.items():
        if not _is_text(text):
            raise Refused(wrong("the question is not text", field=name))
    texts |= {name: texts[name].strip() for name in ("formula", "family", "where") if name in texts}
    if "sql" in texts and not texts["sql"].strip():
        raise Refused(wrong("no question was asked", field="sql", hint="Give it as sql=SELECT ... FROM release ..."))
    if not all(texts[name] for name in ("formula", "x", "y") if name in texts):
        raise Refused(wrong("a fit needs a formula, a test two columns", field="formula"))
    if not texts.get("family", FAMILIES[0]):
        del texts["family"]
    wanted = str(given.get("simultaneous", "")).lower() if kind == "query" else ""
    simultaneous = wanted in ON if wanted else None
    level = _level(given.get("level", 0.95))
    return Question(release=release, kind=kind, form=form, level=level, simultaneous=simultaneous, **texts)


def _level(given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number < 1:
        raise Refused(wrong("level must lie between 0 and 1", field="level"))
    return number


def _is_text(text: Any) -> bool:
    """Whether it is text; JSON can spell halves of characters, which are not."""
    return isinstance(text, str) and not any("\ud800" <= character <= "\udfff" for character in text)


def _in_one_line(sql: str) -> str:
    """The SQL in one line, where no text, name or comment in it may hold a line break."""
    return sql.strip() if "'" in sql or '"' in sql or "--" in sql else " ".join(sql.split())
