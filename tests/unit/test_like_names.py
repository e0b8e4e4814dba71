"""Two columns whose names look alike: one rule, upper and lower case, for publishing, verifying and asking.

The micro sign and the Greek letter are two characters, but `casefold` makes them one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from contract.examples import DISEASES, SEXES, diseases, spec
from sfumato.errors import DataError
from sfumato.methods import REGISTRY

MICRO, GREEK = "\N{MICRO SIGN}g", "\N{GREEK SMALL LETTER MU}g"


def table(first: str, second: str) -> pa.Table:
    columns = diseases()
    sexes = [SEXES[code] for code in columns["sex"]]
    return pa.table(
        {
            "disease": [DISEASES[code] for code in columns["disease"]],
            "sex": sexes,
            first: sexes,
            second: [sex + "x" for sex in sexes],
        }
    )


def publish(name: str, first: str, second: str, out: Path) -> None:
    roles = sf.Roles(sensitive="disease", quasi=["sex", first, second])
    sf.publish(table(first, second), out, roles=roles, method=spec(name), seed=1, accept_unprotected=True)


@pytest.mark.parametrize("name", REGISTRY)
def test_names_that_only_look_alike_are_two_columns(name: str, tmp_path: Path) -> None:
    publish(name, MICRO, GREEK, tmp_path / "out")
    sf.verify(tmp_path / "out", test=True)
    release = sf.open_release(tmp_path / "out")
    assert {MICRO, GREEK} <= {column.name for column in release.manifest.columns}
    groups = {
        release.sql(f'SELECT "{column}", COUNT(*) AS n FROM release GROUP BY 1').rows()[0][column]
        for column in (MICRO, GREEK)
    }
    assert len(groups) == 2


def test_names_that_differ_in_case_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="upper and lower case count as the same") as refused:
        publish(
            "uniform",
            "\N{LATIN SMALL LETTER E WITH ACUTE}ge",
            "\N{LATIN CAPITAL LETTER E WITH ACUTE}ge",
            tmp_path / "out",
        )
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
