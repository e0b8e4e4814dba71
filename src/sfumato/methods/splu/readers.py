"""How far readers of decoy groups get: a record shows one of the values of its group, which is not published."""

from __future__ import annotations

from fractions import Fraction

from ...model.private import Known
from ...model.public import Claim, ReaderBound
from ..shared.readers import Found, ladder, linked

NO_BOUND = "no bound is known for a reader who knows other records: they narrow the decoys of this one"


def readers(sizes: tuple[int, ...], claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder.

    Of the n_s groups that hold s, each shows s once on average, and the record of s itself does so with chance 1 / size
    (docs/explanation/splu.md, 4): with the true histogram as prior, s shown is s with 1 / size, and any other value is
    less likely. With several columns the combination of their values is told apart by all of them together.
    """
    several = len(sizes) > 1
    mine = (
        Found(posterior=None, why="each column alone reaches 1/gamma; together they may tell more")
        if several
        else Found(posterior=Fraction(1, sizes[0]), why="a value that is shown is the record's own with 1/gamma")
    )
    fails = claim.rho1 is not None and known is not None and not several and _least(sizes[0], claim, known)
    value = Found(
        posterior=None,
        why="the less frequent a value, the more showing it tells a reader who gives the others' owners no chance",
        fails=bool(fails),
    )
    other = Found(posterior=None, why=NO_BOUND, fails=True)
    person = value if (claim.rows_per_person or 1) == 1 else other
    return ladder(
        claim,
        value=value,
        histogram=mine,
        linking=linked(known, "", lambda _: None, "the law of random groups has no closed form inside a cell"),
        corruption=other,
        person=person,
    )


def _least(size: int, claim: Claim, known: Known) -> bool:
    """Whether some prior of at most rho1 on s surely passes rho2.

    The records of other values show s with chance (1 - 1/size) n_s / (n - n_s) on average, so some value u shows it
    at most that often; the prior with all the rest on u ends at least at rho1 / (rho1 + (1 - rho1) size times that).
    """
    counts = known.joint.of_values()[known.looked]
    rows, least = int(known.joint.true_counts.sum()), int(counts.min())
    rho1, rho2 = claim.rho1, claim.rho2
    if rho1 is None or rho2 is None or least == rows:
        return False
    often = (1 - Fraction(1, size)) * Fraction(least, rows - least)
    return bool(rho1 / (rho1 + (1 - rho1) * size * often) > rho2)
