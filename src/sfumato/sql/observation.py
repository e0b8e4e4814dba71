"""The one aggregate over the release that a question needs, and how to read what comes back."""

from __future__ import annotations

from dataclasses import dataclass

from .nodes import Aggregate, Query


@dataclass(frozen=True, slots=True)
class Observation:
    """SQL for the engine, and the names of the columns it returns.

    `bits[u]` are the leaves of unit u that are evaluated on the published value; a unit that needs its value as
    such (GROUP BY it, SUM of it, or a method that is not lumpable) is listed in `raw` instead.
    """

    sql: str
    keys: dict[int, str]  # untouched key number -> column
    leaves: dict[int, str]  # leaf number -> column: untouched leaves, and the bits of units
    raw: dict[int, tuple[str, ...]]  # unit -> columns that hold its published value
    bits: dict[int, tuple[int, ...]]  # unit -> leaf numbers
    part: str | None
    moments: tuple[tuple[int, int], ...]  # (a, b): sum of measure a times measure b; (0, 0) counts rows
    positive: dict[int, str]  # measure -> sum of its positive part
    by_row: bool = False  # rows are not yet added up: only the part tells them apart


def quoted(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def observation(
    query: Query,
    units: tuple[tuple[str, ...], ...],
    *,
    lumpable: bool,
    withheld: bool,
    part: str | None,
    table: str,
    weight: str | None,
) -> Observation:
    """One GROUP BY over `table`, whose rows stand for `weight` rows of the release each (None: one)."""
    wanted = query.units()
    columns: list[tuple[str, str]] = []
    keys = {i: f"k{i}" for i, key in enumerate(query.keys) if key.unit is None}
    columns += [(query.keys[i].sql, name) for i, name in keys.items()]
    needs_value = {key.unit for key in query.keys} | {u for u, _ in query.values}
    raw, bits, leaves = {}, {}, {}
    for u in wanted:
        if withheld:
            continue
        if lumpable and u not in needs_value:
            bits[u] = tuple(i for i, leaf in enumerate(query.leaves) if leaf.unit == u)
        else:
            raw[u] = tuple(f"u{u}_{j}" for j in range(len(units[u])))
            columns += [(quoted(name), alias) for name, alias in zip(units[u], raw[u], strict=True)]
    for i, leaf in enumerate(query.leaves):
        if leaf.unit is None or leaf.unit in bits:
            leaves[i] = f"l{i}"
            columns.append((leaf.sql, leaves[i]))
    in_part = part if part is not None and wanted else None
    if in_part is not None:
        columns.append((quoted(in_part), "part"))
    # Thousands of small groups and nothing else to tell rows apart: adding up by array is faster than by hashing.
    by_row = withheld and in_part is not None and len(columns) == 1
    measures = ["1", *(f"COALESCE(CAST({sql} AS DOUBLE), 0)" for sql in query.measures[1:])]
    n = weight or "1"
    moments = tuple((a, b) for b in range(len(measures)) for a in range(b + 1))
    sums = ["COUNT(*)" if weight is None else f"SUM({weight})"]
    sums += [f"SUM({n} * {measures[a]} * {measures[b]})" for a, b in moments[1:]]
    positive = {m: f"p{m}" for m in range(1, len(measures))}
    positives = [f"SUM({n} * GREATEST({measures[m]}, 0))" for m in positive]
    if by_row:
        sums = [n if j == 0 else sql.removeprefix("SUM") for j, sql in enumerate(sums)]
        positives = [sql.removeprefix("SUM") for sql in positives]
    selected = [f"{sql} AS {name}" for sql, name in columns]
    selected += [f"CAST({sql} AS DOUBLE) AS m{j}" for j, sql in enumerate(sums) if j or weight or not by_row]
    selected += [f"CAST({sql} AS DOUBLE) AS {name}" for sql, name in zip(positives, positive.values(), strict=True)]
    where = f" WHERE {' AND '.join(f'({sql})' for sql in query.pushed)}" if query.pushed else ""
    group = f" GROUP BY {', '.join(str(i + 1) for i in range(len(columns)))}" if columns and not by_row else ""
    return Observation(
        sql=f"SELECT {', '.join(selected)} FROM {table}{where}{group}",
        keys=keys,
        leaves=leaves,
        raw=raw,
        bits=bits,
        part="part" if in_part is not None else None,
        moments=moments,
        positive=positive,
        by_row=by_row,
    )


def direct(query: Query, aggregate: Aggregate, keys: tuple[int, ...]) -> str:
    """SQL for an aggregate of untouched columns under untouched conditions, which the engine answers exactly."""
    columns = [f"{query.keys[i].sql} AS k{i}" for i in keys]
    where = f" WHERE {' AND '.join(f'({sql})' for sql in query.pushed)}" if query.pushed else ""
    group = f" GROUP BY {', '.join(str(j + 1) for j in range(len(keys)))}" if keys else ""
    return f"SELECT {', '.join([*columns, f'CAST({aggregate.text} AS DOUBLE) AS v'])} FROM release{where}{group}"
