"""What people type: names of columns and options, and exact numbers. One rule for every option.

Names are separated by commas. A name with a comma, an equals sign, a quote, or a space at either end stands in double
quotes; a quote inside is written twice: `age,"hours, per week"," padded "` are three names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from ..errors import SpecError

QUOTE = '"'
ERROR_ENDS = ("_se", "_low", "_high", "_min", "_max")  # of the columns that an answer has beside an aggregate
ENDS = ("", *ERROR_ENDS)  # ... and with it
LONGEST_NAME = 1000  # characters of a column's name that a release may state


def listed(text: str, field: str | None = None) -> tuple[str, ...]:
    """The names in a list; spaces around names without quotes are no part of them."""
    found, rest = [], text
    while rest.strip():
        name, rest = _first(rest, ",", text, field)
        if name:
            found.append(name)
    return tuple(found)


def assigned(text: str, field: str | None = None) -> tuple[str, str]:
    """(name, what stands behind its equals sign)."""
    name, rest = _first(text, "=", text, field)
    if not name or _end(text) >= len(text):
        raise SpecError(f'--{field} is written COLUMN=VALUE, got "{text}"', field=field)
    return name, rest.strip()


def parts(text: str, field: str | None = None) -> list[tuple[str, str | None]]:
    """The parts of a list such as `age=5,"hours, per week"=8`: (name, what stands behind its equals sign or None)."""
    found: list[tuple[str, str | None]] = []
    for piece in _pieces(text):
        name, rest = _first(piece, "=", text, field)
        bare = _end(piece) >= len(piece.rstrip())
        if name or not bare:
            found.append((name, None if bare else rest.strip()))
    return found


def _pieces(text: str) -> list[str]:
    """The text cut at its commas, but not inside quotes."""
    found, inside = [""], False
    for letter in text:
        inside ^= letter == QUOTE
        if letter == "," and not inside:
            found.append("")
        else:
            found[-1] += letter
    return [piece for piece in found if piece.strip()]


def _end(piece: str) -> int:
    """Where the first equals sign outside quotes stands, or the length of the text."""
    inside = False
    for place, letter in enumerate(piece):
        inside ^= letter == QUOTE
        if letter == "=" and not inside:
            return place
    return len(piece)


def quoted_name(name: str) -> str:
    """The name as it can be typed in a list."""
    plain = name == name.strip() and not set(name) & {",", "=", QUOTE} and name
    return name if plain else QUOTE + name.replace(QUOTE, QUOTE * 2) + QUOTE


def _first(text: str, end: str, whole: str, field: str | None) -> tuple[str, str]:
    """(the first name, what follows its end mark)."""
    rest = text.lstrip()
    if not rest.startswith(QUOTE):
        name, _, rest = rest.partition(end)
        return name.strip(), rest
    name, place = "", 1
    while True:
        close = rest.find(QUOTE, place)
        if close < 0:
            raise SpecError(f"a quote is not closed in {whole}", field=field)
        name += rest[place:close]
        if rest[close + 1 : close + 2] != QUOTE:
            break
        name, place = name + QUOTE, close + 2
    after = rest[close + 1 :].lstrip()
    if after and not after.startswith(end):
        raise SpecError(f'after a name in quotes comes "{end}", not "{after[:1]}", in {whole}', field=field)
    return name, after[1:]


def free_name(name: str, taken: Iterable[str], ends: Sequence[str] = ("",)) -> str:
    """The name, or with _2, _3 .. behind it where it, with one of the ends, is taken already."""
    used = {other.lower() for other in taken}
    found, number = name, 1
    while used & {f"{found}{end}".lower() for end in ends}:
        number += 1
        found = f"{name}_{number}"
    return found


# How the fields of a method's specification are typed on the command line.


RENAMED = {"keep": "keep-probability"}  # --keep is a role


def option_name(field: str) -> str:
    """A field of a specification as it is typed."""
    return f"--{RENAMED.get(field, field.replace('_', '-'))}"


# Numbers as people type them, and as releases and answers state them.


Ratio = Fraction | str | int | float  # "1/13", 0.2, Fraction(1, 5)

LONGEST = 400  # characters and powers of ten: 1e-999999999 is a number of a thousand million digits


def exact(value: Ratio, field: str) -> Fraction:
    """The fraction a person means by `value`: "1/13" and "0.2" exactly, 0.2 as 1/5."""
    try:
        if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError
        if isinstance(value, str):
            _, e, exponent = value.lower().rpartition("e")  # the power of ten at the end of 1e-9
            if len(value) > LONGEST or (e and abs(int(exponent)) > LONGEST):
                raise ValueError
        return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError):
        raise SpecError(
            f'{field} must be a number or a fraction such as 1/13, got "{str(value)[:80]}"', field=field
        ) from None


SMALLEST_P = 1e-300  # a smaller p-value is stated as this bound
STEPS = (1000, 500, 200, 100, 50, 20, 10, 5, 2, 1)  # parts of one that a stated share is rounded to
STEP_ROWS = 10  # rows that a step holds at least, so that no stated share tells a count


def stated_share(count: int, rows: int, finest: int = 100) -> Fraction:
    """The share of the rows as a release may state it, rounded up to 1/`finest`, coarser where rows are few."""
    parts = next((parts for parts in STEPS if finest >= parts and rows >= STEP_ROWS * parts), 1)
    return Fraction(-(-count * parts // rows), parts)
