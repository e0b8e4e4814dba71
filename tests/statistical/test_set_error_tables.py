"""Expected errors of set-valued reports on the census stand-in, against the tables of the channels' specification.

The printed figures have three digits, so each stands for an interval, and so does the ratio of two. What we expect
must lie within 2 % of it (TOLERANCE, the specification's own acceptance limit). Everything is algebra from the plan:
sqrt(2 / pi) standard error over truth, as printed; nothing is drawn.

The query pool is not the one behind the printed figures (ours has 1350, 660 and 337 questions, theirs had 1251, 650
and 331; AVG has 72 conditions for 68), so ratios to `uniform` on the same pool are what is comparable: other seeds of
the pool move figures by up to 6 %, and the ratios of small-domain by up to 3 %, as questions fall on other sub-tables.
Occupation: ratios are at most 1.5 % off what the digits allow, the figures themselves 1.4 %. Without that allowance
three of 36 ratios pass 2 %, all at selectivity 0.5 %: small-domain at gamma 12 by value (2.4 %) and by set (2.3 %), and
by set at gamma 2.4 (2.1 %).
Salary: all ratios hold but two. Table-wide lists made for sums, at gamma 6, have 6.5 % more error on counts and 5.7 %
on AVG: we make lists for a flat prior, those printed were made for the histogram. Made so, ours agree, which is tested.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.small_domain_errors import QUASI, SEED, SELECTIVITIES, census, pool

import sfumato as sf
from sfumato.laws.set_channel import set_answers
from sfumato.methods.shared import workloads
from sfumato.methods.shared.workloads import FLOOR, optimise
from sfumato.model.public import Floats
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("data_dir")]

TOLERANCE = 0.02
HALF_DIGIT = 0.0005  # of figures printed with three
MEAN_ABSOLUTE = np.sqrt(2 / np.pi)  # of a standard normal
VALUES, CONDITIONS = 50, 200
HALF_PER_CENT = SELECTIVITIES[1]
UNIFORM = "uniform"

OCCUPATION = {  # by rho2: mean relative error of counts of a true selectivity of at least 0.1, 0.5 and 1 %
    "1/6": {
        UNIFORM: (0.979, 0.543, 0.355),
        "subset-response": (0.413, 0.229, 0.149),
        "small-domain value": (0.250, 0.142, 0.108),
        "small-domain set": (0.184, 0.104, 0.080),
    },
    "1/4": {
        UNIFORM: (0.470, 0.261, 0.172),
        "subset-response": (0.248, 0.137, 0.089),
        "small-domain value": (0.127, 0.073, 0.056),
        "small-domain set": (0.110, 0.062, 0.048),
    },
    "1/3": {
        UNIFORM: (0.291, 0.162, 0.107),
        "subset-response": (0.181, 0.100, 0.066),
        "small-domain value": (0.084, 0.048, 0.037),
        "small-domain set": (0.079, 0.045, 0.034),
    },
    "1/2": {
        UNIFORM: (0.144, 0.081, 0.054),
        "subset-response": (0.114, 0.064, 0.042),
        "small-domain value": (0.047, 0.027, 0.021),
        "small-domain set": (0.047, 0.027, 0.021),
    },
}
SALARY = {  # by rho2: of counts at 0.5 %, and of AVG over conditions that 0.5 % of the rows meet
    "1/6": {
        UNIFORM: (0.412, 0.401),
        "subset-response": (0.173, 0.168),
        "small-domain value": (0.128, 0.084),
        "small-domain set": (0.094, 0.062),
        "subset-response, sum": (0.206, 0.049),
        "small-domain, sum": (0.120, 0.037),
    },
    "1/3": {
        UNIFORM: (0.124, 0.121),
        "subset-response": (0.076, 0.074),
        "small-domain value": (0.043, 0.028),
        "small-domain set": (0.040, 0.026),
        "subset-response, sum": (0.092, 0.022),
        "small-domain, sum": (0.054, 0.017),
    },
}
FOR_THE_HISTOGRAM = ("1/3", "subset-response, sum")  # what was printed is not what a flat prior leads to


def spec(name: str, rho2: str) -> Any:
    rhos = {"rho1": "1/13", "rho2": rho2}
    match name:
        case "uniform":
            return sf.UniformPerturbation(**rhos)
        case "subset-response":
            return sf.SubsetResponse(**rhos)
        case "subset-response, sum":
            return sf.SubsetResponse(**rhos, workload="sum")
        case "small-domain, sum":
            return sf.SmallDomain(**rhos, workload="sum")
    return sf.SmallDomain(**rhos, report=name.removeprefix("small-domain "))


@cache
def table() -> pa.Table:
    return census()


@cache
def counts(column: str) -> Floats:
    """True counts of the pool, (conditions, values)."""
    codes, columns = table()[column].to_numpy(), {name: table()[name].to_numpy() for name in QUASI}
    assert (codes.min(), codes.max()) == (0, VALUES - 1), "codes are places"
    return np.array(
        [
            np.bincount(codes[np.logical_and.reduce([columns[n] == v for n, v in c.items()])], minlength=VALUES)
            for c in pool(table(), CONDITIONS)
        ],
        dtype=np.float64,
    )


def by_value(size: int, p: Fraction, q: Fraction, functionals: Floats) -> Floats:
    """Variance for one record of each value where one value is published: kept with p, else any with q each."""
    omega = (functionals - float(q) * functionals.sum(axis=1, keepdims=True)) / float(p)
    return np.asarray(omega**2 @ (float(p) * np.eye(size) + float(q)) - functionals**2)


def variance(column: str, name: str, rho2: str, functionals: Floats) -> Floats:
    """(F, values): variance of the answers for one record of each value, mean over the sub-tables it may go to."""
    found = prepare(
        table().select([column, "gender"]),
        roles=sf.Roles(sensitive=column, quasi=["gender"]),
        method=spec(name, rho2),
        secret=Secret.from_seed(SEED),
    )
    law: Any = found.planned.law
    if name == UNIFORM:
        ((p, q),) = law.channels
        return by_value(VALUES, p, q, functionals)
    if name.startswith("subset-response"):
        return law.tables.answers(0).variance(functionals)
    share, total = law.shares(found.planned.work, found.profile), np.zeros(functionals.shape)
    assert share.sum(axis=0) == pytest.approx(1)
    for i, domain in enumerate(np.array(d) for d in law.domains):
        here = functionals[:, domain]
        if name.endswith("value"):
            own = by_value(len(domain), *law.channels[i], here)
        else:
            own = law.tables.answers(i).variance(here)
        total[:, domain] += own * share[i, domain]
    return total


def count_errors(true: Floats, variances: Floats, selectivity: float) -> float:
    """Mean relative error of counts; `variances` are those of single values, (values, values)."""
    kept = true >= selectivity * table().num_rows
    return float(MEAN_ABSOLUTE * (np.sqrt(true @ variances.T)[kept] / true[kept]).mean())


def salary_errors(variances: Floats) -> Floats:
    """Of counts at 0.5 %, and of AVG: the last of the variances is that of the sum."""
    true, places = counts("salary"), np.arange(VALUES)
    large = true[true.sum(axis=1) >= HALF_PER_CENT * table().num_rows]  # the count below AVG is exact
    average = MEAN_ABSOLUTE * (np.sqrt(large @ variances[-1]) / (large @ places)).mean()
    return np.array([count_errors(true, variances[:-1], HALF_PER_CENT), average])


def too_far(found: Floats, printed: tuple[float, ...], over: tuple[float, ...] | None = None) -> bool:
    """Whether a figure, or ratio of figures, is more than 2 % off all that the printed digits allow."""
    low, high = np.array(printed) - HALF_DIGIT, np.array(printed) + HALF_DIGIT
    if over is not None:
        low, high = low / (np.array(over) + HALF_DIGIT), high / (np.array(over) - HALF_DIGIT)
    return bool(((found < low * (1 - TOLERANCE)) | (found > high * (1 + TOLERANCE))).any())


@pytest.mark.parametrize("rho2", OCCUPATION)
def test_counts_of_occupations(rho2: str) -> None:
    printed, true = OCCUPATION[rho2], counts("occupation")
    found = {}
    for name in printed:
        variances = variance("occupation", name, rho2, np.eye(VALUES))
        found[name] = np.array([count_errors(true, variances, s) for s in SELECTIVITIES])
    assert not {n: e for n, e in found.items() if too_far(e, printed[n])}
    ratios = {n: e / found[UNIFORM] for n, e in found.items() if n != UNIFORM}
    assert not {n: r for n, r in ratios.items() if too_far(r, printed[n], printed[UNIFORM])}


@pytest.mark.parametrize("rho2", SALARY)
def test_counts_and_averages_of_salaries(rho2: str) -> None:
    printed, functionals = SALARY[rho2], np.vstack([np.eye(VALUES), np.arange(VALUES)])
    found = {name: salary_errors(variance("salary", name, rho2, functionals)) for name in printed}
    ratios = {n: e / found[UNIFORM] for n, e in found.items() if n != UNIFORM}
    off = {n: r for n, r in ratios.items() if too_far(r, printed[n], printed[UNIFORM])}
    assert set(off) == {name for at, name in [FOR_THE_HISTOGRAM] if at == rho2}, off


def test_a_list_made_for_the_histogram_as_the_printed_one() -> None:
    rho2, name = FOR_THE_HISTOGRAM
    gamma, places = Fraction(6), np.arange(VALUES)
    functionals = np.vstack([np.eye(VALUES), places])
    prior = np.bincount(table()["salary"].to_numpy(), minlength=VALUES) / table().num_rows
    gram = workloads.mixture([workloads.weighted_sum(places)], [1.0], gamma, FLOOR)
    design = optimise(gram, gamma, prior)
    found = salary_errors(set_answers(design.channel, prior).variance(functionals))
    ratio = found / salary_errors(variance("salary", UNIFORM, rho2, functionals))
    assert not too_far(ratio, SALARY[rho2][name], SALARY[rho2][UNIFORM]), ratio
