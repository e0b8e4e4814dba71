"""Methods prepared on small tables, and the law by which each publishes a record, for Bayes' rule by loops."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from typing import Any

import pyarrow as pa

import sfumato as sf
from brute_readers import Law, channel, shares
from comparing import people, roles
from sfumato.methods import REGISTRY
from sfumato.model.public import READERS, Claim
from sfumato.publish import Prepared, prepare
from sfumato.publishing.randomness import Secret

F = Fraction
RHO1, RHO2 = F(1, 5), F(1, 2)
CLAIM = Claim(rho1=RHO1, rho2=RHO2)


def tiny() -> pa.Table:
    """24 rows; no sex or area has one disease only, so that no cell is certain by itself."""
    disease = ["a", "b", "c", "d", "e", "a", "b", "c", "a", "d", "e", "f"] * 2
    area = ["x", "y"] * 6 + ["y", "x"] * 6
    sex = ["f", "f", "m", "m", "f", "m", "m", "f", "f", "m", "m", "f"] * 2
    return pa.table({"disease": disease, "area": area, "sex": sex})


TABLES = {"tiny": (tiny(), sf.Roles(sensitive="disease", quasi=("sex", "area"))), "medium": (people(400), roles())}
TINY = tiny()["disease"].to_pylist()
SETS = "small-domain, sets"
SPECS: dict[str, dict[str, Any]] = {
    "subset-response": {"rho1": RHO1, "rho2": F(1, 3)},  # a gamma at which sets of two values are best
    SETS: {"rho1": RHO1, "rho2": F(1, 3), "min_size": 5, "report": "set"},
    "uniform": {"rho1": RHO1, "rho2": RHO2},
    "small-domain": {"rho1": RHO1, "rho2": RHO2, "min_size": 5},
    "splu": {"gamma": 3},
    "target-distribution": {"partition_by": ("sex",)},
    "randomized-response": {"keep": {"disease": "0.3"}},
    "anatomy": {"l": 3},
    "l-diversity": {"l": 2},
    "distribution-draw": {},
}


def prepared(name: str, table: pa.Table, chosen: sf.Roles, **changes: Any) -> Prepared:
    spec = REGISTRY[name.partition(",")[0]].spec(**{**SPECS[name], **changes})
    return prepare(table, roles=chosen, method=spec, secret=Secret.from_seed(3))


def stated(found: Prepared, claim: Claim = CLAIM) -> dict[str, Any]:
    readers = found.readers(claim)["readers"]
    assert [r["reader"] for r in readers] == list(READERS)
    return {r["reader"]: r for r in readers}


def law_of(found: Prepared, values: list[Any]) -> Law:
    """The law of a record, read off what the plan publishes and, where it is private, off its side table and report."""
    plan, drawn_by, work = found.planned.public, found.planned.law, found.planned.work
    names = [v[0] for d in found.profile.domains if d.columns == ("disease",) for v in d.values]
    match found.method.name:
        case "uniform":
            (gamma,) = drawn_by.gammas
            keep = gamma / (gamma + drawn_by.values - 1)
            return channel(names, keep, (1 - keep) / (drawn_by.values - 1))
        case "subset-response":
            return of_lists([names], [values], values, [plan.channel.sets()], [plan.channel.gamma_run])
        case "randomized-response":
            keep = F(str(drawn_by.keep[drawn_by.columns.index("disease")]))
            return channel(names, keep, (1 - keep) / (len(names) - 1))
        case "distribution-draw":
            drawn = shares(values)
            return {x: dict(drawn) for x in names}
        case "small-domain":
            report = found.method.report(plan, work, found.profile)["sub_tables"]
            if drawn_by.name == "set-lists":
                channels = drawn_by.tables.channels
                held = [
                    [x for x, n in zip(sub["domain"], sub["counts"], strict=True) for _ in range(n)] for sub in report
                ]
                domains, gammas = [sub["domain"] for sub in report], [c.gamma_run for c in channels]
                return of_lists(domains, held, values, [c.sets() for c in channels], gammas)
            law: dict[Hashable, dict[Hashable, Fraction]] = {x: {} for x in names}
            for i, sub in enumerate(report):
                m, gamma = len(sub["domain"]), drawn_by.gammas[i]
                for x, count in zip(sub["domain"], sub["counts"], strict=True):
                    for z in sub["domain"]:
                        show = (gamma if z == x else 1) / (gamma + m - 1)
                        law[x][i, z] = F(count, values.count(x)) * show
            return law
        case "anatomy":
            law = {x: {} for x in names}
            for group, code in zip(work.side["group_id"].tolist(), work.side["unit0"].tolist(), strict=True):
                law[names[code]][group] = F(1, values.count(names[code]))
            return law
    raise AssertionError(found.method.name)


def of_lists(
    domains: list[list[Any]], held: list[list[Any]], values: list[Any], sets: list[Any], gammas: list[Fraction]
) -> Law:
    """Part i shows one of its sets, those that hold the true value gamma times as often; all sets weigh alike."""
    law: dict[Hashable, dict[Hashable, Fraction]] = {x: {} for x in dict.fromkeys(v for d in domains for v in d)}
    for i, domain in enumerate(domains):
        for j, x in enumerate(domain):
            lifted = [gammas[i] if j in z else F(1) for z in sets[i]]
            for z, chance in zip(sets[i], lifted, strict=True):
                law[x][i, z] = F(held[i].count(x), values.count(x)) * chance / sum(lifted)
    return law


def cells(table: pa.Table, chosen: sf.Roles) -> list[list[Any]]:
    rows: dict[Any, list[Any]] = {}
    for row in table.to_pylist():
        rows.setdefault(tuple(row[c] for c in chosen.quasi), []).append(row["disease"])
    return list(rows.values())


def covered(values: list[Any], rho1: Fraction = RHO1) -> list[Any]:
    return [v for v, share in shares(values).items() if share <= rho1]


def near(said: float | None, true: Fraction | float) -> None:
    """Rounded up at the sixth digit, and no further."""
    assert said is not None
    assert float(true) - 1e-9 <= said <= float(true) + 1.1e-6
