"""What a statistics package says about a column besides its values: a title, and names of its codes."""

from __future__ import annotations

from dataclasses import dataclass

from .public import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The title of a column and the label of each of its codes, as its file has them."""

    title: str | None = None
    values: tuple[tuple[Scalar, str], ...] = ()
