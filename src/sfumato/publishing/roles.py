"""Who plays which part: every column has one role, and every role a column that exists."""

from __future__ import annotations

from collections.abc import Iterable

from ..engines.contract import Table
from ..errors import DataError, SpecError
from ..laws import Law
from ..model.names import LONGEST_NAME, quoted_name
from ..model.private import Filled
from ..model.public import Domain, Roles

INTERNAL = "__"  # what our own columns begin with, such as the key by which rows are put in random order


NEAR_UNIQUE = (9, 10)  # different values over rows that hold one, from which a column tells people apart
SHOWN = 40  # characters of a name that is too long
FEW_ROWS = 20  # in which most columns are nearly unique


def near_unique(filled: Filled) -> bool:
    """Whether nearly every row has a value of its own."""
    some, of = NEAR_UNIQUE
    return filled.rows > FEW_ROWS and filled.distinct * of >= some * filled.rows


def settled_roles(roles: Roles, table: Table) -> Roles:
    """The roles with `rest` spelled out, checked. Columns that tell people apart are never swept in by `rest`."""
    spelled = roles.resolve(table.columns)
    check_roles(spelled, table.columns)
    if roles.rest in {"quasi", "keep"}:
        named = {name for names in roles.by_role().values() for name in names}
        swept = [name for name in table.columns if name not in named]
        unique = [name for name, filled in table.filled(swept).items() if near_unique(filled)]
        if unique:
            listed = ",".join(map(quoted_name, unique))
            shown = ", ".join(f'"{name}"' for name in unique)
            raise SpecError(
                f"nearly every row has a value of its own in {shown}: --rest {roles.rest} would publish what tells "
                f"people apart; leave out with --drop {listed}, or name what is to be published in --qi or --keep",
                field=unique[0],
            )
    return spelled


def check_named(names: Iterable[str], columns: Iterable[str]) -> None:
    """Raise SpecError for a name that no column has, with the nearest one."""
    columns = dict.fromkeys(columns)  # in their order
    missing = [name for name in names if name not in columns]
    if missing:
        import difflib

        close = difflib.get_close_matches(missing[0], columns, n=1)
        hint = f'; did you mean "{close[0]}"?' if close else f"; columns: {', '.join(columns)}"
        raise SpecError(f'there is no column "{missing[0]}"{hint}', field=missing[0])


def check_roles(roles: Roles, columns: Iterable[str]) -> None:
    """Every column has one role and every role a column that exists."""
    columns = list(columns)
    given = [name for names in roles.by_role().values() for name in names]
    check_named(given, columns)
    taken = set(given)
    free = [name for name in columns if name not in taken]
    if free:
        more = f" (and {len(free) - 1} more)" if len(free) > 1 else ""
        raise SpecError(
            f'column "{free[0]}" has no role{more}; add --qi {",".join(map(quoted_name, free))} (or --keep, --drop), '
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
    people = [] if roles.person is None else [roles.person]
    internal = [name for name in (*published, *people) if name.startswith(INTERNAL)]
    if internal:
        message = f'names that begin with "{INTERNAL}" are taken; rename column "{internal[0]}" or drop it'
        raise DataError(message, column=internal[0])
    odd = [name for name in (*published, *people) if not 0 < len(name) <= LONGEST_NAME]
    if odd:
        shown = odd[0] if len(odd[0]) <= SHOWN else odd[0][:SHOWN] + "..."
        message = f'names have 1 to {LONGEST_NAME:,} characters; rename column "{shown}" or drop it'
        raise DataError(message, column=odd[0])


def check_added(roles: Roles, law: Law, domains: tuple[Domain, ...]) -> None:
    """Refuse a table with a column that is called as one that the law adds to the rows, or to sensitive.parquet."""
    published = [*roles.sensitive, *roles.quasi, *roles.insensitive]
    added = [law.part, *(sets.column for sets in law.listed(domains) if sets is not None)]
    taken = [(name, published) for name in added if name is not None]
    taken += [(name, list(roles.sensitive)) for name in law.beside(domains) or ()]
    for name, known in taken:
        if name.lower() in {column.lower() for column in known}:
            raise SpecError(
                f'the method adds a column "{name}", which the table already has; rename or drop it', field=name
            )
