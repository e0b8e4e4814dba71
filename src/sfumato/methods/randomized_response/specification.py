"""What a publisher asks of randomized-response: which columns, at which risk or with which keep probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from ...errors import SpecError
from ...model.names import Ratio, exact, parts
from ..contract import Specification
from ..shared.options import BINS_FIELD, RHO1, RHO2, parse_bins, told
from ..shared.restricted import parse_rhos

SCOPES = ("s", "qi", "both")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(Specification):
    """Randomise the sensitive columns (scope "s"), the quasi-identifiers ("qi") or both.

    `risk` lets the method choose keep probabilities; `keep` gives them, per column, and columns it does not name are
    published as they are. `rho1` and `rho2` limit the sensitive columns' channels together, so that a prior of at most
    rho1 ends at most at rho2; beside `risk`, or alone with scope "s".
    """

    method: ClassVar[str] = "randomized-response"

    scope: str = field(
        default="both", metadata=told("randomise sensitive columns (s), quasi-identifiers (qi), or both", "s")
    )
    risk: Ratio | None = field(default=None, metadata=told("bound on the paper's disclosure risk", "1/3"))
    keep: Mapping[str, Ratio] | str | None = field(
        default=None, metadata=told("keep probabilities of columns", "occupation=0.6")
    )
    bins: Mapping[str, Sequence[Ratio]] | str | None = field(default=None, metadata=BINS_FIELD)
    rho1: Ratio | None = field(default=None, metadata=RHO1)
    rho2: Ratio | None = field(default=None, metadata=RHO2)

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise SpecError(f'scope must be one of {", ".join(SCOPES)}, got "{self.scope}"', field="scope")
        given = [value for value in (self.risk, self.keep) if value is not None]
        limited = self.rhos() is not None
        if limited and self.keep is not None:
            raise SpecError("keep probabilities are given: leave rho1 and rho2 out", field="keep")
        if limited and not given and self.scope != "s":
            raise SpecError(
                "rho1 and rho2 alone randomise the sensitive columns: say scope s, or give a risk too", field="scope"
            )
        if len(given) != 1 and not (limited and not given):
            what = "both were given" if given else "neither was given"
            raise SpecError(f"give either a risk or keep probabilities; {what}", field="risk")
        if self.keep is not None:
            self.keeps()
        self.tau()
        self.edges()

    def rhos(self) -> tuple[Fraction, Fraction] | None:
        """rho1 and rho2, exact; None where they are not given."""
        if self.rho1 is None and self.rho2 is None:
            return None
        if self.rho1 is None or self.rho2 is None:
            raise SpecError("rho1 and rho2 go together; give both", field="rho1")
        return parse_rhos(self.rho1, self.rho2)

    def tau(self) -> Fraction | None:
        """The bound on the risk; None with given keep probabilities."""
        if self.risk is None:
            return None
        tau = exact(self.risk, "risk")
        if not 0 < tau <= 1:
            raise SpecError(f"risk must lie above 0 and at most 1, got {tau}; state it as 1/3", field="risk")
        return tau

    def edges(self) -> dict[str, tuple[float, ...]]:
        """Lower edges of the bins of each binned column; the last bin has no upper end."""
        return parse_bins(self.bins)

    def keeps(self) -> dict[str, Fraction]:
        """Given keep probabilities by column."""
        if self.keep is None:
            return {}
        pairs = self.keep.items() if isinstance(self.keep, Mapping) else _pairs(self.keep)
        found = {column: exact(p, "keep") for column, p in pairs}
        for column, p in found.items():
            if not 0 < p <= 1:
                raise SpecError(
                    f'keep probability of "{column}" is {p}; it must lie above 1 / (values of the column) and at '
                    "most at 1",
                    field="keep",
                )
        return found


def _pairs(text: str) -> list[tuple[str, str]]:
    found = parts(text, "keep")
    pairs = [(column, value) for column, value in found if value is not None]
    if not pairs or len(pairs) < len(found):
        raise SpecError(f'keep probabilities are written column=p,column=p, got "{text}"', field="keep")
    return pairs
