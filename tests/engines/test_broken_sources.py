"""Broken input of many kinds through the real command: one clear line, no cell quoted, nothing written or left."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from commands import sfumato
from sfumato.engines import scratch

pytest.importorskip("fastexcel")
pyreadstat = pytest.importorskip("pyreadstat")
MARK = "zqxjmark"
TEXT = "s,age\n" + f"{MARK},1\ncold,2\nflu,3\n" * 30
TABLE = pa.table({"s": [MARK, "cold", "flu"] * 30, "age": [1, 2, 3] * 30})
Make = Callable[[Path], object]


def _bytes(name: str, content: bytes | str) -> Make:
    return lambda f: (f / name).write_bytes(content.encode() if isinstance(content, str) else content)


def _zip(**files: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return made.getvalue()


def _zstd(folder: Path) -> None:
    with pa.output_stream(folder / "t.csv.zst", compression="zstd") as stream:
        stream.write(TEXT.encode())
    whole = (folder / "t.csv.zst").read_bytes()
    (folder / "t.csv.zst").write_bytes(whole[: len(whole) // 2])


def _excel(*rows: tuple[object, ...], sheets: int = 1) -> Make:
    def make(folder: Path) -> None:
        import xlsxwriter

        book = xlsxwriter.Workbook(str(folder / "t.xlsx"))
        for _ in range(sheets):
            sheet = book.add_worksheet()
            for i, row in enumerate(rows):
                sheet.write_row(i, 0, row)
        book.close()

    return make


def _folder(**files: str) -> Make:
    def make(folder: Path) -> None:
        (folder / "d").mkdir()
        for name, text in files.items():
            (folder / "d" / name).write_text(text)

    return make


def _half(write: Callable[[Path], object], name: str) -> Make:
    def make(folder: Path) -> None:
        write(folder / name)
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])

    return make


def _lines(*rows: object) -> str:
    return "\n".join(json.dumps(row) for row in rows) + "\n"


ROW = {"s": MARK, "age": 1}
CASES: dict[str, tuple[Make, str, str]] = {
    # CSV
    "empty": (_bytes("t.csv", ""), "t.csv", "empty"),
    "header only": (_bytes("t.csv", "s,age\n"), "t.csv", "no rows"),
    "ragged": (_bytes("t.csv", TEXT + f"{MARK},1,2\n"), "t.csv", "ragged"),
    "open quote": (_bytes("t.csv", TEXT + f'"{MARK},1\n'), "t.csv", "quote|CSV"),
    "doubled name": (_bytes("t.csv", f"s,s\n{MARK},1\n"), "t.csv", "twice"),
    "name missing": (_bytes("t.csv", f"s,\n{MARK},1\n"), "t.csv", "names every column"),
    "Latin-1": (_bytes("t.csv", (TEXT + f"{MARK}ü,1\n").encode("latin-1")), "t.csv", "--encoding"),
    "Latin-1 header": (_bytes("t.csv", f"sü,age\n{MARK},1\n".encode("latin-1")), "t.csv", "--encoding"),
    "another encoding": (
        _bytes("t.csv", (TEXT + f"{MARK}ü,1\n").encode("latin-1")),
        "t.csv --encoding ascii",
        "ASCII|ascii|UTF-8",
    ),
    "not UTF-16": (_bytes("t.csv", TEXT + "x"), "t.csv --encoding utf-16", "encoding utf-16"),
    "no such encoding": (_bytes("t.csv", TEXT), "t.csv --encoding klingon", "no encoding"),
    "two delimiters": (_bytes("t.csv", TEXT), "t.csv --delimiter ;;", "one character"),
    "gzip cut off": (_bytes("t.csv.gz", gzip.compress(TEXT.encode())[:-20]), "t.csv.gz", "damaged"),
    "gzip that is none": (_bytes("t.csv.gz", TEXT), "t.csv.gz", "damaged"),
    "zstd cut off": (_zstd, "t.csv.zst", "damaged"),
    "zstd that is none": (_bytes("t.csv.zst", TEXT), "t.csv.zst", "damaged"),
    "zip of two": (_bytes("t.csv.zip", _zip(a=TEXT, b=TEXT)), "t.csv.zip", "2 files"),
    "zip of none": (_bytes("t.csv.zip", _zip()), "t.csv.zip", "0 files"),
    "zip that is none": (_bytes("t.csv.zip", TEXT), "t.csv.zip", "damaged"),
    "packed Parquet": (_bytes("t.parquet.gz", TEXT), "t.parquet.gz", "none of the files"),
    # types
    "wrong type": (_bytes("t.csv", TEXT), "t.csv --types s=INTEGER", "90 cells"),
    "type without a column": (_bytes("t.csv", TEXT), "t.csv --types x=INTEGER", "no column"),
    "type that is none": (_bytes("t.csv", TEXT), "t.csv --types s=PERSON", "types are"),
    "type unsaid": (_bytes("t.csv", TEXT), "t.csv --types s", "COLUMN=VALUE"),
    # JSON
    "broken JSON": (_bytes("t.jsonl", _lines(ROW) + '{"s": \n'), "t.jsonl", "JSON lines"),
    "JSON of texts": (_bytes("t.jsonl", _lines(MARK, MARK)), "t.jsonl", "objects|JSON lines"),
    "nested JSON": (_bytes("t.jsonl", _lines(ROW | {"x": {"y": MARK}})), "t.jsonl", "lists or objects"),
    "listed JSON": (_bytes("t.jsonl", _lines(ROW | {"x": [MARK]})), "t.jsonl", "lists or objects"),
    "mixed JSON": (_bytes("t.jsonl", _lines(ROW, {"s": MARK, "age": [1]})), "t.jsonl", "several kinds|lists|JSON"),
    "null of JSON": (_bytes("t.jsonl", TEXT), "t.jsonl --null x", "CSV files only"),
    # Arrow's own
    "Parquet cut off": (_half(lambda p: pq.write_table(TABLE, p), "t.parquet"), "t.parquet", "damaged"),
    "Arrow cut off": (_half(lambda p: feather.write_feather(TABLE, p), "t.arrow"), "t.arrow", "damaged"),
    "ORC cut off": (_half(lambda p: orc.write_table(TABLE, p), "t.orc"), "t.orc", "damaged"),
    # Excel
    "workbook that is none": (_bytes("t.xlsx", TEXT), "t.xlsx", "workbook"),
    "two sheets": (_excel(("s", "age"), (MARK, 1), sheets=2), "t.xlsx", "--table"),
    "no such sheet": (_excel(("s", "age"), (MARK, 1)), "t.xlsx --table people", "no sheet"),
    "sheet without rows": (_excel(("s", "age")), "t.xlsx", "no others|table"),
    "sheet without names": (_excel(("s", ""), (MARK, 1)), "t.xlsx", "name every column"),
    "sheet with a name twice": (_excel(("s", "S"), (MARK, 1)), "t.xlsx", "twice"),
    # statistics packages
    "SPSS that is none": (_bytes("t.sav", TEXT), "t.sav", "damaged"),
    "Stata that is none": (_bytes("t.dta", TEXT), "t.dta", "damaged"),
    "SAS that is none": (_bytes("t.sas7bdat", TEXT), "t.sas7bdat", "damaged"),
    "Stata cut off": (_half(lambda p: pyreadstat.write_dta(TABLE.to_pandas(), str(p)), "t.dta"), "t.dta", "damaged"),
    # folders, lists, kinds
    "no file": (_bytes("t.csv", TEXT), "x.csv", "no file"),
    "no match": (_bytes("t.csv", TEXT), "x*.csv", "no file"),
    "unknown ending": (_bytes("t.docx", TEXT), "t.docx", "none of the files"),
    "empty folder": (_folder(), "d", "no table"),
    "mixed folder": (_folder(**{"a.csv": TEXT, "b.jsonl": _lines(ROW)}), "d", "beside"),
    "hidden file": (_folder(**{"a.csv": TEXT, ".b.csv": TEXT}), "d", "hidden"),
    "other columns": (_folder(**{"a.csv": TEXT, "b.csv": "s,height\nflu,1\n"}), "d", "other columns"),
    "mixed list": (_folder(**{"a.csv": TEXT, "b.jsonl": _lines(ROW)}), "d/a.csv --also d/b.jsonl", "different kinds"),
    "part missing": (_bytes("t.csv", TEXT), "t.csv --also x.csv", "no file"),
    "table of a file": (_bytes("t.csv", TEXT), "t.csv --table x", "workbook"),
    "query of a file": (_bytes("t.csv", TEXT), "t.csv --query SELECT", "database"),
    # CSV as careless people have it
    "two line ends": (_bytes("t.csv", TEXT.replace("\n", "\r\n", 7)), "t.csv", "line ends"),
    "one long line": (_bytes("t.csv", MARK * 400_000), "t.csv", "2 MB"),
    "a long quoted header": (_bytes("t.csv", '"' + (MARK + "\n") * 400_000), "t.csv", "no header"),
    "gzip by another name": (_bytes("t.csv", gzip.compress(TEXT.encode())), "t.csv --encoding latin-1", "but gzip"),
    "gzip twice": (_bytes("t.csv.gz", gzip.compress(gzip.compress(TEXT.encode()))), "t.csv.gz", "but gzip"),
    "zip by another name": (_bytes("t.csv", _zip(t=TEXT)), "t.csv", "zip archive"),
    # coarser
    "bins of text": (_bytes("t.csv", TEXT), "t.csv --bins s=1,2", "numbers"),
    "bins below": (_bytes("t.csv", TEXT), "t.csv --bins age=2,3", "below the first edge"),
    "rounded text": (_bytes("t.csv", TEXT), "t.csv --round s=5", "numbers"),
    "cut nothing": (_bytes("t.csv", TEXT), "t.csv --top-code x=5", "no column"),
}


def _listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("case", CASES)
def test_broken_input_is_one_line_and_nothing_written(case: str, tmp_path: Path) -> None:
    make, command, said = CASES[case]
    make(tmp_path)
    before, held = _listing(tmp_path), set(scratch.run_folder().iterdir())
    source, *options = command.split(" ")
    method = ("--sa", "s", "--rest", "quasi", "--method", "uniform", "--rho1", "1/2", "--rho2", "3/4")
    done = sfumato("publish", source, "out", *method, "--accept-unprotected", *options, cwd=tmp_path)
    assert done.code == 2, done.text
    assert done.out == ""
    (line,) = done.err.strip().splitlines()
    assert MARK not in line
    assert re.search(said, line), line
    assert _listing(tmp_path) == before
    left = set(scratch.run_folder().iterdir()) - held
    assert not [p for p in left if any(p.rglob("*"))]
