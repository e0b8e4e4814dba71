"""randomized-response: every chosen column keeps its value with probability p, else shows another one.

Columns are randomised independently; keep probabilities are the ones of least error whose disclosure risk stays at or
below tau = 1/l, or are given. docs/explanation/randomized-response.md.

Guarantee: (1) proved: each released cell has a local privacy loss of at most epsilon = ln(p / q). (2) conditional: the
paper's disclosure risk, f * eta * rho, is at most tau for every person.
Assumes: for (2), a reader who knows the quasi-identifiers, picks one released record and reconstructs; nothing else.
Cost: one pass to count distinct cells, a search on counts (seconds), one pass to randomise; no rows are exchanged.
Error: the variance of a count grows with the product over mentioned columns of 1 + (d - 1) / theta^2.
Does not protect against: learning the shares of a group (they are a result of the release); several releases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError, SpecError, VerificationError
from ...laws.independent_columns import IndependentColumns
from ...laws.published import check_roles
from ...model.private import Facts, Known, Needs, Profile, Work
from ...model.public import (
    Candidate,
    Claim,
    Guarantee,
    Published,
    ReaderBound,
    Roles,
    RowsPerPerson,
    Trust,
    value_label,
)
from ...stats.kronecker import check_keep, count_variance, theta_of_keep
from ..contract import Example, Inputs, Method, Planned, ReadRows
from ..shared.readers import Found, ValueChannel, channelled
from .plan import (
    SCOPES,
    KeepPlan,
    RandomizedResponse,
    cells_of,
    check_categories,
    limits_of,
    most_frequent,
    moving,
    searched,
)
from .risk import (
    RiskCells,
    View,
    epsilon,
    infimum,
    linking_posterior,
    paper_risk,
    record_posterior,
    round_up,
    views,
)

# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of randomised columns get: value channels of the sensitive columns, taken together.


SEARCHED = Found(
    posterior=None, why="the keep probabilities were chosen by looking at all records, and no bound on that is known"
)


def readers(
    channels: Mapping[str, tuple[float, int]], claim: Claim, known: Known | None, *, searched: bool
) -> tuple[ReaderBound, ...]:
    """The ladder; `channels` are keep probability and size of every sensitive column, keep 1 where it is untouched.

    A reader who knows the quasi-identifiers and the record learns nothing from how they were randomised.
    """
    if known is not None:  # in the order of the units
        names = [known.profile.domains[u].columns[0] for u in sorted(known.profile.sensitive)]
        channels = {name: channels[name] for name in names}
    keep = tuple(Fraction(repr(p)) if d > 1 else Fraction(1) for p, d in channels.values())
    other = tuple(
        (1 - p) / (d - 1) if d > 1 else Fraction(1) for p, (_, d) in zip(keep, channels.values(), strict=True)
    )
    channel = ValueChannel(keep=keep, other=other)
    return channelled(claim, channel, known, corruption=SEARCHED if searched and channel.gamma is not None else None)


# --- the method -------------------------------------------------------------------------------------------------------


HELD = ("value", "set", "person")
ROLES = {"s": ("sensitive",), "qi": ("quasi",), "both": ("sensitive", "quasi")}
GIVEN = "given"  # scope of a plan whose keep probabilities were given


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponsePlan:
    """What the release states; its law has one entry per randomised column, in the order of the units."""

    scope: str
    law: IndependentColumns
    risk: Fraction | None  # tau; None where keep probabilities were given
    baseline: dict[str, float]  # per sensitive column, rounded share of its most frequent value
    intervals: str = "data set"  # what error bars speak about unless a question asks for a population
    rho1: Fraction | None = None  # the sensitive columns' channels together lift no prior up to rho1 above rho2
    rho2: Fraction | None = None
    rows_per_person: RowsPerPerson = 1  # that rho1 and rho2 hold together; epsilons of any number of rows add

    def __post_init__(self) -> None:
        if self.scope not in (*SCOPES, GIVEN) or (self.scope == GIVEN) != (self.risk is self.rho1 is None):
            raise ValueError("the scope does not fit the risk")
        if (self.rho1 is None) != (self.rho2 is None):
            raise ValueError("rho1 and rho2 go together")
        if self.rows_per_person > 1 and self.rho1 is None:
            raise ValueError("rows of a person are held together by rho1 and rho2")

    def sensitive(self) -> dict[str, tuple[float, int]]:
        """Keep probability and size of every sensitive column; a column that is published as it is keeps with 1."""
        found = {name: (p, d) for name, p, d in zip(self.law.columns, self.law.keep, self.law.sizes, strict=True)}
        return {name: found.get(name, (1.0, 2)) for name in self.baseline}


class RandomizedResponseMethod(Method[RandomizedResponse, RandomizedResponsePlan]):
    """Every chosen column keeps its value with probability p, else shows another one."""

    name = "randomized-response"
    title = "Randomised response"
    trust = Trust.CONDITIONAL
    several_rows = True  # epsilons add
    answers = "estimate, interval"
    spec = RandomizedResponse
    plan_type = RandomizedResponsePlan
    unseen = ("true values put back, where the noise could have made such counts by chance",)
    example = Example(
        spec={"keep": {"disease": "0.6"}},
        options={"risk": "1/3"},
        bad=(
            {"keep": None}, {"keep": None, "risk": 0}, {"keep": None, "risk": "3/2"}, {"keep": None, "risk": "1/0"},
            {"keep": None, "risk": float("nan")}, {"risk": "1/3"}, {"keep": "disease"}, {"keep": {"disease": 0}},
            {"keep": {"disease": 1.1}}, {"keep": {"disease": float("nan")}},
            {"keep": None, "risk": "1/3", "scope": "all"},
        ),
    )  # fmt: skip

    def needs(self, spec: RandomizedResponse, roles: Roles) -> Needs:
        """One unit per quasi-identifier and per sensitive column; the randomised ones first."""
        quasi, sensitive = list(roles.quasi), list(roles.sensitive)
        given = spec.keeps()
        for what, columns in (("a keep probability is", given), ("bins are", spec.edges())):
            unknown = [column for column in columns if column not in quasi + sensitive]
            if unknown:
                raise SpecError(
                    f'{what} given for "{unknown[0]}", which is neither a quasi-identifier nor sensitive', field="keep"
                )
        bare = [column for column in sensitive if given and given.get(column, 1) == 1]
        if bare and spec.scope != "qi":
            raise SpecError(
                f'"{bare[0]}" is sensitive and would be published as it is (keep probability 1); give it one below 1, '
                "or say scope qi to randomise the quasi-identifiers only",
                field="keep",
            )
        if spec.scope in {"qi", "both"} and not quasi and not given:
            raise SpecError(f'scope "{spec.scope}" needs quasi-identifiers (--qi), or use scope s', field="scope")
        chosen = set(given) or {"s": set(sensitive), "qi": set(quasi), "both": {*quasi, *sensitive}}[spec.scope]
        ordered = sorted(quasi + sensitive, key=lambda column: column not in chosen)  # stable: the chosen ones first
        return Needs(
            units=tuple((column,) for column in ordered),
            joints=(tuple(range(len(ordered))),),
            changed=tuple(column in chosen for column in ordered),
            sensitive=tuple(ordered.index(column) for column in sensitive),
        )

    def plan(
        self, spec: RandomizedResponse, profile: Profile, rng: np.random.Generator
    ) -> Planned[RandomizedResponsePlan]:
        """Keep probabilities from the table's distinct cells, or as given."""
        names = [domain.columns[0] for domain in profile.domains]
        randomised = moving(spec, profile)
        for domain, moves in zip(profile.domains, randomised, strict=True):
            if moves:
                check_categories(domain)
        given, tau = spec.keeps(), spec.tau()
        if tau is not None and profile.rows_per_person > 1:
            raise PlanError(
                "the disclosure risk is that of one row and says nothing about a person with several; take "
                "--max-rows-per-person 1, or give keep probabilities (--keep-probability): their epsilons add over a "
                "person's rows"
            )
        found: KeepPlan | None = None
        limits, rhos = limits_of(spec, profile), spec.rhos()
        if tau is None:
            keep = tuple(limits.get(u, float(given.get(name, Fraction(1)))) for u, name in enumerate(names))
        else:
            found = searched(spec, profile, randomised, tau, limits)
            keep = found.keep
        for name, p, domain, moves in zip(names, keep, profile.domains, randomised, strict=True):
            if moves:
                check_keep(p, len(domain), name)
        changed = [u for u, moves in enumerate(randomised) if moves]
        cells = cells_of(profile)
        law = IndependentColumns(
            columns=tuple(names[u] for u in changed),
            sizes=tuple(len(profile.domains[u]) for u in changed),
            keep=tuple(keep[u] for u in changed),
        )
        public = RandomizedResponsePlan(
            scope=GIVEN if given else spec.scope,
            law=law,
            risk=tau,
            baseline={names[s]: most_frequent(cells, s) for s in profile.sensitive},
            rho1=rhos and rhos[0],
            rho2=rhos and rhos[1],
            rows_per_person=profile.rows_per_person if rhos else 1,
        )
        return Planned(public=public, work=Work(secret=found))

    def guarantee(self, plan: RandomizedResponsePlan) -> Guarantee:
        """Epsilon per column from the channel that runs, and the bound on the paper's risk."""
        losses = {
            name: round_up(epsilon(theta, d))
            for name, theta, d in zip(plan.law.columns, plan.law.thetas, plan.law.sizes, strict=True)
            if theta < 1.0
        }
        bare = tuple(dict.fromkeys(name for name in (*plan.baseline, *plan.law.columns) if name not in losses))
        total = round_up(sum(losses.values())) if losses else None
        rhos = None if plan.rho1 is None or plan.rho2 is None else (plan.rho1, plan.rho2)
        return guarantee_text(
            plan.risk, rhos, plan.baseline, losses, total, bare, self.trust, rows=plan.rows_per_person
        )

    def claim(self, plan: RandomizedResponsePlan) -> Claim:
        """rho1 and rho2 where they were given; else the prior of whoever names the most frequent value."""
        guess = Fraction(repr(max(plan.baseline.values(), default=1.0)))
        return Claim(rho1=guess if plan.rho1 is None else plan.rho1, rho2=plan.rho2)

    def readers(self, plan: RandomizedResponsePlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """The sensitive columns' channels, taken together."""
        own = self.claim(plan)
        channels = plan.sensitive()
        return readers(channels, claim.or_own(own.rho1, own.rho2), known, searched=plan.risk is not None)

    def report(
        self, plan: RandomizedResponsePlan, work: Work, profile: Profile, *, full: bool = False
    ) -> dict[str, Any]:
        """Keep probabilities, the paper's risk with the readers it leaves out, and the error to expect."""
        names = [domain.columns[0] for domain in profile.domains]
        keep = dict(zip(plan.law.columns, plan.law.keep, strict=True))
        thetas = [
            theta_of_keep(keep[n], len(d)) if n in keep else 1.0 for n, d in zip(names, profile.domains, strict=True)
        ]
        thetas = [1.0 if keep.get(n, 1.0) >= 1 else t for n, t in zip(names, thetas, strict=True)]
        found: KeepPlan | None = work.secret
        return {"keep": keep} | risk_report(cells_of(profile), profile, thetas, keep, found=found)

    def verify(self, plan: RandomizedResponsePlan, published: Published) -> None:
        """The columns that the scope names are randomised, and rho1 and rho2 are held."""
        if plan.scope in ROLES:
            check_roles(published, *ROLES[plan.scope])
        if set(plan.baseline) != set(published.with_role("sensitive")):
            raise VerificationError("release.json states baselines of other columns than the sensitive ones")
        if plan.rho1 is not None and plan.rho2 is not None:
            claim = Claim(rho1=plan.rho1, rho2=plan.rho2, rows_per_person=plan.rows_per_person)
            if not all(r.held for r in readers(plan.sensitive(), claim, None, searched=False) if r.reader in HELD):
                raise VerificationError("the sensitive columns are kept more often than rho1 and rho2 allow")

    def rows_held(self, plan: RandomizedResponsePlan) -> int | None:
        """Epsilons add; a disclosure risk is that of one row, and rho1 and rho2 hold as many as were planned for."""
        return None if plan.risk is plan.rho1 is None else plan.rows_per_person

    def inputs(self, spec: RandomizedResponse, read: ReadRows) -> Inputs[RandomizedResponse]:
        """Bins as given."""
        return Inputs(spec=spec, edges=spec.edges())

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """The sensitive columns' channels limited, and the paper's risk at tau; without that risk beside it."""
        rhos: dict[str, Any] = {"rho1": str(rho1), "rho2": str(tau)}
        alone = Candidate(method=self.name, parameters=rhos | {"scope": "s"}, variant="sensitive column only")
        return Candidate(method=self.name, parameters=rhos | {"risk": str(tau), "scope": "both"}), alone


METHOD: Method[RandomizedResponse, RandomizedResponsePlan] = RandomizedResponseMethod()


# What `randomized-response` tells: the text of its promise, and the custodian's risk report.


LINKING_CELLS = 200_000

EXPLAINED = {
    "risk": "The paper's measure: the chance that a reader picks a record with the person's value AND reconstructs "
    "both its quasi-identifiers and its value. It can be smaller than a guess without any data: read it beside the "
    "others.",
    "baseline": "How often a reader without the release is right who names the most frequent value for everyone.",
    "linking_posterior": "The share a reader gives to the true value who weights all released rows by how likely they "
    "come from the person's quasi-identifiers.",
    "record_posterior": "The largest share a reader can give to a value who knows which released row is the person's.",
    "epsilon": "Local privacy loss of a cell, ln(p / q): no released value changes the odds of two true values by more "
    "than e^epsilon. Needs no assumption about the reader.",
}


def guarantee_text(
    tau: Fraction | None,
    rhos: tuple[Fraction, Fraction] | None,
    baseline: Mapping[str, float],
    losses: Mapping[str, float],
    total: float | None,
    bare: Sequence[str],
    trust: Trust,
    *,
    rows: int = 1,
) -> Guarantee:
    """The promise: epsilon always, the bound on the paper's risk where keep probabilities were searched for it.

    `rhos` hold all `rows` rows of a person together.

    `bare` are the sensitive columns, and those within the scope, that are published as they are: epsilon is infinite.
    """
    local = (
        f"A randomised cell has a local privacy loss of at most {max(losses.values()):g}, the randomised cells of a "
        f"record together of {total:g}."
        if losses
        else "No column is randomised."
    )
    if bare:
        local += f" Published as they are, so that nothing bounds the loss: {', '.join(bare)}."
    if rhos is not None:
        before = "a sensitive value" if rows == 1 else f"anything about the sensitive values of a person's {rows} rows"
        local += f" A reader who gave {before} at most {rhos[0]} gives it at most {rhos[1]} after."
    risk = "" if tau is None else f" The disclosure risk `paper_risk` is at most {tau} for every person in the table."
    guesses = ", ".join(f"{share:g} for {column}" for column, share in baseline.items())
    return Guarantee(
        model="randomised response",
        parameters={
            "risk": None if tau is None else str(tau),
            "risk_measure": "paper_risk",
            "epsilon": {**losses, **dict.fromkeys(bare, "infinite")},
            "epsilon_total": "infinite" if bare else total,
            "baseline": dict(baseline),
            **({} if rhos is None else {"rho1": str(rhos[0]), "rho2": str(rhos[1])}),
        },
        statement=local + risk,
        assumptions=(
            "epsilon assumes nothing about the reader",
            "paper_risk assumes a reader who knows the person's quasi-identifiers and reconstructs one released record",
            "the table is published once: independent releases add their epsilons and average the noise away",
        ),
        not_covered=(
            "paper_risk is the probability of a conjunction, not of a successful guess",
            f"a reader without any data who names the most frequent value: she is right with up to {guesses}",
            "the shares of sensitive values in a group of people: the release is made so that they can be estimated",
            "a reader who weights all released rows by how likely they come from the person",
            *(() if rhos is None else (f"sensitive values that hold more than {rhos[0]} of the table",)),
            "columns that are published as they are",
        ),
        trust=trust,
    )


def risk_report(
    cells: RiskCells,
    profile: Profile,
    thetas: Sequence[float],
    keep: Mapping[str, float],
    *,
    found: KeepPlan | None,
) -> dict[str, Any]:
    """risk, infimum, epsilon and the readers the paper leaves out, each with a sentence; expected errors."""
    names = [domain.columns[0] for domain in profile.domains]
    randomised = [name in keep for name in names]
    sensitive = list(profile.sensitive)
    quasi = [u for u in range(len(names)) if u not in sensitive]
    losses = {n: round_up(epsilon(t, d)) for n, t, d in zip(names, thetas, cells.sizes, strict=True) if t < 1.0}
    whole = all(t < 1.0 or d == 1 for t, d in zip(thetas, cells.sizes, strict=True))
    stated = {
        "epsilon": losses,
        "epsilon_total": round_up(sum(losses.values())) if whole else "infinite",
        "expected_error": expected_error(cells, profile, thetas, sensitive[0]),
    }
    try:
        seen = views(cells, quasi=quasi, sensitive=sensitive, randomised=randomised)
    except PlanError as refusal:  # keep probabilities were given, and nobody asked for the risk
        return {"risk": None, "infimum": None, "notes": [str(refusal)]} | stated
    exact = all(v.grid is not None or not v.moving for v in seen)
    targets = [_target(v, names, thetas) for v in seen]
    notes = _said(targets, keep, losses, exact=exact)
    if not exact:
        notes.append(
            "the quasi-identifiers have too many cells for the exact risk: a rigorous upper bound was used, so the "
            "keep probabilities are lower than the risk needs"
        )
    return {
        "risk": max(t["risk"] for t in targets),
        "risk_is": "exact" if exact else "upper bound",
        "infimum": found.infimum if found else infimum(seen, randomised),
        "targets": targets,
        "explained": EXPLAINED,
        "notes": notes,
    } | stated


def _said(
    targets: Sequence[Mapping[str, Any]], keep: Mapping[str, float], losses: Mapping[str, float], *, exact: bool
) -> list[str]:
    """The same for people: keep probabilities, then every reader with a sentence that says who she is."""
    lines = ["kept with probability: " + ", ".join(f"{name} {p:g}" for name, p in keep.items())]
    for t in targets:
        what = " and ".join(t["sensitive"])
        lines.append(f"paper_risk of {what}: {'' if exact else 'at most '}{t['risk']:.4f}. {EXPLAINED['risk']}")
        lines.append(f"baseline of {what}: {t['baseline']:.3f}. {EXPLAINED['baseline']}")
        if "linking_posterior" in t:
            linked = t["linking_posterior"]
            figures = f"{linked['mean_for_the_true_value']:.3f} on average, {linked['largest']:.3f} at most"
            lines.append(f"linking posterior of {what}: {figures}. {EXPLAINED['linking_posterior']}")
        if "record_posterior" in t:
            lines.append(f"record posterior of {what}: {t['record_posterior']:.3f}. {EXPLAINED['record_posterior']}")
    if losses:
        lines.append("epsilon: " + ", ".join(f"{n} {e:g}" for n, e in losses.items()) + f". {EXPLAINED['epsilon']}")
    return lines


def _target(v: View, names: Sequence[str], thetas: Sequence[float]) -> dict[str, Any]:
    """One sensitive column (or all jointly) with every reader's success."""
    risk = paper_risk(v, thetas)
    marginal = v.shares.sum(axis=0)
    out: dict[str, Any] = {
        "sensitive": [names[s] for s in v.sensitive],
        "risk": float(risk.max()),
        "baseline": float(marginal.max()),
    }
    if v.grid is not None and v.grid.size <= LINKING_CELLS:
        linked = linking_posterior(v, thetas)
        out["linking_posterior"] = {
            "largest": float(linked.max()),
            "mean_for_the_true_value": float((v.shares * linked).sum()),
        }
    if len(v.sensitive) == 1:
        out["record_posterior"] = record_posterior(v, thetas)
    return out


def expected_error(cells: RiskCells, profile: Profile, thetas: Sequence[float], unit: int) -> dict[str, Any]:
    """Standard error of each value's total, and of its count among 1 % and 10 % of the rows.

    The rows are picked by a predicate on the randomised quasi-identifier that costs most (or by untouched columns,
    where none is randomised), independent of the value: the exact variance of two conjuncts.
    """
    d, theta = cells.sizes[unit], thetas[unit]
    counts = np.bincount(cells.codes[:, unit], weights=cells.true_counts, minlength=d)
    rows = float(counts.sum())
    others = [u for u in range(len(cells.sizes)) if u not in profile.sensitive and thetas[u] < 1.0]
    worst = max(others, key=lambda u: (cells.sizes[u] - 1) / thetas[u] ** 2, default=None)
    own = (theta, (1.0 - theta) / d)

    def among(share: float) -> list[float]:
        if worst is None:
            return [float(np.sqrt(share * count_variance(*own, c, rows - c))) for c in counts]
        size, t = cells.sizes[worst], thetas[worst]
        other = (t, (1.0 - t) / size * max(1, round(share * size)))
        return [_two_conjuncts(own, other, c, share, rows) for c in counts]

    return {
        "values": [value_label(v) for v in profile.domains[unit].values],
        "total": [float(np.sqrt(count_variance(*own, c, rows - c))) for c in counts],
        "among_1_percent": among(0.01),
        "among_10_percent": among(0.1),
    }


def _two_conjuncts(
    first: tuple[float, float], second: tuple[float, float], count: float, share: float, rows: float
) -> float:
    """sqrt(sum_b n_b e_1(b_1) e_2(b_2) - n_11) with independent patterns: count x share rows meet both."""

    def moments(theta: float, beta: float) -> tuple[float, float]:
        alpha = beta + theta
        return beta * (1 - beta) / theta**2, (alpha * (1 - beta) ** 2 + (1 - alpha) * beta**2) / theta**2

    outside, inside = zip(moments(*first), moments(*second), strict=True)
    n11, n10 = count * share, count * (1 - share)
    n01, n00 = (rows - count) * share, (rows - count) * (1 - share)
    total = n11 * inside[0] * inside[1] + n10 * inside[0] * outside[1]
    total += n01 * outside[0] * inside[1] + n00 * outside[0] * outside[1]
    return float(np.sqrt(max(total - n11, 0.0)))
