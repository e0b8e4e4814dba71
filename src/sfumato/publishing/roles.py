"""Who plays which part: every column has one role, and every role a column that exists."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import DataError, SpecError
from ..model.public import Roles

INTERNAL = "__"  # what our own columns begin with, such as the key by which rows are put in random order


def check_roles(roles: Roles, columns: Iterable[str], *, reserved: str | None = None) -> None:
    """Every column has one role and every role a column that exists."""
    columns = list(columns)
    given = {name for names in roles.by_role().values() for name in names}
    missing = [name for name in given if name not in columns]
    if missing:
        import difflib

        close = difflib.get_close_matches(missing[0], columns, n=1)
        hint = f'; did you mean "{close[0]}"?' if close else f"; columns: {', '.join(columns)}"
        raise SpecError(f'there is no column "{missing[0]}"{hint}', field=missing[0])
    free = [name for name in columns if name not in given]
    if free:
        more = f" (and {len(free) - 1} more)" if len(free) > 1 else ""
        raise SpecError(
            f'column "{free[0]}" has no role{more}; add --qi {",".join(free)} (or --keep, --drop), '
            "or --rest quasi|keep|drop for all the others",
            field=free[0],
        )
    folded: dict[str, str] = {}
    for name in columns:
        if name.lower() in folded:
            raise DataError(
                f'columns "{folded[name.lower()]}" and "{name}" differ in case only; rename one', column=name
            )
        folded[name.lower()] = name
    published = [*roles.sensitive, *roles.quasi, *roles.insensitive]
    internal = [name for name in published if name.startswith(INTERNAL)]
    if internal:
        message = f'names that begin with "{INTERNAL}" are taken; rename column "{internal[0]}" or drop it'
        raise DataError(message, column=internal[0])
    if reserved:
        check_added(roles, reserved)


def check_added(roles: Roles, name: str) -> None:
    """Refuse a column that the method adds where the release would have one of that name already."""
    if name.lower() in {known.lower() for known in (*roles.sensitive, *roles.quasi, *roles.insensitive)}:
        raise SpecError(
            f'the method adds a column "{name}", which the table already has; rename or drop it', field=name
        )
