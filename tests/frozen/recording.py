"""What is kept of a release, the files it is kept in, and how numbers of two runs are compared."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

RECORDED = Path(__file__).parent / "recorded"
DIGITS = 9  # of a recorded number; three more than are compared
NEARLY_ZERO = 1e-7  # what cancels to 0 on one processor may leave this much on another,
OF_THE_LARGEST = 1e-9  # or, as the root of a rounding error, this share of the largest number beside it
SETS_SHOWN = 12
UNSTEADY = {"seconds", "bytes"}  # entries of documents that are how fast and how small, not what is found


# --- what a release holds, whatever the format of its files -----------------------------------------------------------


def decoded_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of data.parquet in the file's order; a cell that shows a set is the sorted list of its values."""
    rows = pq.read_table(folder / "data.parquet").to_pylist()
    if (folder / "sets.parquet").exists():
        number, columns, sets = _sets(folder)
        for row in rows:
            shown = [values for values, member, *_ in sets[row.pop(number)] if member]
            for name, values in zip(columns, zip(*shown, strict=True), strict=True):
                row[name] = sorted(values, key=_order)
    return rows


def decoded_sets(folder: Path) -> list[list[Any]]:
    """The sets that rows show, in the order of their values: (value, weight, variance weight) of each value in it."""
    if not (folder / "sets.parquet").exists():
        return []
    number, _, sets = _sets(folder)
    shown = set(pq.read_table(folder / "data.parquet")[number].to_pylist())
    listed = [
        sorted(
            ([value[0], round(w, DIGITS), round(w2, DIGITS)] for value, member, w, w2 in sets[one] if member),
            key=lambda row: _order(row[0]),
        )
        for one in shown
    ]
    return sorted(listed, key=lambda one: [(_order(value), *weighed) for value, *weighed in one])


def _sets(folder: Path) -> tuple[str, list[str], dict[int, list[Any]]]:
    """The column of set numbers, the columns whose values the sets hold, and by number the rows of sets.parquet."""
    table = pq.read_table(folder / "sets.parquet")
    number, *values = table.column_names[:-3]
    columns = [number.removesuffix("_set")] if values == ["value"] else [name.removeprefix("value_") for name in values]
    found: dict[int, list[Any]] = {}
    for one, *cells in zip(*table.to_pydict().values(), strict=True):
        found.setdefault(one, []).append((tuple(cells[:-3]), *cells[-3:]))
    return number, columns, found


def side_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of sensitive.parquet; none where there is no such file."""
    file = folder / "sensitive.parquet"
    return pq.read_table(file).to_pylist() if file.exists() else []


def _order(value: Any) -> tuple[bool, str, Any]:
    """Any order of the values of a column, with gaps last."""
    return (value is None, type(value).__name__, value if value is not None else 0)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many rows, a digest over all of them by column name, and the first three as they are."""
    lines = [json.dumps(row, sort_keys=True, ensure_ascii=False, default=str) for row in rows]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return {"rows": len(rows), "sha256": digest} | {str(i): json.loads(line) for i, line in enumerate(lines[:3])}


# --- files ------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """The value as JSON has it, numbers to nine digits; what is not a number (NaN, infinite) is a word."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items() if key not in UNSTEADY}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def text_of(document: dict[str, Any]) -> str:
    """JSON with a line for each entry, so that a difference is one line."""
    lines = [
        f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(inner, ensure_ascii=False)}"
        for key, inner in document.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def differences(found: Any, kept: Any, tolerance: float, at: str = "", near: float = NEARLY_ZERO) -> Iterator[str]:
    """Where two documents differ: numbers by more than the relative tolerance (or `near`), all else at all."""
    if isinstance(found, dict) and isinstance(kept, dict):
        for key in kept.keys() | found.keys():
            if key not in found or key not in kept:
                yield f"{at}/{key}: only {'recorded' if key in kept else 'found'}"
            else:
                yield from differences(found[key], kept[key], tolerance, f"{at}/{key}")
    elif isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        near = max([NEARLY_ZERO, *(abs(number) * OF_THE_LARGEST for number in kept if _number(number))])
        for i, (one, other) in enumerate(zip(found, kept, strict=True)):
            yield from differences(one, other, tolerance, f"{at}/{i}", near)
    elif _number(found) and _number(kept):
        if not math.isclose(found, kept, rel_tol=tolerance, abs_tol=near):
            yield f"{at}: {found} instead of {kept}"
    elif found != kept or type(found) is not type(kept):
        yield f"{at}: {found!r} instead of {kept!r}"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare(name: str, document: dict[str, Any], tolerance: float, *, update: bool) -> None:
    """Hold a document to the recorded file of that name, or record it."""
    file = RECORDED / f"{name}.json"
    found = plain(document)
    if update:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text_of(found), encoding="utf-8")
    assert file.exists(), f"{file.name} is missing; --update-golden writes it"
    wrong = sorted(differences(found, json.loads(file.read_text(encoding="utf-8")), tolerance))
    assert not wrong, f"{name}, {len(wrong)} differences:\n" + "\n".join(line[:400] for line in wrong[:20])
