"""A table of every plain kind of column, and the release that it gives wherever it lies."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf

ROLES = sf.Roles(sensitive="Krankheit", quasi=["age", "sex", "größe, cm"], insensitive=["born"], identifying=["name"])
METHOD = sf.UniformPerturbation(rho1="1/4", rho2="1/2")
N = 1_000


def patients() -> pa.Table:
    """1,000 people, with names that must not leave, a name with a comma, gaps, dates and umlauts."""
    rng = np.random.default_rng(19)
    days = [datetime.date(1960, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 9000, N)]
    size = [None if i % 50 == 7 else round(float(h), 1) for i, h in enumerate(rng.normal(170, 9, N))]
    return pa.table(
        {
            "name": [f"zqxj{i}" for i in range(N)],
            "age": rng.integers(18, 90, N),
            "sex": rng.choice(["männlich", "weiblich"], N),
            "größe, cm": pa.array(size, pa.float64()),
            "born": pa.array(days),
            "Krankheit": rng.choice(["Grippe", "Gicht", "Ekzem", "Angina", "Asthma"], N),
        }
    )


def digests(source: Any, roles: sf.Roles = ROLES) -> tuple[str, Any]:
    """(digest of the rows, what release.json states)."""
    release = sf.publish(source, roles=roles, method=METHOD, seed=3)
    return rows_digest(release), release.manifest.model_dump(mode="json")


def rows_digest(release: sf.Release) -> str:
    """The digest of the published rows."""
    return hashlib.sha256((release.opened.path / "data.parquet").read_bytes()).hexdigest()
