"""Two generated tables in which people have several rows. No record is real."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

MARK = "zqxperson"  # in every identifier: it must never be seen again
RACES = ("a", "b", "c", "d", "e")
CODES = tuple(f"d{i:02}" for i in range(12))


def visits(people: int = 400, most: int = 15, seed: int = 3) -> pa.Table:
    """Visits of patients, each with 1 to `most` of them; race is the same on all rows of a patient."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, most + 1, people)
    who = rng.permutation(np.repeat(np.arange(people), rows))
    race = rng.choice(len(RACES), people, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    return pa.table(
        {
            "patient": [f"{MARK}-{i}" for i in who],
            "age": pa.array(rng.integers(20, 90, people)[who], pa.int32()),
            "race": np.array(RACES)[race[who]],
        }
    )


def purchases(people: int = 700, seed: int = 4) -> pa.Table:
    """Purchases: most people have one or two, some many; the code differs from row to row."""
    rng = np.random.default_rng(seed)
    rows = np.minimum(rng.geometric(0.5, people), 9)
    who = np.repeat(np.arange(people), rows)
    share = np.linspace(2, 1, len(CODES))
    return pa.table(
        {
            "customer": pa.array(who * 7 + 10_000, pa.int64()),
            "town": np.array(["n", "s", "w"])[rng.integers(0, 3, people)[who]],
            "code": np.array(CODES)[rng.choice(len(CODES), len(who), p=share / share.sum())],
        }
    )
