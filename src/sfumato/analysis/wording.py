"""How refusals of analyses name things: short, whatever was asked."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMED = 6
LONGEST = 80  # characters of a name


def listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """The first few names, and how many more there are."""
    shown = [name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..." for name in names[:most]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
