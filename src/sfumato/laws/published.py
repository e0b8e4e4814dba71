"""What published rows say about records, and checks of counts that several laws make."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from ..errors import VerificationError
from ..model.public import Evidence, Floats, Integers, Likelihood, Published
from ..stats.joint_codes import sum_by_group
from ..stats.tails import FALSE_ALARM, log_part, low_sum, too_few, too_many
from .set_channel import Members


def published_table(evidence: Evidence, unit: int, parts: int) -> Floats:
    """(parts, values): rows of every part that show every value."""
    part, codes, count = evidence.totals((unit,))
    return sum_by_group(count.astype(np.float64), (part, codes[:, 0]), (parts, len(evidence.domains[unit])))


def silent(counts: Floats, *, exact: bool = False) -> Likelihood:
    """Values are withheld: a record shows its part and nothing else."""
    ones = lambda part, _: np.ones((len(part), counts.shape[1]))  # noqa: E731
    return Likelihood(counts=counts, chance=ones, silent=True, exact=exact)


# --- published checks -------------------------------------------------------------------------------------------------
# What the checkers of several laws ask of a published bundle; they share definitions with planners, no code.


def check_roles(published: Published, *roles: str) -> None:
    """Nothing; VerificationError unless the units are made of all columns of these roles, and of no others."""
    for role in roles:
        published.check_units(role)
    wanted = {name for role in roles for name in published.with_role(role)}
    units = [name for domain in published.evidence.domains for name in domain.columns]
    other = sorted(set(units) - wanted)
    if other:
        raise VerificationError(f'release.json says that "{other[0]}" was changed, which the method does not do')
    if len(units) != len(set(units)):
        raise VerificationError("release.json lists a column in two units")


def one_unit(published: Published) -> None:
    """Nothing; VerificationError unless the sensitive columns are one unit, taken together."""
    check_roles(published, "sensitive")
    if len(published.evidence.domains) != 1:
        raise VerificationError("the sensitive columns must be one unit, taken together as one value")


def published_counts(published: Published, unit: int = 0, size: int | None = None) -> Integers:
    """Rows that show each value of the unit's domain, or each of `size` listed sets."""
    _, codes, count = published.evidence.totals((unit,))
    return sum_by_group(count, codes[:, 0], len(published.evidence.domains[unit]) if size is None else size)


def check_drawn_sets(
    counts: Integers, members: Members, weights: Integers, gamma: Fraction, where: str, tests: int = 1
) -> None:
    """Nothing; VerificationError where sets, or values in them, show too rarely for the stated channel.

    The channel is recomputed from its definition: Pr[Z | x] = n_Z (1 + (gamma - 1) [x in Z]) / (N + (gamma - 1) K).
    """
    covered = {int(weights @ members[:, x]) for x in range(members.shape[1])}
    if len(covered) != 1:
        raise VerificationError(f"{where}: the listed sets do not cover all values alike")
    base = weights / float(int(weights.sum()) + (gamma - 1) * covered.pop())
    rare = too_few(counts, base, FALSE_ALARM / (2 * tests))
    if rare is not None:
        raise VerificationError(
            f"{where}: {rare} of {len(counts)} sets show too rarely for the stated noise "
            f"(chance below {FALSE_ALARM:g}); they were not drawn by it"
        )
    chances = base[:, None] * (1 + (float(gamma) - 1) * members)
    order = np.argsort(counts @ members, kind="stable")
    looks = [size for size in (2**j for j in range(len(order).bit_length())) if size < len(order)]
    part = log_part(FALSE_ALARM / (2 * tests), np.array(looks), len(order), len(looks))
    for size, least in zip(looks, part, strict=True):
        score = members[:, order[:size]].sum(axis=1).astype(np.float64)
        if low_sum(score, chances, int(counts.sum()), float(counts @ score)) < least:
            raise VerificationError(
                f"{where}: {size} of {len(order)} values are in too few of the shown sets for the stated noise "
                f"(chance below {FALSE_ALARM:g}); they were not drawn by it"
            )


def check_floor(counts: Integers, floor: float | Floats, where: str, tests: int = 1) -> None:
    """Nothing; VerificationError where values show too rarely for the stated channel. `tests` share the alarm."""
    rare = too_few(counts, floor, FALSE_ALARM / tests)
    if rare is not None:
        raise VerificationError(
            f"{where}: {rare} of {len(counts)} values show too rarely for the stated noise "
            f"(chance below {FALSE_ALARM:g}); the values were not made by it"
        )


def check_ceiling(counts: Integers, ceiling: float, where: str, tests: int = 1) -> None:
    """Nothing; VerificationError where values show too often for the stated channel."""
    frequent = too_many(counts, ceiling, FALSE_ALARM / tests)
    if frequent is not None:
        raise VerificationError(
            f"{where}: {frequent} of {len(counts)} values show too often for the stated noise "
            f"(chance below {FALSE_ALARM:g}); the values were not made by it"
        )


def stated_sizes(published: Published, sizes: Iterable[int], what: str) -> None:
    """Nothing; VerificationError unless the parts that rows name are the listed ones, with their sizes."""
    stated = np.fromiter(sizes, dtype=np.int64)
    numbers, rows = published.group_sizes()
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(stated):
        raise VerificationError(f"a row names a {what} that release.json does not list")
    found = sum_by_group(rows, numbers, len(stated))
    if not np.array_equal(found, stated):
        raise VerificationError(f"the {what}s do not have the numbers of rows that release.json states")
