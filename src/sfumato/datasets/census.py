"""A generator of census-like tables of any size, with the nine columns of the CENSUS benchmark.

No record is real. A fixed *population* of KINDS kinds of people is computed from the formulas below; it does not
depend on the seed. A row is one draw of a kind, the low-numbered ones more often. So the joint distribution is peaked,
as in a real census: ten million rows have fewer than two hundred thousand distinct cells, and more rows only make the
cells heavier.

Everything hangs on the occupation, through three scores in [-1, 1]: its standing (education, salary), its share of men
(gender) and its public sector (workclass). Age drives marital status and salary; race drives country.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import SpecError

Floats = NDArray[np.float64]
Ints = NDArray[np.int16]

KINDS = 200_000
CHUNK = 1 << 20  # rows per random stream: (seed, chunk number) fixes them, whatever the batch size
DOMAIN_SIZES = {
    "age": 79,
    "gender": 2,
    "education": 17,
    "marital": 5,
    "race": 9,
    "workclass": 8,
    "country": 83,
    "occupation": 50,
    "salary": 50,
}
SCHEMA = pa.schema([(name, pa.int16()) for name in DOMAIN_SIZES])
MIN_AGE = 17
HOME = 79  # the country code of most people

# Rounded shares, in percent: how common each value is before the scores tilt it.
_EDUCATION = np.array([1.2, 0.8, 0.3, 0.8, 1.2, 1.4, 1.8, 1.7, 20.0, 3.6, 6.4, 16.0, 9.4, 22.0, 10.0, 2.4, 1.6])
_RACE = np.array([0.1, 0.8, 0.2, 6.2, 9.6, 0.3, 4.4, 3.0, 75.4])
_WORKCLASS = np.array([66.0, 8.6, 2.8, 7.6, 3.8, 6.4, 4.6, 0.2])
_HOME_SHARE = np.array([97, 96, 94, 26, 83, 60, 42, 85, 91]) / 100  # by race
# Divorced, married, never married, separated, widowed; by age from 17, 25, 35, 50, 65, 80.
_MARITAL = np.array(
    [
        [0.5, 5.5, 93.4, 0.5, 0.1],
        [5.0, 48.0, 44.6, 2.2, 0.2],
        [12.5, 65.0, 18.8, 3.0, 0.7],
        [17.5, 66.0, 11.0, 2.3, 3.2],
        [16.0, 64.0, 6.0, 1.2, 12.8],
        [8.0, 50.0, 4.0, 0.6, 37.4],
    ]
)
_MARITAL_FROM = np.array([25, 35, 50, 65, 80])


def census(n: int, seed: int = 0, *, batch_size: int = 1 << 17) -> pa.RecordBatchReader:
    """A reader of n rows in batches of integer codes; row i depends on the seed and i only."""
    if n < 0:
        raise SpecError(f"n must be a number of rows, 0 or more; got {n!r}", field="n")
    if seed < 0:
        raise SpecError(f"seed must be 0 or more; got {seed!r}", field="seed")
    if batch_size < 1:
        raise SpecError(f"batch_size must be 1 or more; got {batch_size!r}", field="batch_size")
    return pa.RecordBatchReader.from_batches(SCHEMA, _batches(n, seed, batch_size))


def census_table(n: int, seed: int = 0) -> pa.Table:
    """The same n rows as one table in memory."""
    return census(n, seed, batch_size=CHUNK).read_all()


def _batches(n: int, seed: int, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Batches of exactly batch_size rows (the last may be shorter)."""
    columns = tuple(np.ascontiguousarray(population()[name]) for name in DOMAIN_SIZES)
    left = np.empty(0, dtype=np.intp)
    for start in range(0, n, CHUNK):
        left = np.concatenate([left, _draw_kinds(seed, start // CHUNK)[: n - start]])
        whole = len(left) if start + CHUNK >= n else len(left) - len(left) % batch_size
        for first in range(0, whole, batch_size):
            kinds = left[first : min(first + batch_size, whole)]
            yield pa.RecordBatch.from_arrays([pa.array(column[kinds]) for column in columns], schema=SCHEMA)
        left = left[whole:]


def _draw_kinds(seed: int, chunk: int) -> NDArray[np.intp]:
    """CHUNK draws of a kind: floor(KINDS u^2) for u uniform on [0, 1), so kind k has weight near 1 / sqrt(k)."""
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, chunk])))
    u = rng.random(CHUNK)
    return (KINDS * u * u).astype(np.intp)


@cache
def population() -> dict[str, Ints]:
    """The KINDS kinds of people, one array of codes per column; the same in every call."""
    rng = np.random.Generator(np.random.Philox(key=1790))  # the year of the first US census
    standing, men, public = (_score(a) for a in (0.618, 0.414, 0.732))

    # Occupation: shares 1 / (rank + 6.1), the ranks scattered over the codes. An evenly spread u (golden ratio)
    # instead of a random one gives every stretch of kinds these shares.
    rank = np.arange(50.0) * 17 % 50
    u = (np.arange(float(KINDS)) + 0.5) * 0.6180339887498949 % 1.0
    occupation = _draw(np.zeros(KINDS, np.int16), (1.0 / (rank + 6.1))[np.newaxis], u)

    age_years = np.arange(79)
    age_center = 25.0 + 7.0 * standing[:, np.newaxis]
    age = _draw(occupation, np.exp(-(((age_years - age_center) / 17.0) ** 2) / 1.6) + 2e-3, rng.random(KINDS))
    years = age + MIN_AGE

    level = np.arange(17)
    wanted = 10.8 + 3.6 * standing[:, np.newaxis]
    schooling = _EDUCATION * np.exp(-(((level - wanted) / 3.0) ** 2) / 2.0) + 0.02
    education = _draw(occupation, schooling, rng.random(KINDS))

    share_men = 1.0 / (1.0 + np.exp(-2.4 * men))
    gender = _draw(occupation, np.stack([1.0 - share_men, share_men], axis=1), rng.random(KINDS))
    government = np.isin(np.arange(8), [2, 3, 6])
    sector = _WORKCLASS * np.exp(1.6 * public[:, np.newaxis] * government)
    workclass = _draw(occupation, sector, rng.random(KINDS))
    stage = np.searchsorted(_MARITAL_FROM, years, side="right").astype(np.int16)
    marital = _draw(stage, _MARITAL, rng.random(KINDS))
    race = _draw(np.zeros(KINDS, np.int16), _RACE[np.newaxis], rng.random(KINDS))
    country = _draw(race, _countries(), rng.random(KINDS))

    # Log-normal income in thousands: standing, schooling, gender and a hump over the working life.
    career = 1.0 - ((np.minimum(years, 65) - 48) / 31.0) ** 2
    center = 3.1 + 0.45 * standing[occupation] + 0.06 * (education - 10) + 0.2 * gender + 0.65 * career
    income = np.exp(center + 0.85 * rng.standard_normal(KINDS))
    salary = np.minimum(income // 4.0, 49).astype(np.int16)

    return {
        "age": years.astype(np.int16),
        "gender": gender,
        "education": education,
        "marital": marital,
        "race": race,
        "workclass": workclass,
        "country": country,
        "occupation": occupation,
        "salary": salary,
    }


def _score(a: float) -> Floats:
    """A score in [-1, 1] for each occupation: 50 points spread evenly, in an order of no meaning."""
    return 2.0 * (np.arange(50.0) * a % 1.0) - 1.0


def _countries() -> Floats:
    """Shares of the 83 birth places by race: home first, the others 1 / (rank + 1), each race with its own ranks."""
    codes, races = np.arange(83.0), np.arange(9.0)[:, np.newaxis]
    abroad: Floats = 1.0 / ((codes * 29 + races * 11) % 83 + 1.0)
    abroad[:, HOME] = 0.0
    abroad *= ((1.0 - _HOME_SHARE) / abroad.sum(axis=1))[:, np.newaxis]
    abroad[:, HOME] = _HOME_SHARE
    return abroad


def _draw(given: Ints, weights: Floats, u: Floats) -> Ints:
    """Codes drawn by inversion: u[i] in the cumulated shares of row given[i] of weights."""
    cumulated = np.cumsum(weights, axis=1)
    cumulated /= cumulated[:, -1:]
    # Row r occupies (r, r + 1] of one increasing sequence, so one binary search serves all rows.
    edges = (cumulated + np.arange(len(weights))[:, np.newaxis]).ravel()
    found = np.searchsorted(edges, given + u, side="right") - given.astype(np.intp) * weights.shape[1]
    return np.minimum(found, weights.shape[1] - 1).astype(np.int16)
