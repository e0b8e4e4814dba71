"""Draws docs/figures/first-screen.svg: one question to a release beside the truth, and what a reader may believe.

    python -m tools.draw_first_screen

The bundled table, published by the default method with a seed; nothing in the picture is typed in. A test compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from xml.sax.saxutils import escape

import duckdb

import sfumato as sf
from sfumato.choosing import DEFAULT
from sfumato.methods import REGISTRY

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "first-screen.svg"
RHO1, RHO2 = Fraction(1, 5), Fraction(1, 2)
QUESTION = "SELECT occupation, COUNT(*) AS n FROM release WHERE sex = 'Female' GROUP BY occupation ORDER BY n DESC"
SHOWN = 8
WIDTH, HEIGHT, TOP, BOTTOM = 960, 384, 64, 330
LEFT, RIGHT = 150, 540  # of the counts
PANEL = (650, 930)  # of beliefs
INK, FADED, OURS, TRUE = "#222222", "#8a8a8a", "#1f5f7a", "#9a5b13"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number of the answer, and the truth."""

    label: str
    estimate: float
    low: float
    high: float
    truth: int


def answered() -> tuple[tuple[Row, ...], Fraction]:
    """The rows with the largest estimates, and by how much odds may move: from a release and from the table."""
    table = sf.datasets.adult()
    roles = sf.Roles(sensitive="occupation", quasi=["sex"], rest="drop")
    method = REGISTRY[DEFAULT].spec(rho1=RHO1, rho2=RHO2)
    release = sf.publish(table, roles=roles, method=method, null_as_value=True, seed=1)
    with duckdb.connect() as con:
        con.register("release", table.select(["sex", "occupation"]))
        truth = dict(con.sql(QUESTION).fetchall())
    rows = [
        Row(
            label=r["occupation"],
            estimate=r["n"],
            low=r["n_low"],
            high=r["n_high"],
            truth=truth.get(r["occupation"], 0),
        )
        for r in release.sql(QUESTION).rows()
        if r["occupation"] is not None
    ]
    return tuple(rows[:SHOWN]), Fraction(release.plan.gamma)


def after(prior: Fraction, gamma: Fraction) -> Fraction:
    """The largest posterior of a prior whose odds move by at most gamma (docs/explanation/uniform.md, section 4)."""
    return gamma * prior / (1 - prior + gamma * prior)


def counts(rows: tuple[Row, ...]) -> Iterator[str]:
    """The left half: intervals with their estimates, and the truth as a stroke."""
    most = max(max(r.high, r.truth) for r in rows)
    step = (BOTTOM - TOP) / len(rows)

    def x(number: float) -> float:
        return LEFT + (RIGHT - LEFT) * max(number, 0) / most

    yield _text(LEFT - 134, 26, "How many women work in each occupation?", 15, weight="bold")
    yield _text(
        LEFT - 134, 46, "asked of the release; the stroke is the truth, which the release does not hold", 12, FADED
    )
    for k, row in enumerate(rows):
        y = TOP + (k + 0.5) * step
        yield _text(LEFT - 10, y + 4, row.label, 12, anchor="end")
        yield _line(x(row.low), y, x(row.high), y, OURS, 5, opacity=0.35)
        yield f'<circle cx="{x(row.estimate):.1f}" cy="{y:.1f}" r="4.5" fill="{OURS}"/>'
        yield _line(x(row.truth), y - 9, x(row.truth), y + 9, TRUE, 2.5)
    for number in range(0, int(most), 2000):
        yield _line(x(number), BOTTOM, x(number), BOTTOM + 5, FADED, 1)
        yield _text(x(number), BOTTOM + 18, f"{number:,}", 11, FADED, anchor="middle")
    yield _line(LEFT, BOTTOM, RIGHT, BOTTOM, FADED, 1)
    y = HEIGHT - 10
    held = sum(r.low <= r.truth <= r.high for r in rows)
    yield _line(LEFT - 8, y - 4, LEFT + 20, y - 4, OURS, 5, opacity=0.35)
    yield f'<circle cx="{LEFT + 6}" cy="{y - 4}" r="4.5" fill="{OURS}"/>'
    yield _text(LEFT + 28, y, f"estimate and 95% interval ({held} of these {len(rows)} hold the truth)", 12)
    yield _line(LEFT + 330, y - 12, LEFT + 330, y + 3, TRUE, 2.5) + _text(LEFT + 340, y, "truth", 12)


def beliefs(gamma: Fraction) -> Iterator[str]:
    """The right half: how far a belief about one person may rise."""
    low, high = PANEL

    def x(prior: float) -> float:
        return low + (high - low) * prior

    def y(posterior: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * posterior

    yield _text(low - 34, 26, "What may a reader believe about one of them?", 15, weight="bold")
    yield _text(low - 34, 46, "a chance of an occupation, before and after the release", 12, FADED)
    steps = [Fraction(k, 50) for k in range(51)]
    curve = " ".join(f"{x(float(p)):.1f},{y(float(after(p, gamma))):.1f}" for p in steps)
    inside = [p for p in steps if p <= RHO1]
    area = [*((p, after(p, gamma)) for p in inside), *((p, p) for p in reversed(inside))]
    corners = " ".join(f"{x(float(a)):.1f},{y(float(b)):.1f}" for a, b in area)
    yield f'<polygon points="{corners}" fill="{OURS}" opacity="0.18"/>'
    yield f'<polyline points="{curve}" fill="none" stroke="{OURS}" stroke-width="2.5"/>'
    yield _line(x(0), y(0), x(1), y(1), FADED, 1.2, dash=True)
    reached = float(after(RHO1, gamma))
    yield _line(x(float(RHO1)), y(0), x(float(RHO1)), y(reached), INK, 1, dash=True)
    yield _line(x(0), y(reached), x(float(RHO1)), y(reached), INK, 1, dash=True)
    yield f'<circle cx="{x(float(RHO1)):.1f}" cy="{y(reached):.1f}" r="4.5" fill="{INK}"/>'
    yield _text(x(float(RHO1)) + 10, y(reached) + 18, f"{RHO1} before, at most {RHO2} after", 13, weight="bold")
    yield _text(x(0.66), y(0.62) + 14, "no release", 11, FADED)
    for mark in (Fraction(0), RHO1, Fraction(1, 2), Fraction(1)):
        yield _text(x(float(mark)), BOTTOM + 18, str(mark), 11, FADED, anchor="middle")
        yield _text(low - 8, y(float(mark)) + 4, str(mark), 11, FADED, anchor="end")
    yield _line(low, BOTTOM, high, BOTTOM, FADED, 1) + _line(low, TOP, low, BOTTOM, FADED, 1)
    yield _text((low + high) / 2, HEIGHT - 10, "chance before", 12, anchor="middle")
    yield _text(low + 8, TOP + 12, "largest chance after", 12)


def drawing() -> str:
    """The whole picture."""
    rows, gamma = answered()
    told = f"Estimates with intervals beside the true counts; a belief of {RHO1} may rise to {RHO2}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" role="img">',
        f"<title>{escape(told)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *counts(rows),
        *beliefs(gamma),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _text(
    x: float, y: float, text: str, size: int, fill: str = INK, *, anchor: str = "start", weight: str = "normal"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text {place} fill="{fill}">{escape(text)}</text>'


def _line(
    x: float, y: float, to_x: float, to_y: float, stroke: str, width: float, *, opacity: float = 1, dash: bool = False
) -> str:
    path = f'<path d="M{x:.1f} {y:.1f} L{to_x:.1f} {to_y:.1f}" stroke="{stroke}" stroke-width="{width:g}"'
    return path + f' opacity="{opacity:g}"' + (' stroke-dasharray="4 4"' if dash else "") + "/>"


if __name__ == "__main__":
    FIGURE.write_text(drawing(), encoding="utf-8")
