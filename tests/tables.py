"""Small tables for tests, with marks that must never be seen again."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

DISEASES = ("angina", "bronchitis", "cold", "diabetes", "eczema", "flu", "gout", "hepatitis")
COUNTS = (211, 197, 181, 167, 151, 137, 113, 89)  # distinct, so that one of them in a bundle can be told
MARK = "zqxjmark"  # in names and cells that must not leave


def people(*, by_disease: bool = False) -> pa.Table:
    """1,246 people: name (identifying), row number, age, sex and disease; sorted by disease if asked."""
    rng = np.random.default_rng(5)
    disease = np.repeat(np.arange(len(COUNTS)), COUNTS)
    if not by_disease:
        rng.shuffle(disease)
    n = len(disease)
    return pa.table(
        {
            f"{MARK}_name": [f"{MARK}-{i}" for i in range(n)],
            "number": pa.array(np.arange(n), pa.int32()),
            "age": pa.array(rng.integers(18, 90, n), pa.int16()),
            "sex": pa.array(np.where(rng.random(n) < 0.5, "f", "m")),
            "disease": pa.array(np.array(DISEASES)[disease]),
        }
    )


def with_traces(table: pa.Table) -> pa.Table:
    """The table as a careless tool leaves it: metadata with marks, a dictionary in order of first appearance."""
    names = table.column_names
    for name in ("sex", "disease"):
        table = table.set_column(names.index(name), name, table[name].combine_chunks().dictionary_encode())
    pandas = json.dumps({"index_columns": [MARK], "creator": MARK, "columns": [{"name": f"{MARK}_name"}]})
    return table.replace_schema_metadata({"pandas": pandas, "owner": MARK})


ROLES = ("--sa", "disease", "--qi", "age,sex", "--keep", "number", "--drop", f"{MARK}_name")
