"""The bound that a release promises to a reader, read from its guarantee; None where it promises her nothing."""

from __future__ import annotations

from fractions import Fraction
from math import exp
from typing import Any

from .attack import Attack
from .view import ReleaseView


def promised(view: ReleaseView, attack: Attack, most: float) -> float | None:
    """The largest chance of a right guess that the guarantee leaves this reader; `most` is the largest true share."""
    method = view.release.method
    alone = method.part is None and not method.plan_draws and not view.true_shown  # every record by itself
    survives = attack.reader == "corruption" and alone
    linking = attack.reader == "linking" and view.true_shown  # classes: the promise is about her
    if not (attack.covered or survives or linking):
        return None
    return _bound(view, view.release.manifest.guarantee.parameters, most)


def _bound(view: ReleaseView, stated: dict[str, Any], most: float) -> float | None:
    if "rho2" in stated:  # about values with a share of at most rho1
        return float(Fraction(stated["rho2"])) if most <= Fraction(stated["rho1"]) else None
    if "epsilon" in stated and isinstance(stated["epsilon"], dict):
        losses = [loss for name, loss in stated["epsilon"].items() if name in view.columns]
        if len(losses) != len(view.columns) or "infinite" in losses:
            return None
        lifted = most * exp(sum(losses))
        return lifted / (lifted + 1 - most)
    if "posterior" in stated:
        return float(Fraction(stated["posterior"]))
    if stated.get("kind") == "frequency":
        return float(1 / Fraction(stated["l"]))
    if "target" in stated:  # the share that the target gives its most frequent value
        plan = view.release.plan
        return max(float(p) for part in plan.parts for p in part.probabilities)
    return None
