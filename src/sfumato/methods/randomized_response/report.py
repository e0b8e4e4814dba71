"""What `randomized-response` tells: the text of its promise, and the custodian's risk report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...model.private import Profile
from ...model.public import Guarantee, Trust, value_label
from ...stats.kronecker import count_variance
from .plan import KeepPlan
from .risk import (
    RiskCells,
    View,
    epsilon,
    infimum,
    linking_posterior,
    paper_risk,
    quasi_reconstruction,
    record_posterior,
    round_up,
    sampled_eta,
    views,
)

WORST_CELLS, SAMPLES, DELTA = 5, 400, 0.05
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
            "keep probabilities are lower than the risk needs; sampled estimates of the worst cells stand beside it"
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
    if v.grid is None and v.moving:
        out["worst_cells"] = _sampled(v, risk, thetas)
    return out


def _sampled(v: View, risk: np.ndarray[Any, Any], thetas: Sequence[float]) -> list[dict[str, float]]:
    """For the cells of largest bound, the bound on eta and its sampled estimate."""
    worst = np.argsort(risk.reshape(len(risk), -1).max(axis=1))[::-1][:WORST_CELLS]
    bounds = quasi_reconstruction(v, thetas)
    rng = np.random.default_rng(1)  # a custodian's estimate, not noise of the release
    rows = []
    for row in worst:
        eta = sampled_eta(v, int(row), thetas, samples=SAMPLES, delta=DELTA, rng=rng)
        factor = float(risk[row].max()) / float(bounds[row])  # f * rho
        rows.append(
            {
                "risk_bound": float(risk[row].max()),
                "risk_sampled": factor * eta.estimate,
                "half_width": factor * eta.half_width,
            }
        )
    return rows


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
