"""How many rows of a release one person may have: the unit of privacy is a person, not a row (docs/people.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated

from pydantic import Field

from .public import MOST_ROWS, Guarantee

RowsPerPerson = Annotated[int, Field(ge=1, le=MOST_ROWS)]  # of a stated plan: its powers are computed exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """What a release states about people and rows. `checked` False: nobody looked, one row each is assumed."""

    checked: bool = False
    rows_per_person: int = 1
    rows_left_out: int = 0  # rows of people who had more

    @property
    def assumption(self) -> str:
        """The sentence that the guarantee rests on."""
        if not self.checked:
            return "each person has one row (not checked: no column that tells people apart was named)"
        most = self.rows_per_person
        said = "each person has one row: checked" if most == 1 else f"each person has at most {most} rows: checked"
        if not self.rows_left_out:
            return said
        kept = "one random row" if most == 1 else f"a random {most} rows"
        return f"{said}; {kept} of everyone with more were kept, {self.rows_left_out:,} rows left out"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What every answer says: it speaks of the rows that were kept."""
        if not self.rows_left_out:
            return ()
        rows = "row" if self.rows_per_person == 1 else "rows"
        return (
            f"rows of people with more than {self.rows_per_person} {rows} were left out: {self.rows_left_out:,} rows",
        )

    @property
    def sampling(self) -> tuple[str, ...]:
        """What answers about a population say: its errors are those of rows that are drawn one by one."""
        most = self.rows_per_person
        if most == 1:
            return ()
        return (f"people may have {most} rows: errors of a population take rows for people, and may be too small",)


def with_people(guarantee: Guarantee, people: People) -> Guarantee:
    """The guarantee with what is known about people and rows among its assumptions."""
    stated = replace(guarantee, assumptions=(*guarantee.assumptions, people.assumption))
    loss = guarantee.parameters.get("epsilon_total")
    if people.rows_per_person == 1 or not isinstance(loss, int | float):
        return stated
    of_person = ceil(people.rows_per_person * loss * 1e6) / 1e6  # epsilons of independent rows add; losses round up
    return replace(stated, parameters=dict(guarantee.parameters) | {"epsilon_person": of_person})
