"""What a reproduction is made of: published numbers beside ours, with one line on every difference."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

REPRODUCED, TREND, DIFFERS, PAPER = "reproduced", "trend holds", "differs", "paper is wrong"
CLOSE, NO_DATA, LOST = "close on stand-in data", "needs SFUMATO_DATA", "not comparable"
VERDICTS = (REPRODUCED, TREND, CLOSE, DIFFERS, PAPER, LOST, NO_DATA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One number of a table or one trend of a figure."""

    item: str  # "Table 2, L = 6, UP"
    published: str
    ours: str
    verdict: str
    note: str = ""


def number(
    item: str,
    published: float,
    ours: float,
    *,
    within: float,
    unit: str = "",
    digits: int = 3,
    note: str = "",
    standin: bool = False,
) -> Finding:
    """A published number: reproduced where ours lies within `within` of it, "close" where the data are others."""
    hit = abs(ours - published) <= within * (1 + 1e-9)
    verdict = (CLOSE if standin else REPRODUCED) if hit else DIFFERS
    return Finding(
        item=item, published=f"{published:g}{unit}", ours=f"{ours:.{digits}g}{unit}", verdict=verdict, note=note
    )


def trend(item: str, published: str, ours: str, *, holds: bool, note: str = "") -> Finding:
    """A trend that a figure shows."""
    return Finding(item=item, published=published, ours=ours, verdict=TREND if holds else DIFFERS, note=note)


def rising(values: Sequence[float], *, slack: float = 0.0) -> bool:
    """Whether each value is at least the one before, up to a relative slack."""
    return all(b >= a * (1 - slack) for a, b in pairwise(values))


def data_file(name: str) -> Path | None:
    """A larger table of the folder SFUMATO_DATA, or None."""
    folder = os.environ.get("SFUMATO_DATA")
    path = Path(folder) / name if folder else None
    return path if path is not None and path.exists() else None


def missing(item: str, published: str, name: str) -> Finding:
    """The finding where a table is not there."""
    return Finding(item=item, published=published, ours="-", verdict=NO_DATA, note=f"put {name} into that folder")


def percents(values: Sequence[float]) -> str:
    """Shares in a row."""
    return " ".join(f"{100 * v:.3g} %" for v in values)
