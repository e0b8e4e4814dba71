"""What the custodian says of her table (roles, files) and what she knows of it (rows of people, cells)."""

from __future__ import annotations

import csv
import json
import re
import secrets
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engines.contract import Table
from ..errors import DataError, PlanError, ReleaseError, SpecError
from ..laws import Law
from ..methods import REGISTRY, AnyMethod
from ..model.names import LONGEST_NAME, quoted_name, stated_share
from ..model.private import Filled, JointCells, Known, Needs, Profile, Work
from ..model.public import Claim, Domain, People, Roles, Scalar, Unprotected
from ..stats.joint_codes import distinct_rows
from .randomness import Secret

# --- roles: every column has one, and every role a column that exists


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


# --- rows of people: how many each may have, checked before anything is planned (docs/people.md)


def kept_rows(table: Table, roles: Roles, secret: Secret, method: AnyMethod | None = None) -> tuple[Table, People]:
    """The table with the rows that may stay, and what is known about people.

    Refused where people have several rows and nobody said how many may stay, or the method holds one only.
    """
    if roles.person is None:
        return table, People()
    most = roles.max_rows_per_person
    if most is not None and most > 1 and method is not None and not method.several_rows:
        others = ", ".join(name for name, other in REGISTRY.items() if other.several_rows)
        raise PlanError(
            f"{method.name} cannot hold a person with {most} rows: two of them might meet in one group, or tell more "
            f"together than one row may; take --max-rows-per-person 1, or a method that holds several ({others})",
            limit=1,
        )
    found = table.people(roles.person)
    if found.missing:
        raise DataError(
            f'{found.missing:,} rows have no value in "{roles.person}", so nobody knows whose they are; fill them or '
            "drop them",
            column=roles.person,
        )
    if most is None:
        if found.several:
            raise PlanError(
                f"{found.several:,} of {found.people:,} people have several rows, up to {found.most:,} each; keep one "
                "random row of each person with --max-rows-per-person 1, or K of them (more noise in every row)",
                limit=found.most,
            )
        return table, People(checked=True)
    if found.most <= most:
        return table, People(checked=True, rows_per_person=most)

    def keys(number: int, rows: int) -> NDArray[np.uint64]:
        return secret.stream("people", number).integers(0, 2**64, size=rows, dtype=np.uint64)

    named = {name for role, names in roles.by_role().items() if role != "identifying" for name in names}
    smaller = table.keeping(roles.person, most, [name for name in table.columns if name in named], keys)
    left = found.rows - smaller.people(roles.person).rows
    return smaller, People(checked=True, rows_per_person=most, rows_left_out=left)


# --- what the custodian knows when she asks how far readers get; what quasi-identifiers alone give away


CELL_LIMIT = 5_000_000  # combinations of quasi-identifiers and sensitive values that are held at once
FEW = 5  # rows of a cell that statistical offices call small
MOST_UNPROTECTED = Fraction(1, 2)  # share of the rows above which publishing wants a word


def known(
    table: Table, roles: Roles, needs: Needs, profile: Profile, work: Work, claim: Claim, *, linking: bool = True
) -> Known:
    """Joint counts of quasi-identifier cells and sensitive values, or of the values alone where there are too many."""
    units = sensitive_units(roles, needs)
    domains = [profile.domains[u] for u in units]
    looked_at = {
        u: profile.domains[u]
        for u, unit in enumerate(needs.units)
        if u not in units and not needs.changed[u] and set(unit) <= set(roles.quasi)
    }
    joint = table.cells(tuple(roles.quasi), domains, looked_at, limit=CELL_LIMIT) if linking else None
    linkable = joint is not None
    if joint is None:
        joint = _values_alone(profile, needs, units) or table.cells((), domains, {}, limit=int(profile.rows))
        assert joint is not None  # there are no more values than rows
    return Known(
        profile=profile,
        work=work,
        units=units,
        joint=joint,
        linkable=linkable,
        looked=protected(joint, claim.rho1),
    )


def _values_alone(profile: Profile, needs: Needs, units: tuple[int, ...]) -> JointCells | None:
    """The sensitive values in one cell, from what planning has counted; None where it has not counted them jointly."""
    for histogram, joint in zip(profile.histograms, needs.joints, strict=True):
        if set(units) <= set(joint):
            codes, value = distinct_rows([histogram.codes[:, joint.index(u)] for u in units], len(histogram.codes))
            counts = np.bincount(value, weights=histogram.true_counts, minlength=len(codes)).astype(np.int64)
            numbers = np.arange(len(codes))
            return JointCells(codes=codes, value=numbers, cell=np.zeros_like(numbers), true_counts=counts)
    return None


def sensitive_units(roles: Roles, needs: Needs) -> tuple[int, ...]:
    """Numbers of the units that hold sensitive columns."""
    return tuple(u for u, unit in enumerate(needs.units) if set(unit) <= set(roles.sensitive))


def protected(joint: JointCells, rho1: Fraction | None) -> NDArray[np.bool_]:
    """Which values have a share of at most rho1, in integers; all where no prior is named."""
    counts = joint.of_values()
    rows = int(counts.sum())
    if rho1 is None:
        return np.ones(len(counts), dtype=bool)
    return np.array([int(c) * rho1.denominator <= rho1.numerator * rows for c in counts], dtype=bool)


def others(found: Known) -> Known | None:
    """The same, looking at the values that are not protected; None where all are."""
    return None if found.looked.all() else replace(found, looked=~found.looked)


def unprotected(found: Known, roles: Roles, needs: Needs) -> tuple[Unprotected, Fraction]:
    """The values that are not covered with their share as a release states it, rounded up, and the exact share."""
    counts, units = found.joint.of_values(), found.units
    left, rows = int(counts[~found.looked].sum()), int(counts.sum())
    values: list[tuple[Scalar, ...]] = []
    for codes in found.joint.codes[~found.looked]:
        cells = {
            name: cell
            for u, code in zip(units, codes, strict=True)
            for name, cell in zip(needs.units[u], found.profile.domains[u].values[code], strict=True)
        }
        values.append(tuple(cells[name] for name in roles.sensitive))
    return Unprotected(values=tuple(values), share=float(stated_share(left, rows))), Fraction(left, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniqueness:
    """What the quasi-identifiers alone give away, in rows, before anything is published."""

    rows: int
    cells: int
    unique_rows: int  # alone with their quasi-identifiers
    rows_below_5: int  # in a cell of fewer than FEW rows
    rho1: Fraction | None = None
    sharpened_rows: int | None = None  # whose cell gives a value of share at most rho1 more than rho1

    def document(self) -> dict[str, Any]:
        """As it stands in JSON; shares of the rows."""
        return {
            "cells": self.cells,
            "unique_rows": self.unique_rows,
            "rows_below_5": self.rows_below_5,
            "rho1": None if self.rho1 is None else str(self.rho1),
            "sharpened": None if self.sharpened_rows is None else self.sharpened_rows / self.rows,
        }


def uniqueness(joint: JointCells, rho1: Fraction | None) -> Uniqueness:
    """Counted from the joint cells; `rho1` is the prior from which on a cell sharpens a value."""
    sizes = joint.of_cells()
    sharpened = None
    if rho1 is not None:
        above = joint.true_counts * rho1.denominator > rho1.numerator * sizes[joint.cell]
        sharp = np.zeros(len(sizes), dtype=bool)
        sharp[joint.cell[above & protected(joint, rho1)[joint.value]]] = True
        sharpened = int(sizes[sharp].sum())
    return Uniqueness(
        rows=int(sizes.sum()),
        cells=len(sizes),
        unique_rows=int((sizes == 1).sum()),
        rows_below_5=int(sizes[sizes < FEW].sum()),
        rho1=rho1,
        sharpened_rows=sharpened,
    )


# --- files that a custodian writes: roles and method (TOML), hierarchies and target weights (CSV), questions (SQL)


MAX_BYTES = 4 * 2**20
LISTS = {"sensitive": "sensitive", "quasi": "quasi", "drop": "identifying", "keep": "insensitive"}
OTHERS = {"rest": str, "person": str, "max_rows_per_person": int}
SAID_BY = {  # what an option of the command line says, as a line of the file
    "sa": 'sensitive = ["COLUMN"]',
    "qi": 'quasi = ["COLUMN"]',
    "drop": 'drop = ["COLUMN"]',
    "keep": 'keep = ["COLUMN"]',
    "rest": 'rest = "drop"',
    "person": 'person = "COLUMN"',
    "max_rows_per_person": "max_rows_per_person = 1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RolesFile:
    """What a roles file says; `method` None where it names none."""

    roles: Roles
    method: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def read_roles(path: str) -> RolesFile:
    """What a file says about roles, or SpecError that says what is wrong with it.

    [roles]
    sensitive = ["occupation"]
    quasi = ["age", "hours, per week"]
    drop = ["name"]
    person = "id"
    max_rows_per_person = 1

    [method]
    name = "uniform"
    rho1 = "1/5"
    rho2 = "1/2"

    Names stand as they are, with commas, spaces and quotes. A part [studio] holds what `sfumato studio` keeps besides;
    here it is passed over.
    """
    name = f'the roles file "{Path(path).name}"'
    try:
        if Path(path).stat().st_size > MAX_BYTES:
            raise SpecError(f"{name} is larger than {MAX_BYTES // 2**20} MiB", field="roles")
        document = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"{name} cannot be read as text", field="roles") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{name} is not valid TOML: {error}", field="roles") from None
    odd = [key for key in document if key not in {"roles", "method", "studio"}]
    if odd:
        raise SpecError(f'{name} has a part "{odd[0]}"; parts: roles, method, studio', field="roles")
    roles, method = document.get("roles"), document.get("method", {})
    if not isinstance(roles, dict) or not isinstance(method, dict):
        raise SpecError(f"{name} needs a part [roles], and may have a part [method]", field="roles")
    chosen = method.get("name")
    if method and not isinstance(chosen, str):
        raise SpecError(f"{name} has a part [method] that does not name the method", field="roles")
    options = {key: value for key, value in method.items() if key != "name"}
    return RolesFile(roles=_roles(roles, name), method=chosen, options=options)


def _roles(given: Mapping[str, Any], name: str) -> Roles:
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        if key in LISTS:
            names = [value] if isinstance(value, str) else value
            if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
                raise SpecError(f"{name}: {key} must be a list of column names", field=key)
            arguments[LISTS[key]] = tuple(names)
        elif key in OTHERS:
            if type(value) is not OTHERS[key]:
                what = "a whole number" if OTHERS[key] is int else "text"
                raise SpecError(f"{name}: {key} must be {what}", field=key)
            arguments[key] = value
        else:
            known = ", ".join((*LISTS, *OTHERS))
            raise SpecError(f'{name} has a role "{key}"; roles: {known}', field="roles")
    arguments.setdefault("sensitive", ())
    return Roles(**arguments)


def roles_text(roles: Mapping[str, Any], reasons: Mapping[str, str], method: str) -> str:
    """A roles file with one column a line and, where known, the reason for its role; the method is an example."""
    lines = ["# Roles of the columns: suggestions to be checked by whoever knows the table.", "[roles]"]
    for key, value in roles.items():
        if isinstance(value, list):
            lines.append(f"{key} = [")
            lines += [f"    {quoted(n)},{'  # ' + reasons[n] if n in reasons else ''}" for n in value]
            lines.append("]")
        else:
            lines.append(f"{key} = {quoted(value)}{'  # ' + reasons[value] if value in reasons else ''}")
        if key == "person":
            lines.append(
                "# max_rows_per_person = 1  # rows kept of a person who has several, at random; more: more noise"
            )
    lines += ["", "# [method]", f'# name = "{method}"', '# rho1 = "1/5"', '# rho2 = "1/2"', ""]
    return "\n".join(lines)


def quoted(text: str) -> str:
    """A TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_roles(path: str, text: str) -> None:
    """Write a new file; one that exists is not touched."""
    file = Path(path)
    partial = file.with_name(f".{file.name}.{secrets.token_hex(6)}.partial")
    try:
        if file.exists() or file.is_symlink():
            raise ReleaseError(f'"{file.name}" exists; name another file for the roles')
        partial.write_text(text, encoding="utf-8")
        partial.rename(file)
    except OSError as error:
        raise ReleaseError(f'"{file.name}" cannot be written: {error.strerror}') from None
    finally:
        partial.unlink(missing_ok=True)


MAX_PARAMETER_BYTES = 64 * 2**20
LEADING_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)  # of a file of SQL


def read_rows(path: str, field: str, about: str = "") -> tuple[tuple[str, ...], ...]:
    """The rows of a CSV file; the separator is ; or , whichever the first line holds. `about` is for messages."""
    name = f'"{Path(path).name}"{about}'
    try:
        if Path(path).stat().st_size > MAX_PARAMETER_BYTES:
            raise SpecError(f"the file {name} is larger than {MAX_PARAMETER_BYTES // 2**20} MiB", field=field)
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"the file {name} cannot be read as text", field=field) from None
    rows = csv.reader(text.splitlines(), delimiter=";" if ";" in text.partition("\n")[0] else ",")
    found = tuple(tuple(cell.strip() for cell in row) for row in rows if any(row))
    if not found:
        raise SpecError(f"the file {name} is empty", field=field)
    return found


def read_column_hierarchy(path: str, column: str) -> tuple[tuple[str, ...], ...]:
    """An ARX-style hierarchy of one of several columns."""
    return read_rows(path, "hierarchies", f' (hierarchy of "{column}")')


def read_hierarchy(path: str) -> tuple[tuple[str, ...], ...]:
    """An ARX-style hierarchy: a value, then its ever wider labels."""
    return read_rows(path, "hierarchy")


def read_target(path: str) -> dict[str, Any]:
    """Weights by value (value,weight), or by part of the table (part,value,weight); a header line is skipped."""
    rows = read_rows(path, "target")
    if rows and rows[0][-1].lower() in {"weight", "mass", "probability"}:
        rows = rows[1:]
    widths = {len(row) for row in rows}
    if widths == {2}:
        return _unique(rows)
    if widths == {3}:
        parts: dict[str, Any] = {}
        for part in dict.fromkeys(row[0] for row in rows):
            parts[part] = _unique(tuple(row[1:] for row in rows if row[0] == part))
        return parts
    raise SpecError(f'"{Path(path).name}" must have the columns value,weight or part,value,weight', field="target")


def _unique(rows: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    weights: dict[str, Any] = {}
    for value, weight in rows:
        if value in weights:
            raise SpecError(f'the target lists "{value}" twice', field="target")
        weights[value] = weight
    return weights


def read_sql(text: str) -> str:
    """The workload with the questions of the file that it names: FILE.sql, or a mix such as ranges:1,FILE.sql:2."""
    if text.lower().endswith(".sql") and ("," not in text or Path(text).exists()):
        return _questions(text)
    files, mix = [], []
    for item in text.split(","):
        kind, _, share = item.rpartition(":") if ":" in item else (item, "", "1")
        named = kind.strip().lower().endswith(".sql")
        files += [kind.strip()] if named else []
        mix.append(f"sql:{share}" if named else item)
    if len(files) != 1:
        raise SpecError("a workload names one file of questions", field="workload")
    return f"{','.join(mix)}; {_questions(files[0])}"


def _questions(path: str) -> str:
    name = f'"{Path(path).name}"'
    try:
        if Path(path).stat().st_size > MAX_PARAMETER_BYTES:
            raise SpecError(f"the file {name} is larger than {MAX_PARAMETER_BYTES // 2**20} MiB", field="workload")
        text = Path(path).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"the file {name} cannot be read as text", field="workload") from None
    text = LEADING_COMMENTS.sub("", text)
    if not text.lower().startswith("select"):
        raise SpecError(f"the file {name} must hold SELECT statements, one for each question", field="workload")
    return text


READERS: dict[str, Callable[[str], Any]] = {"hierarchy": read_hierarchy, "target": read_target, "sql": read_sql}
