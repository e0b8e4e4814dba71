"""A table of people with a job, a town, an age and a sex, and roles for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import sfumato as sf

Z = 1.959963984540054
JOBS = ("baker", "clerk", "driver", "farmer", "guard", "nurse", "smith", "tailor")
COUNTS = np.array([1100, 1000, 950, 800, 750, 600, 500, 300])


def workers(rows: int = 6000) -> pa.Table:
    """Jobs with unequal counts; women lean to the last jobs; age grows with the job."""
    rng = np.random.default_rng(8)
    job = np.repeat(np.arange(8), COUNTS * rows // 6000)
    woman = rng.random(len(job)) < np.linspace(0.2, 0.9, 8)[job]
    age = rng.integers(18, 40, len(job)) + 3 * job
    order = rng.permutation(len(job))
    return pa.table(
        {
            "job": pa.array(np.array(JOBS)[job[order]]),
            "sex": pa.array(np.where(woman[order], "f", "m")),
            "age": pa.array(age[order], pa.int32()),
            "town": pa.array(np.array(["a", "b", "c", "d", "e"])[rng.integers(0, 5, len(job))]),
        }
    )


ROLES = sf.Roles(sensitive="job", quasi=["sex", "age", "town"])
TWO = sf.Roles(sensitive=("job", "town"), quasi=["sex", "age"])


def histogram(table: pa.Table, column: str, values=JOBS) -> np.ndarray:
    cells = np.asarray(table[column].to_pylist())
    return np.array([(cells == v).sum() for v in values])
