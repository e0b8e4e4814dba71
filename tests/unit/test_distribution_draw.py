"""distribution-draw, the baseline that keeps the histogram and no link between columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import SpecError
from workers import COUNTS, ROLES, TWO, histogram, workers


class TestDistributionDraw:
    """The baseline."""

    def test_plain_counts_without_an_error(self):
        release = sf.publish(workers(), roles=ROLES, method=sf.DistributionDraw(), seed=5)
        table = pq.read_table(release.path / "data.parquet")
        counts = histogram(table, "job")
        assert (np.abs(counts - COUNTS) < 6 * np.sqrt(COUNTS)).all()
        answer = release.sql("SELECT job, COUNT(*) AS n FROM release WHERE sex = 'f' GROUP BY job ORDER BY job")
        women = histogram(table.filter(pa.compute.equal(table["sex"], "f")), "job")
        assert [row["n"] for row in answer.rows()] == pytest.approx(women)
        assert all(row["n_se"] is None for row in answer.rows())
        assert any("baseline" in caveat for caveat in answer.caveats)
        assert release.manifest.parameters == {}
        assert release.guarantee.trust == "baseline"

    def test_one_column_only(self):
        with pytest.raises(SpecError, match="one sensitive column"):
            sf.publish(workers(), roles=TWO, method=sf.DistributionDraw())
