"""How far a test allows a number to go: the end of an interval, on a grid of halvings.

The end is the one that plain bisection finds. Where it lies is first looked for by secants on the normal scale, where
tail chances are nearly straight lines; the halvings then ask for a chance only where that has not settled it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Chance = Callable[[Floats], Floats]  # of a tail, at true counts x

STEPS = 30  # of a bisection: the ends are within 1e-9 of the possible range
SECANTS = 12  # at most; five are usual
CLOSE = 2.0 ** -(STEPS + 1)  # of the range: no halving is as short
SMALLEST, LARGEST = 1e-300, 1 - 1e-16  # chances that have a place on the normal scale


def farthest_allowed(chance: Chance, level: float, start: Floats, limit: Floats, guess: Floats) -> Floats:
    """The point nearest to `limit` whose chance is at least `level` on the way from `start`, which is taken as allowed.

    `guess` is where it may lie; how good it is matters to the time only.
    """
    start, limit = np.asarray(start, dtype=np.float64), np.asarray(limit, dtype=np.float64)
    near, far, whole = _narrowed(chance, level, start, limit, guess)
    sure, doubt = np.abs(near - start), np.abs(far - start)  # allowed up to here, refused from there
    good, bad = start.copy(), limit.copy()
    for _ in range(STEPS):
        middle = (good + bad) / 2
        way = np.abs(middle - start)
        fine = way <= sure
        if (~fine & (way < doubt) & ~whole).any():
            fine = fine | ((way < doubt) & (chance(middle) >= level))
        good, bad = np.where(fine, middle, good), np.where(fine, bad, middle)
    return np.where(whole, limit, good)


def _narrowed(
    chance: Chance, level: float, start: Floats, limit: Floats, guess: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """(farthest point known to be allowed, nearest one known to be refused, whether the limit is allowed)."""
    wanted = float(special.ndtri(level))

    def excess(p: Floats) -> Floats:
        return np.asarray(special.ndtri(np.clip(p, SMALLEST, LARGEST)) - wanted, dtype=np.float64)

    whole = chance(limit) >= level
    near, far = start.copy(), limit.copy()
    first = chance(start)
    odd = ~(first >= level)  # nothing is known about the way there: every halving asks
    close = CLOSE * np.abs(limit - start)
    x0, f0, x1 = start, excess(first), np.clip(guess, np.minimum(start, limit), np.maximum(start, limit))

    def look(x: Floats) -> Floats:
        nonlocal near, far
        p = chance(x)
        fine, way = p >= level, np.abs(x - start)
        near = np.where(fine & ~odd & (way > np.abs(near - start)), x, near)
        far = np.where(~fine & ~odd & (way < np.abs(far - start)), x, far)
        return p

    for _ in range(SECANTS):
        f1 = excess(look(x1))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            x2 = x1 - f1 * (x1 - x0) / (f1 - f0)
        low, high = np.minimum(near, far), np.maximum(near, far)
        inside = (x2 >= low - close) & (x2 <= high + close)  # a little beyond: it is there
        x2 = np.where(inside, np.clip(x2, low, high), (low + high) / 2)
        x2 = np.where(np.abs(x1 - x0) <= close / 2, x1, x2)  # found, while others are still looked for
        x0, f0, x1 = x1, f1, x2
        if (np.abs(x1 - x0) <= close / 2)[~(whole | odd)].all():
            break
    outwards = np.sign(limit - start) * close
    look(np.clip(x1 + outwards, np.minimum(start, limit), np.maximum(start, limit)))
    look(np.clip(x1 - outwards, np.minimum(start, limit), np.maximum(start, limit)))
    return near, far, whole
