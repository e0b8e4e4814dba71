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

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError, SpecError, VerificationError
from ...laws.independent_columns import IndependentColumns
from ...laws.published import check_roles
from ...model.private import Facts, Known, Needs, Profile, Work
from ...model.public import Candidate, Claim, Guarantee, Published, ReaderBound, Roles, RowsPerPerson, Trust
from ...stats.kronecker import check_keep, theta_of_keep
from ..contract import Example, Inputs, Method, Planned, ReadRows
from ..shared.readers import Found, ValueChannel, channelled
from .plan import KeepPlan, cells_of, check_categories, limits_of, most_frequent, moving, searched
from .report import guarantee_text, risk_report
from .risk import epsilon, round_up
from .specification import SCOPES, RandomizedResponse

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
