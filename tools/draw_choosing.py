"""Draws docs/figures/choosing.svg: a few questions, each of which ends at a command or leads to the next.

    python -m tools.draw_choosing

The commands' parameters are those of the methods' own examples. tests/docs/test_choosing.py compares, and plans each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from sfumato.methods.registry import REGISTRY
from sfumato.model.names import option_name

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "choosing.svg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """Where a question may end: a method, and options besides those of its example."""

    method: str
    why: str
    more: tuple[str, ...] = ()

    def options(self) -> tuple[str, ...]:
        """What stands after `sfumato publish TABLE OUT` and the roles."""
        example = REGISTRY[self.method].example.options
        own = tuple(part for field, text in example.items() for part in (option_name(field), text))
        return (*(() if self.method == "subset-response" else ("--method", self.method)), *own, *self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Two lines; yes ends at the leaf, no leads on."""

    lines: tuple[str, str]
    yes: Leaf


QUESTIONS = (
    Question(
        lines=("Must other columns be randomised too,", "because people could be found by them?"),
        yes=Leaf(
            method="randomized-response", why="each column by itself; epsilon is proved", more=("--scope", "both")
        ),
    ),
    Question(
        lines=("Does the reader know people's other columns,", "and must the bound hold for her too?"),
        yes=Leaf(method="l-diversity", why="other columns in classes; the reader linking is held"),
    ),
    Question(
        lines=("Must it hold whatever the reader believed", "before, and knows about other people?"),
        yes=Leaf(
            method="subset-response", why="the default; least error of all that do (--workload: for your questions)"
        ),
    ),
    Question(
        lines=("Must it be proved, for a reader who knows", "how frequent the values are?"),
        yes=Leaf(method="small-domain", why="sub-tables of few values: less error"),
    ),
    Question(
        lines=("Shall small totals be hidden,", "and large ones kept?"),
        yes=Leaf(method="splu", why="decoys; conditional"),
    ),
    Question(
        lines=("Must the truth lie inside the answer,", "always, instead of in 95 of 100?"),
        yes=Leaf(method="target-distribution", why="certain bounds, wide; conditional"),
    ),
)
LAST = Leaf(method="anatomy", why="true values in small groups: most accurate, first to break; conditional")
LEAVES = (*(q.yes for q in QUESTIONS), LAST)
WIDTH, ASKED, ROW, GAP, MARGIN, ARROW = 1050, 330, 52, 34, 16, 56
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#555555"/></marker></defs>'
)
FILLS = {"proved": "#dcebf5", "conditional": "#f6ead6"}


def drawing() -> str:
    """The figure: questions down the left, commands on the right."""
    height = 2 * MARGIN + (len(QUESTIONS) + 1) * ROW + len(QUESTIONS) * GAP + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img">',
        "<title>Which method: six questions that end at a command</title>",
        TIP,
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    middle, right = MARGIN + ASKED / 2, MARGIN + ASKED + ARROW
    for k, question in enumerate(QUESTIONS):
        y = MARGIN + k * (ROW + GAP)
        parts += [
            f'<rect x="{MARGIN}" y="{y}" width="{ASKED}" height="{ROW}" rx="26" fill="#f3f1ec" stroke="#555555"/>',
            _text(middle, y + 22, question.lines[0], 14),
            _text(middle, y + 40, question.lines[1], 14),
            _arrow(MARGIN + ASKED, y + ROW / 2, right - 2, y + ROW / 2),
            _text(MARGIN + ASKED + ARROW / 2, y + ROW / 2 - 6, "yes", 13),
            _arrow(middle, y + ROW, middle, y + ROW + GAP - 2),
            _text(middle + 14, y + ROW + GAP / 2 + 4, "no", 13),
            *_leaf(question.yes, right, y, WIDTH - MARGIN - right),
        ]
    y = MARGIN + len(QUESTIONS) * (ROW + GAP)
    parts += [
        *_leaf(LAST, MARGIN, y, WIDTH - 2 * MARGIN),
        _text(
            WIDTH / 2,
            height - MARGIN + 4,
            "Blue: proved. Sand: holds under assumptions that a real reader may break.",
            13,
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _leaf(leaf: Leaf, x: float, y: float, wide: float) -> list[str]:
    command = "sfumato publish TABLE OUT " + " ".join(leaf.options())
    fill = FILLS[REGISTRY[leaf.method].trust]
    return [
        f'<rect x="{x:g}" y="{y}" width="{wide:g}" height="{ROW}" rx="5" fill="{fill}" stroke="#555555"/>',
        _text(x + 12, y + 22, command, 12, anchor="start", more=' font-family="monospace"'),
        _text(x + 12, y + 41, leaf.why, 13, anchor="start"),
    ]


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<path d="M{x:g} {y:g} L{to_x:g} {to_y:g}" stroke="#555555" fill="none" marker-end="url(#tip)"/>'


def _text(x: float, y: float, text: str, size: int, *, anchor: str = "middle", more: str = "") -> str:
    place = f'x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text {place} fill="#222222"{more}>{escape(text)}</text>'


if __name__ == "__main__":
    FIGURE.write_text(drawing(), encoding="utf-8")
