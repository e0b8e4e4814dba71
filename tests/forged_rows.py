"""Changes of what a release shows: rows, groups, sets and weights that no method has made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROWS = 20_000
DISEASES = ("angina", "bronchitis", "cold", "diabetes", "eczema", "flu", "gout", "hepatitis")
SHARES = (0.30, 0.24, 0.18, 0.12, 0.07, 0.04, 0.03, 0.02)


def table() -> pa.Table:
    """20,000 people with a skewed disease, independent of age (eight bands) and sex."""
    rng = np.random.default_rng(11)
    disease = rng.choice(len(SHARES), ROWS, p=SHARES)
    return pa.table(
        {
            "number": pa.array(rng.permutation(ROWS), pa.int32()),
            "age": pa.array(10 * rng.integers(1, 9, ROWS), pa.int16()),
            "sex": pa.array(np.where(rng.random(ROWS) < 0.5, "f", "m")),
            "disease": pa.array(np.array(DISEASES)[disease]),
        }
    )


def replaced(found: pa.Table, name: str, values: Any) -> pa.Table:
    return found.set_column(found.column_names.index(name), name, pa.array(values, type=found.schema.field(name).type))


def shows_sets(found: pa.Table) -> bool:
    return "disease_set" in found.column_names


def with_sets(found: pa.Table, numbers: Any) -> pa.Table:
    """Other listed sets."""
    return replaced(found, "disease_set", numbers)


def one_value(found: pa.Table) -> pa.Table:
    if shows_sets(found):
        if "sub_table" not in found.column_names:
            return with_sets(found, [found["disease_set"][0].as_py()] * len(found))
        of_part = dict(zip(found["sub_table"].to_pylist(), found["disease_set"].to_pylist(), strict=True))
        return with_sets(found, [of_part[part] for part in found["sub_table"].to_pylist()])
    for name in ("disease", "block"):
        if name in found.column_names:
            last = max(found[name].to_pylist())  # of blocks a leaf, which the root would be allowed to stand for
            found = replaced(found, name, [last] * len(found))
    return found


def true_diseases(found: pa.Table) -> list[str]:
    """The true disease of every row, found by its number."""
    truth = table()
    by_number = dict(zip(truth["number"].to_pylist(), truth["disease"].to_pylist(), strict=True))
    return [by_number[n] for n in found["number"].to_pylist()]


def true_values(found: pa.Table) -> pa.Table:
    """True values in the place of published ones; of sets see `forged_folders.true_sets`."""
    if "disease" not in found.column_names or "number" not in found.column_names:
        return found
    return replaced(found, "disease", true_diseases(found))


def swapped(found: pa.Table) -> pa.Table:
    rng = np.random.default_rng(5)
    at = rng.permutation(len(found))
    if "sub_table" in found.column_names:  # inside the sub-tables: sizes stay
        parts = found["sub_table"].to_numpy()
        at = np.empty(len(found), dtype=np.int64)
        for part in np.unique(parts):
            inside = np.flatnonzero(parts == part)
            at[inside] = rng.permutation(inside)
    if shows_sets(found):
        return with_sets(found, found["disease_set"].take(pa.array(at)).to_pylist())
    name = "disease" if "disease" in found.column_names else "group_id"
    return replaced(found, name, found[name].take(pa.array(at)).to_pylist())


def thrice(found: pa.Table) -> pa.Table:
    return shuffled(pa.concat_tables([found] * 3))


def half(found: pa.Table) -> pa.Table:
    return shuffled(found).slice(0, len(found) // 2)


def shuffled(found: pa.Table) -> pa.Table:
    return found.take(pa.array(np.random.default_rng(6).permutation(len(found))))


def by(*names: str) -> Callable[[pa.Table], pa.Table]:
    def change(found: pa.Table) -> pa.Table:
        return found.sort_by([(next(n for n in names if n in found.column_names), "ascending")])

    return change


def mirrored(*names: str) -> Callable[[pa.Table], pa.Table]:
    """Sorted, every other row counted from the other end: both halves of the file hold the same values."""

    def change(found: pa.Table) -> pa.Table:
        rows = np.arange(len(found))
        return by(*names)(found).take(np.concatenate([rows[::2], rows[1::2][::-1]]))

    return change


def extra_column(found: pa.Table) -> pa.Table:
    return found.append_column("secret", pa.array(np.arange(len(found))))


def first_cell(value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(found: pa.Table) -> pa.Table:
        for name, foreign in (("disease", "zzz"), ("block", 10**6), ("disease_set", 30_000)):
            if name in found.column_names:
                new = foreign if value == "foreign" else value
                return replaced(found, name, [new, *found[name].to_pylist()[1:]])
        return found

    return change


def label_cell(found: pa.Table) -> pa.Table:
    return replaced(found, "sex", ["zzz", *found["sex"].to_pylist()[1:]])


def other_member(found: pa.Table) -> pa.Table:
    """A set of sets.parquet said to hold a value that it does not hold, or not to hold one."""
    return replaced(found, "member", [not found["member"][0].as_py(), *found["member"].to_pylist()[1:]])


def exchanged_values(found: pa.Table) -> pa.Table:
    """Two values of sets.parquet in each other's place."""
    first, second, *others = found["value"].to_pylist()
    return replaced(found, "value", [second, first, *others])


def turned_rows(found: pa.Table) -> pa.Table:
    """sets.parquet from its end."""
    return found.take(pa.array(range(len(found) - 1, -1, -1)))


def unlisted_set(found: pa.Table) -> pa.Table:
    if not shows_sets(found):
        return found
    return replaced(found, "disease_set", [30_000, *found["disease_set"].to_pylist()[1:]])


def without_set(found: pa.Table) -> pa.Table:
    return found.filter(pc.not_equal(found["disease_set"], 1))


def set_twice(found: pa.Table) -> pa.Table:
    return pa.concat_tables([found, found.filter(pc.equal(found["disease_set"], 1))])


def foreign_set(found: pa.Table) -> pa.Table:
    """The last set under the number after its own."""
    last = pc.max(found["disease_set"]).as_py()
    return with_sets(found, [z + (z == last) for z in found["disease_set"].to_pylist()])


def foreign_value(found: pa.Table) -> pa.Table:
    """A member that no row can stand for."""
    place = found["member"].to_pylist().index(True)
    return replaced(found, "value", ["zzz" if j == place else v for j, v in enumerate(found["value"].to_pylist())])


def weighed(found: pa.Table, name: str) -> pa.Table:
    return replaced(found, name, [found[name][0].as_py() + 0.001, *found[name].to_pylist()[1:]])


def moved(found: pa.Table) -> pa.Table:
    name = next(n for n in found.column_names if n in {"sub_table", "group_id"})
    groups = found[name].to_numpy().copy()
    groups[np.flatnonzero(groups == groups[0])[:2]] = (groups[0] + 1) % (groups.max() + 1)
    return replaced(found, name, groups)


def unknown_group(found: pa.Table) -> pa.Table:
    name = next(n for n in found.column_names if n in {"sub_table", "group_id"})
    return replaced(found, name, [10**6, *found[name].to_pylist()[1:]])


def group_one_value(found: pa.Table) -> pa.Table:
    """Every group one repeated value."""
    if "disease" not in found.column_names:
        return found
    groups, values = found["group_id"].to_numpy(), found["disease"].to_pylist()
    first = dict(zip(groups[::-1], values[::-1], strict=True))
    return replaced(found, "disease", [first[g] for g in groups])


def number_as_text(found: pa.Table) -> pa.Table:
    return found.set_column(found.column_names.index("number"), "number", found["number"].cast(pa.string()))


def renumbered(found: pa.Table) -> pa.Table:
    return replaced(found, "number", np.random.default_rng(8).permutation(found["number"].to_numpy()))


def listed_numbers(found: pa.Table) -> pa.Table:
    """Every cell of a column in a list of its own."""
    at = found.column_names.index("number")
    return found.set_column(at, "number", pa.array([[n] for n in found["number"].to_pylist()]))


def no_text(found: pa.Table) -> pa.Table:
    """A cell of sex in bytes that are not UTF-8."""
    cells = pa.array([b"\xff", *(text.encode() for text in found["sex"].to_pylist()[1:])], pa.binary())
    changed = pa.Array.from_buffers(pa.string(), len(cells), cells.buffers())
    return found.set_column(found.column_names.index("sex"), "sex", changed)


def last_as_bytes(found: pa.Table) -> pa.Table:
    """The last column as bytes."""
    *_, name = found.column_names
    return found.set_column(len(found.column_names) - 1, name, found[name].cast(pa.string()).cast(pa.binary()))
