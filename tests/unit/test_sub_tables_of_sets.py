"""Sub-tables that the numbers of sets say, and the column of sub-tables that a release shows beside them."""

from __future__ import annotations

from pathlib import Path

import sfumato
from comparing import people


def test_sub_tables_of_sets_are_looked_at_by_whoever_verifies(tmp_path: Path) -> None:
    """A question does not read the column, because the number of a set says the sub-table; verify compares both."""
    roles = sfumato.Roles(sensitive="disease", quasi=("area", "sex"), rest="drop")
    spec = sfumato.SmallDomain(rho1="1/3", rho2="1/2", min_size=2000, report="set")
    opened = sfumato.publish(people(12_000), tmp_path / "out", roles=roles, method=spec, seed=2).opened
    assert opened.part is None
    part, codes, count = opened.published.evidence.totals((0,))
    assert (part == opened.law.tables.part_of(codes[:, 0])).all()
    assert int(count.sum()) == 12_000
    assert not opened.evidence.totals((0,))[0].any()
