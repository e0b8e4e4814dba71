"""What a publisher asks of l-diversity: l, its kind, hierarchies, rows that may be left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from ...errors import SpecError
from ...model.names import parts
from ...model.ratios import Ratio, exact
from ..contract import Specification
from ..shared.option_help import told
from .lattice import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class LDiversity(Specification):
    """Generalise until every class is l-diverse; rows of at most a share `suppression` may be left out.

    `hierarchies` maps a column to ARX-style rows (value, then one label per level), or to "interval:5/10/20",
    "prefix:3/1" or "suppress"; a column without one is kept or suppressed as a whole.
    """

    method: ClassVar[str] = "l-diversity"

    l: Ratio = field(metadata=told("diversity of every class", "3"))
    kind: str = field(default="frequency", metadata=told("of diversity: frequency, entropy or distinct", "entropy"))
    hierarchies: Mapping[str, Any] | str | None = field(
        default=None,
        metadata=told("column=FILE.csv|interval:5/10|prefix:3/1|suppress, ...", "age=interval:5/10"),
    )
    suppression: Ratio = field(
        default=Fraction(0), metadata=told("share of the rows that may be left out instead", "1/50")
    )

    def __post_init__(self) -> None:
        if exact(self.l, "l") < 1:
            raise SpecError(f"l must be at least 1, got {self.l}", field="l")
        if self.kind not in KINDS:
            raise SpecError(f'kind must be one of {", ".join(KINDS)}, got "{self.kind}"', field="kind")
        if not 0 <= exact(self.suppression, "suppression") < 1:
            raise SpecError(
                f"suppression is a share of the rows, at least 0 and below 1, got {self.suppression}",
                field="suppression",
            )
        self.given()

    def given(self) -> dict[str, Any]:
        """Hierarchies by column, as given."""
        if self.hierarchies is None:
            return {}
        if isinstance(self.hierarchies, Mapping):
            return dict(self.hierarchies)
        found = parts(self.hierarchies, "hierarchies")
        if any(what is None for _, what in found):
            raise SpecError(
                f'hierarchies are written column=WHAT,column=WHAT, got "{self.hierarchies}"', field="hierarchies"
            )
        return dict(found)
