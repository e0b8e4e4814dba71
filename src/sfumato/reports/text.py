"""Plain text for terminals: the same on a screen, in a file and in the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..model.names import SMALLEST_P

# What a terminal obeys instead of showing, and what turns the direction of writing: names and values of a release may
# hold it, and a release may come from a stranger.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_NUMBER = re.compile(r"-?\d|-$")  # how a cell begins that stands to the right
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins with one of these


def visible(text: str, *, keep: str = "") -> str:
    """The text with every control character spelled out, but for those to keep."""
    return _UNSEEN.sub(lambda m: m[0] if m[0] in keep else _spelled(m[0]), text)


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def json_text(document: Any, **options: Any) -> str:
    """The document as JSON that a terminal shows as it is; the same document when read."""
    made = json.dumps(document, ensure_ascii=False, default=str, **options)
    return _UNSEEN.sub(lambda m: m[0] if m[0] == "\n" else f"\\u{ord(m[0]):04x}", made)


def csv_cell(value: Any) -> Any:
    """The cell as a spreadsheet may open it: text that it would run as a formula gets an apostrophe in front."""
    if not isinstance(value, str):
        return value
    text = f"'{value}" if value.startswith(_FORMULA) else value
    return visible(text, keep="\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, numbers to the right."""
    lines = [[visible(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    right = [bool(rows) and all(_NUMBER.match(row[i]) for row in rows) for i in range(len(header))]
    texts = []
    for line in lines:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


def bullets(title: str, items: Sequence[str]) -> str:
    """A title and its items, one a line."""
    return "\n".join([title, *(f"  - {visible(item)}" for item in items)])


def number(value: float | None) -> str:
    """A number as people read it; a dash where there is none."""
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"


def percent(share: float) -> str:
    """A level as people write it, with all the digits it was given: 95%, 99.9%."""
    return f"{100 * share:.10g}%"


def p_text(p: float | None) -> str:
    """A p-value as people read it; what is too small to be told apart is below the smallest one stated."""
    if p is None or p != p:  # noqa: PLR0124 - NaN
        return "-"
    return f"below {SMALLEST_P:g}" if 0 < p <= SMALLEST_P else f"{p:.3g}"


def p_said(p: float | None) -> str:
    """The same in a sentence: p = 0.03, p below 1e-300."""
    text = p_text(p)
    return f"p {text}" if text.startswith("below") else f"p = {text}"


# --- the readers of a plan, a release or a method, as one table: the same wherever it is shown ---


READER_NAMES = ("value", "set", "histogram", "linking", "corruption", "person")
SHOWN = 6


def render_readers(readers: Sequence[Mapping[str, Any]]) -> str:
    """Reader, whether the bound holds for her, the largest posterior she reaches, and why."""
    rows = [[name_of(r), verdict(r["held"]), reached(r["posterior"]), r["why"]] for r in readers]
    return table(["reader", "held", "posterior", "why"], rows)


def name_of(reader: Mapping[str, Any]) -> str:
    """The reader's name, with the rows of a person where there are several."""
    rows = reader.get("rows") or 1
    return reader["reader"] if rows == 1 else f"{reader['reader']}, {rows} rows"


def verdict(held: bool | None) -> str:
    """yes, no, or that it is not stated."""
    return "not stated" if held is None else "yes" if held else "no"


def reached(posterior: float | None) -> str:
    """A posterior as people read it; a dash where there is none."""
    return "-" if posterior is None else f"{posterior:.4f}".rstrip("0").rstrip(".")


def render_unprotected(found: Mapping[str, Any] | None) -> str | None:
    """Which values the guarantee does not cover and how many rows hold one; None where all are covered."""
    if not found or not found["values"]:
        return None
    names = [", ".join(map(str, v)) if isinstance(v, list) else str(v) for v in found["values"]]
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    reach = found.get("posterior")
    more = "" if reach is None else f"; reader histogram reaches {reached(reach)} there"
    return f"not covered, because too frequent: {shown} ({found['share']:.0%} of the rows{more})"


def render_cells(found: Mapping[str, Any] | None, rows: int) -> str | None:
    """What the quasi-identifiers give away before anything is published."""
    if found is None:
        return None
    lines = [
        f"{found['unique_rows']:,} of {rows:,} rows are unique on the quasi-identifiers",
        f"{found['rows_below_5']:,} rows are in cells of fewer than 5",
    ]
    if found["sharpened"] is not None:
        lines.append(
            f"{found['sharpened']:.1%} of the rows are in a cell that alone gives a value of at most "
            f"{found['rho1']} of the table more than that"
        )
    return bullets("quasi-identifiers, before anything is published", lines)
