"""Where cells stand among the values of a domain: the same, however they are looked up."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sfumato.engines.codes import places

DOMAINS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "near": (pa.int16(), [5, 3, 9]),
    "in a row": (pa.int16(), [3, 4, 5]),
    "all near": (pa.int16(), [4, 3, 5]),
    "all bytes": (pa.int8(), [-128, 127, 0]),
    "bytes": (pa.int8(), [-128, 100, 99]),
    "words": (pa.int16(), [-32_768, 32_000]),
    "signed": (pa.int64(), [-(2**63), -(2**63) + 70]),
    "unsigned": (pa.uint64(), [2**64 - 1, 2**64 - 9]),
    "far": (pa.int32(), [0, 2**31 - 1]),
    "missing": (pa.int32(), [1, None, 2]),
    "texts": (pa.string(), ["b", "a", None]),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_cells_inside_and_outside(name: str) -> None:
    kind, values = DOMAINS[name]
    outside = ["c"] if kind == pa.string() else [0, 1, 4, 7, 100] if kind != pa.int8() else [1, 4]
    distinct = pa.array(values, kind)
    for cells in (values[::-1] * 3, values + outside, [*values, None], outside, [None], []):
        expected = [values.index(cell) if cell in values else -1 for cell in cells]
        assert places(pa.array(cells, kind), distinct).tolist() == expected
        assert places(pa.chunked_array([pa.array(cells, kind).dictionary_encode()]), distinct).tolist() == expected
