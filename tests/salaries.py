"""Eleven people with a zip code, a sex and a salary, and ways to publish them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import sfumato as sf

SALARIES = pa.table(
    {
        "zip": ["91110", "91110", "91120", "91120", "91210", "91220", "91240", "91310", "91310", "91320", "91330"],
        "sex": list("FMMF" + "FFF" + "MMMF"),
        "salary": [30, 40, 50, 60, 40, 30, 50, 40, 60, 60, 60],
    }
)
ROLES = sf.Roles(sensitive="salary", quasi=["zip", "sex"])


def by_zip(**options: Any) -> sf.TargetDistribution:
    return sf.TargetDistribution(
        **{"target": "uniform", "partition_by": ["zip[:3]"], "fakes": 0, "min_group": 3} | options
    )


def publish(folder: Path, table: pa.Table, roles: sf.Roles, method: Any) -> sf.Release:
    folder.mkdir(exist_ok=True)
    return sf.publish(table, folder / "release", roles=roles, method=method, seed=1, force=True)
