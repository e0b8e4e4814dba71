"""A table small enough to compare methods on in seconds; its sensitive value goes with two of its columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sfumato.model.public import Roles

QUASI = ("area", "sex", "grade")


def people(rows: int = 3000, values: int = 12, seed: int = 5, decay: float = 0.93) -> pa.Table:
    """Rows with columns area (6), sex (2), grade (0..9) and disease (`values`, frequencies falling by `decay`)."""
    rng = np.random.default_rng(seed)
    area, sex = rng.integers(6, size=rows), rng.integers(2, size=rows)
    shares = decay ** np.arange(values)
    disease = rng.choice(values, p=shares / shares.sum(), size=rows)
    moved = rng.random(rows) < 0.25
    disease = np.where(moved, (2 * area + sex) % values, disease)
    grade = np.clip(disease // 2 + rng.integers(-2, 5, size=rows), 0, 9)
    return pa.table(
        {
            "area": [f"area {a}" for a in area],
            "sex": np.array(["f", "m"])[sex].tolist(),
            "grade": grade,
            "disease": [f"d{d:02d}" for d in disease],
        }
    )


def roles(quasi: Sequence[str] = QUASI) -> Roles:
    """disease is sensitive."""
    return Roles(sensitive="disease", quasi=tuple(quasi), rest="drop")
