"""The releases whose behaviour is frozen: small tables, and every method on them with several settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

import pays
import sfumato as sf
from patients import ROLES as PATIENT_ROLES
from patients import patients
from sfumato.model.coarsening import bins
from tables import MARK, people
from visits import purchases, visits

SEED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A table, the roles of its columns, and the names that questions are made of."""

    table: Callable[[], Any]
    roles: sf.Roles
    s: str  # the sensitive column,
    a: Any  # two of its values,
    b: Any
    k: str  # a column of few values
    v: Any  # and one of them,
    x: str  # a column of numbers
    m: float  # and one in the middle
    complete: str | None = None  # a condition that leaves out rows with gaps, for models
    null_as_value: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One release: of which table, by which method."""

    data: Data
    method: Any
    given: Mapping[str, Any] = field(default_factory=dict)  # more arguments of `publish` and `plan`

    def arguments(self) -> dict[str, Any]:
        """What `publish` and `plan` are called with."""
        given = {"roles": self.data.roles, "method": self.method, "null_as_value": self.data.null_as_value}
        return {"source": self.data.table(), "seed": SEED, **given, **self.given}


@functools.cache
def adult() -> pa.Table:
    """2,000 rows of Adult from all over the table, with gaps in workclass and occupation."""
    columns = ["age", "workclass", "education_num", "occupation", "race", "sex", "hours_per_week", "income"]
    table = sf.datasets.adult().select(columns)
    return table.take(pa.array(range(0, 48_000, 24)))


def census() -> pa.Table:
    """140,000 rows: more than one batch of rows."""
    return sf.datasets.census_table(140_000, seed=2).select(["age", "gender", "education", "occupation"])


def priced() -> pa.Table:
    """Purchases with a price."""
    table = purchases()
    return table.append_column("price", pa.array([i * 37 % 101 for i in range(table.num_rows)]))


def binned_people() -> sf.Source:
    """People whose age is a bin."""
    return sf.Source(people(), recode=bins({"age": [18, 30, 45, 60, 75]}))


PEOPLE_ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
PEOPLE = Data(table=people, roles=PEOPLE_ROLES, s="disease", a="flu", b="gout", k="sex", v="f", x="age", m=50)
BINNED = Data(
    table=binned_people, roles=PEOPLE_ROLES, s="disease", a="flu", b="gout", k="age", v="[30, 45)", x="number", m=600
)
ADULT = Data(
    table=adult,
    roles=sf.Roles(sensitive="occupation", rest="quasi"),
    s="occupation",
    a="Sales",
    b="Tech-support",
    k="sex",
    v="Female",
    x="hours_per_week",
    m=39.5,
    complete="occupation IS NOT NULL",
    null_as_value=True,
)
ADULT_TWO = Data(
    table=lambda: adult().drop_columns(["workclass"]),
    roles=sf.Roles(sensitive=["occupation", "education_num"], rest="quasi"),
    s="occupation",
    a="Sales",
    b="Tech-support",
    k="sex",
    v="Female",
    x="education_num",
    m=9.5,
    complete="occupation IS NOT NULL",
    null_as_value=True,
)
PAYS = Data(
    table=lambda: pays.table().slice(0, 3_000), roles=pays.ROLES, s="pay", a=10, b=32, k="sex", v="m", x="age", m=40
)
BINNED_PAYS = replace(PAYS, a="[10, 16)", b="[22, 28)")
PATIENTS = Data(
    table=patients,
    roles=PATIENT_ROLES,
    s="Krankheit",
    a="Gicht",
    b="Ekzem",
    k="sex",
    v="männlich",
    x="größe, cm",
    m=170.05,
    complete='"größe, cm" IS NOT NULL',
)
PURCHASES = Data(
    table=priced,
    roles=sf.Roles(sensitive="code", quasi=["town", "price"], person="customer", max_rows_per_person=2),
    s="code",
    a="d03",
    b="d07",
    k="town",
    v="n",
    x="price",
    m=50,
)
VISITS = Data(
    table=visits,
    roles=sf.Roles(sensitive="race", quasi="age", person="patient", max_rows_per_person=1),
    s="race",
    a="b",
    b="d",
    k="age",
    v=40,
    x="age",
    m=50,
)
CENSUS = Data(
    table=census,
    roles=sf.Roles(sensitive="occupation", rest="quasi"),
    s="occupation",
    a=3,
    b=14,
    k="gender",
    v=1,
    x="age",
    m=40,
)

RHOS = {"rho1": "1/5", "rho2": "1/2"}
LOOSE = {"rho1": "1/3", "rho2": "2/3"}
BY_FIVES = {"age": "interval:5/10/20", "hours_per_week": "interval:10/20/40"}
WORKLOAD = "SELECT COUNT(*) FROM release WHERE pay > 20; SELECT SUM(pay) FROM release"

# The first nine are the methods' own examples.
CASES = {
    "subset-response": Case(data=PEOPLE, method=sf.SubsetResponse(**RHOS)),
    "uniform": Case(data=PEOPLE, method=sf.UniformPerturbation(**RHOS)),
    "small-domain": Case(data=PEOPLE, method=sf.SmallDomain(**RHOS, min_size=400)),
    "splu": Case(data=PEOPLE, method=sf.Splu(gamma=4)),
    "target-distribution": Case(data=PEOPLE, method=sf.TargetDistribution(partition_by="sex", fakes="0.01")),
    "randomized-response": Case(data=PEOPLE, method=sf.RandomizedResponse(keep={"disease": "0.6"})),
    "anatomy": Case(data=PEOPLE, method=sf.Anatomy(l=3)),
    "l-diversity": Case(data=PEOPLE, method=sf.LDiversity(l=3)),
    "distribution-draw": Case(data=PEOPLE, method=sf.DistributionDraw()),
    # small domains, sets and workloads
    "people-small-domain-sets": Case(
        data=PEOPLE, method=sf.SmallDomain(rho1="1/5", rho2="1/4", min_size=50, report="set")
    ),
    "people-small-domain-values": Case(data=PEOPLE, method=sf.SmallDomain(**RHOS, min_size=400, report="value")),
    "people-small-domain-paper": Case(
        data=PEOPLE, method=sf.SmallDomain(**RHOS, min_size=400, mode="paper", report="value")
    ),
    "pays-small-domain-sums": Case(
        data=PAYS, method=sf.SmallDomain(**LOOSE, min_size=500, report="set", workload="sum:0.5,histogram:0.5")
    ),
    "pays-subset-response": Case(data=PAYS, method=sf.SubsetResponse(**LOOSE)),
    "pays-subset-response-ranges": Case(data=PAYS, method=sf.SubsetResponse(**LOOSE, workload="ranges")),
    "pays-subset-response-questions": Case(data=PAYS, method=sf.SubsetResponse(**LOOSE, workload=WORKLOAD)),
    "pays-subset-response-bins": Case(
        data=BINNED_PAYS, method=sf.SubsetResponse(**LOOSE, workload="prefixes", bins={"pay": [10, 16, 22, 28]})
    ),
    "binned-subset-response": Case(data=BINNED, method=sf.SubsetResponse(**RHOS)),
    "binned-uniform": Case(data=BINNED, method=sf.UniformPerturbation(**RHOS)),
    "adult-small-domain": Case(data=ADULT, method=sf.SmallDomain(**LOOSE, min_size=300, report="value")),
    "adult-subset-response": Case(data=ADULT, method=sf.SubsetResponse(**LOOSE)),
    "patients-uniform": Case(data=PATIENTS, method=sf.UniformPerturbation(rho1="1/4", rho2="1/2")),
    "patients-subset-response": Case(data=PATIENTS, method=sf.SubsetResponse(rho1="1/4", rho2="1/2")),
    "patients-uniform-declared": Case(
        data=PATIENTS,
        method=sf.UniformPerturbation(rho1="1/4", rho2="1/2"),
        given={"domains": {"Krankheit": ["Angina", "Asthma", "Ekzem", "Gicht", "Grippe", "Masern"]}},
    ),
    "pays-uniform": Case(data=PAYS, method=sf.UniformPerturbation(**LOOSE)),
    # randomised response
    "adult-response-s": Case(data=ADULT, method=sf.RandomizedResponse(scope="s", keep={"occupation": "0.7"})),
    "adult-response-qi": Case(
        data=ADULT, method=sf.RandomizedResponse(scope="qi", keep={"sex": "0.8", "income": "0.9"})
    ),
    "adult-response-both": Case(
        data=ADULT, method=sf.RandomizedResponse(scope="both", keep={"occupation": "0.7", "sex": "0.9"})
    ),
    "pays-response-rhos": Case(data=PAYS, method=sf.RandomizedResponse(scope="s", **LOOSE)),
    "pays-response-risk": Case(data=PAYS, method=sf.RandomizedResponse(risk="1/3", bins={"age": [20, 30, 40, 50]})),
    # decoys, groups and classes
    "adult-splu-two-columns": Case(data=ADULT_TWO, method=sf.Splu(gamma={"occupation": 4, "education_num": 2})),
    "pays-splu": Case(data=PAYS, method=sf.Splu(gamma=2, grouping="largest")),
    "pays-anatomy": Case(data=PAYS, method=sf.Anatomy(l=3)),
    "adult-anatomy": Case(data=ADULT, method=sf.Anatomy(l=4, grouping="largest", suppress=True)),
    "adult-diversity-frequency": Case(data=ADULT, method=sf.LDiversity(l=3, hierarchies=BY_FIVES, suppression="1/10")),
    "adult-diversity-entropy": Case(
        data=ADULT, method=sf.LDiversity(l=3, kind="entropy", hierarchies=BY_FIVES, suppression="1/10")
    ),
    "pays-diversity-distinct": Case(
        data=PAYS, method=sf.LDiversity(l=3, kind="distinct", hierarchies={"age": "interval:5/10/20"})
    ),
    "pays-target-normal": Case(
        data=PAYS,
        method=sf.TargetDistribution(target="normal(20,6)", hierarchy="width(2)", partition_by="sex", fakes="0.05"),
    ),
    "adult-target-uniform": Case(
        data=ADULT, method=sf.TargetDistribution(target="uniform", partition_by=["sex", "age//20"], fakes="0.1")
    ),
    "pays-draw": Case(data=PAYS, method=sf.DistributionDraw()),
    # several rows of a person
    "purchases-subset-response": Case(data=PURCHASES, method=sf.SubsetResponse(rho1="1/6", rho2="1/2")),
    "purchases-uniform": Case(data=PURCHASES, method=sf.UniformPerturbation(rho1="1/6", rho2="1/2")),
    "visits-splu": Case(data=VISITS, method=sf.Splu(gamma=2)),
    # several batches of rows
    "census-uniform": Case(data=CENSUS, method=sf.UniformPerturbation(**LOOSE)),
    "census-small-domain": Case(data=CENSUS, method=sf.SmallDomain(**LOOSE)),
    "census-splu": Case(data=CENSUS, method=sf.Splu(gamma=3)),
    "census-anatomy": Case(data=CENSUS, method=sf.Anatomy(l=3)),
}


@functools.cache
def release(name: str) -> sf.Release:
    """The release of that name, in a temporary folder."""
    given = CASES[name].arguments()
    return sf.publish(given.pop("source"), **given, accept_unprotected=True)
