"""How days are written where they are not as 2025-12-31."""

from __future__ import annotations

import re

PARTS = {"DD": ("%d", "[0-9]{1,2}"), "MM": ("%m", "[0-9]{1,2}"), "YYYY": ("%Y", "[0-9]{4}")}  # for strptime, for eyes
_FORM = re.compile(r"(DD|MM|YYYY)([-./ ])(DD|MM|YYYY)\2(DD|MM|YYYY)")


def date_parts(form: str) -> tuple[str, ...] | None:
    """The parts of a form such as DD.MM.YYYY, in order; None where it is no such form."""
    found = _FORM.fullmatch(form)
    parts = (found[1], found[3], found[4]) if found else ()
    return parts if set(parts) == set(PARTS) else None


def date_pattern(form: str) -> str:
    """Regular expression of the days that are written so."""
    parts = date_parts(form) or ()
    return "^" + f"[{form[len(parts[0])]}]".join(PARTS[part][1] for part in parts) + "$"


def date_format(form: str) -> str:
    """The form as strptime takes it."""
    return re.sub("DD|MM|YYYY", lambda part: PARTS[part[0]][0], form)
