"""A table of people whose pay is one of twelve numbers, and ways to publish it as sets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import sfumato as sf

ROWS = 20_000
PAYS = tuple(range(10, 34, 2))
RHOS = {"rho1": "1/5", "rho2": "1/3"}
ROLES = sf.Roles(sensitive="pay", quasi=["sex", "age"])


def table(seed: int = 1) -> pa.Table:
    """Twelve pays, not all alike frequent, that go with age."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 60, ROWS)
    shares = np.linspace(2, 1, len(PAYS))
    pay = rng.choice(PAYS, ROWS, p=shares / shares.sum())
    return pa.table({"age": age, "pay": np.where(age > 50, PAYS[-1], pay), "sex": rng.choice(["f", "m"], ROWS)})


METHODS = {
    "table-wide": sf.SubsetResponse(**RHOS),
    "sub-tables": sf.SmallDomain(**RHOS, report="set"),
    "ranges": sf.SubsetResponse(**RHOS, workload="ranges"),
    "sums in sub-tables": sf.SmallDomain(**RHOS, workload="sum:0.5,histogram:0.5"),
}
