"""Questions that fit a release: made from its columns, shown only if the release answers them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..model.names import ENDS, free_name
from .catalogue import ServedColumn
from .refusals import identifier, literal

FEW = 12  # values of a column that makes a readable group


def examples(columns: Sequence[ServedColumn], values: Mapping[str, Sequence[Any] | None]) -> Iterator[tuple[str, str]]:
    """(title, SQL), from the plainest on."""
    sensitive = next((c for c in columns if c.role == "sensitive"), None)
    others = [c for c in columns if c.role != "sensitive"]
    group = next((c for c in others if c.kind in {"text", "truth"} and 1 < len(values.get(c.name) or ()) <= FEW), None)
    measure = next((c for c in reversed(others) if c.kind in {"whole", "number"}), None)
    axis = next((c for c in others if c.kind == "whole"), None)
    if sensitive is None:
        return
    s = identifier(sensitive.name)

    def named(name: str) -> str:
        return identifier(free_name(name, (c.name for c in columns), ENDS))

    n, share = named("n"), named("share")
    if sensitive.domain is None or len(sensitive.domain) <= 100:
        yield (
            f"How many of each {sensitive.name}?",
            f"SELECT {s}, COUNT(*) AS {n}\nFROM release\nGROUP BY {s}\nORDER BY {n} DESC",
        )
    if not sensitive.domain:
        return
    value = next((v for v in sensitive.domain if v not in (None, "")), None)
    asked = f"{s} = {literal(value)}"
    if group is not None:
        g = identifier(group.name)
        yield (
            f"{value}, by {group.name}",
            f"SELECT {g}, COUNT(*) AS {n}\nFROM release\nWHERE {asked}\nGROUP BY {g}\nORDER BY {n} DESC",
        )
        with_it = f"AVG(CASE WHEN {asked} THEN 1 ELSE 0 END) AS {share}"
        yield (
            f"The share of {value} in each {group.name}",
            f"SELECT {g}, {with_it}\nFROM release\nGROUP BY {g}\nORDER BY {g}",
        )
    if axis is not None:
        a = identifier(axis.name)
        step = f"{a} // 10 * 10"
        name = named(f"{axis.name}_from")
        yield (
            f"{value}, by {axis.name} in steps of 10",
            f"SELECT {step} AS {name}, COUNT(*) AS {n}\nFROM release\nWHERE {asked}\nGROUP BY {step}\nORDER BY {name}",
        )
    if measure is not None:
        m, name = identifier(measure.name), named(f"average_{measure.name}")
        yield (
            f"Average {measure.name} by {sensitive.name}",
            f"SELECT {s}, AVG({m}) AS {name}\nFROM release\nGROUP BY {s}\nORDER BY {name} DESC",
        )
