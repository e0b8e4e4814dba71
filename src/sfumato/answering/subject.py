"""What a question is asked of: an open release, or one that a plan only foresees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..engines.codes import Coder
from ..engines.contract import Reader
from ..methods.contract import Bounds
from ..model.public import Asked, Domain, Estimated, Observed
from ..sql.nodes import Schema

# (kind, observed, asked, functionals above, functionals below, share of a quantile)
Bound = Callable[[str, Observed, Asked, Sequence[int], Sequence[int], float | None], Bounds | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Rows to observe, domains to lay out over, and the method's estimate and bounds."""

    method: str
    schema: Schema
    domains: tuple[Domain, ...]
    coders: tuple[Coder, ...]
    reader: Reader
    lumpable: bool
    withheld: bool
    part: str | None
    sets: Mapping[int, int]  # unit whose cells show sets of values -> number of listed sets
    estimate: Callable[[Observed, Asked], Estimated]
    bound: Bound


def no_bounds(*_: object) -> None:
    """Of a subject that knows no certain bounds."""
