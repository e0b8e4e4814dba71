"""Pieces of CSV that Arrow reads: the cells that the engine finds in them, or none."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from sfumato.engines.duckdb import csv_pieces
from sfumato.engines.duckdb.connection import connect
from sfumato.engines.duckdb.csv_pieces import NotPlainError, plain_pieces
from sfumato.engines.duckdb.numbered_counts import numbered_counts

CELLS = (
    "",
    " ",
    "1",
    "01",
    "+1",
    "x",
    "NA",
    "é",
    '""',
    '"x"',
    '"x,y"',
    '"x""y"',
    '"NA"',
    "a b",
    "'",
    "\\",
    "#",
    "\x1a",
)
ODD = ('"', ' "x"', 'x"y', '"x"y', '"\n"', "\r", "\0", "\ufeff", '"" ', "\\" + '"')


def by_arrow(path: Path, names: list[str], delimiter: str, null: tuple[str, ...]) -> list[dict[str, str]] | None:
    """The rows; None where they are left to the engine."""
    try:
        return [row for piece in plain_pieces([str(path)], names, delimiter, null) for row in piece().to_pylist()]
    except NotPlainError:
        return None


def by_engine(path: Path, names: list[str], delimiter: str, null: tuple[str, ...]) -> list[dict[str, str]]:
    with connect() as con:
        return (
            con.read_csv(
                [str(path)],  # type: ignore[arg-type] # it takes lists
                columns=dict.fromkeys(names, "VARCHAR"),
                delimiter=delimiter,
                header=True,
                quotechar='"',
                escapechar='"',
                strict_mode=True,
                null_padding=False,
                auto_detect=False,
                na_values=["", *null],
            )
            .to_arrow_table()
            .to_pylist()
        )


@pytest.mark.parametrize("seed", range(4))
def test_cells_are_those_that_the_engine_finds(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in them: a text that Arrow reads otherwise, or that the engine refuses, is not read by Arrow."""
    rng, path, read = Random(seed), tmp_path / "t.csv", 0
    for _ in range(60):
        names, delimiter = ["a", "b", "c"][: rng.choice([1, 2, 3])], rng.choice([",", ";", "\t", "|"])
        cells, end = rng.sample((*CELLS, *CELLS, *ODD), 5), rng.choice(["\n", "\r\n"])
        lines = [delimiter.join(f'"{name}"' for name in names)]
        for _ in range(rng.choice([1, 3, 40])):
            many = len(names) if rng.random() < 0.98 else rng.randint(0, 4)
            lines.append(delimiter.join(rng.choice(cells).replace(",", delimiter) for _ in range(many)))
        path.write_bytes((end.join(lines) + rng.choice([end, ""])).encode())
        monkeypatch.setattr(csv_pieces, "PIECE", rng.choice([16, 64, 1 << 20]))
        null = rng.choice([(), ("NA",), ("x", " ")])
        found = by_arrow(path, names, delimiter, null)
        if found is not None:
            read += len(found) > 0
            assert found == by_engine(path, names, delimiter, null)
    assert read > 5, "nothing was compared"


@pytest.mark.parametrize(
    "text",
    [
        b"a,b\n1,2\n1\n",
        b"a,b\n1,2\n\n1,2\n",
        b"a,b\n1,2\r\n1,2\n",
        b"a,b\r\n1,2\r\n1,2\n",
        b'a,b\n1,"2\n3"\n',
        b'a,b\n1, "2"\n',
        b'a,b\n1,"2"3\n',
        b'a,b\n1,2"3\n',
        b'a,b\n1,"2\n',
        b"a,b\n1,\xff\n",
        b"a,b\n1,\0\n",
        b"a,b\n" + b"x" * 2_000_001 + b",1\n",
        b"a" * 1_000_001 + b",b\n1,2\n",
    ],
)
def test_other_pieces_are_left_to_the_engine(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    assert by_arrow(path, ["a", "b"], ",", ()) is None


def test_combinations_of_numbered_cells_are_counted_as_the_engine_counts_them() -> None:
    """Written in two ways, missing, and in batches with numbers of their own; else by nobody."""
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 0], pa.int8()), pa.array([1, 1, 5]))
    second = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array([5, 7]))
    words = pa.array(["x", "x", None, "y", "y", "x", None]).dictionary_encode()
    table = pa.table({"n": pa.chunked_array([first, second]), "w": words})
    found = numbered_counts(table, "rows")
    assert found is not None
    with connect() as con:
        plain = pa.table({name: pa.array(table[name].to_pylist()) for name in table.column_names})
        counted = con.from_arrow(plain).aggregate("n, w, count(*) AS rows", "n, w").to_arrow_table()
    key = [("n", "ascending"), ("w", "ascending")]
    assert found.sort_by(key).to_pylist() == counted.sort_by(key).to_pylist()
    assert numbered_counts(table.append_column("p", pa.array(range(7))), "rows") is None
    many = pa.array(range(300)).dictionary_encode()
    assert numbered_counts(pa.table({"a": many, "b": many}), "rows") is None
