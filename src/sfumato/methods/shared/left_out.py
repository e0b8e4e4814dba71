"""Rows that a method leaves out to keep its promise about the others."""

from __future__ import annotations


def rows_left_out(rows: int) -> tuple[str, ...]:
    """What every answer says about them; nothing where there are none."""
    if not rows:
        return ()
    said = "1 row was" if rows == 1 else f"{rows:,} rows were"
    return (f"{said} left out of the release; answers are about the published ones",)
