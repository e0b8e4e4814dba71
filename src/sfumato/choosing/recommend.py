"""Which method, with which parameters: the least expected error at a bound, or the strongest bound at an accuracy.

Only plans are made; nothing is published (a method whose error does not follow from its plan is tried once, in a
temporary folder). Proved methods are considered unless conditional ones are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ..errors import PlanError, SfumatoError, SpecError
from ..methods import REGISTRY
from ..model.names import ENDS, Ratio, exact, free_name
from ..model.public import Candidate, Roles, Trust
from ..publish import Prepared
from ..publishing.randomness import Secret
from ..release.manifest import guarantee_model
from ..sql.scalar import quoted
from ..stats.ties import settled
from . import DEFAULT
from .compare import held
from .foresee import ExpectedRelease, mean_absolute_error
from .measure import EQUAL, foresee, measure, reached
from .setting import Setting, check_hierarchies, make_setting

LABELS = {"proved": (Trust.PROVED,), "conditional": (Trust.PROVED, Trust.CONDITIONAL)}
LEAST_ERROR = 1e-9
BASELINE = "distribution-draw"
MOST_BOUND = 100  # the strongest bound that is looked at is 1/MOST_BOUND

Progress = Callable[[str, int, int], None]


def recommend(
    source: Any,
    *,
    roles: Roles,
    bound: Ratio | None = None,
    accuracy: float | None = None,
    trust: str = "proved",
    rho1: Ratio | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """A method and its parameters for a bound, or the strongest bound for an accuracy: `sfumato recommend --json`.

    Give a `bound` on the posterior, or an `accuracy` (mean relative error) to reach. Options are those of `compare`:
    `workload`, `hierarchies`, `engine`, `domains`, `null_as_value`. For the custodian.
    """
    if (bound is None) == (accuracy is None):
        raise SpecError("give either a bound (--bound 1/6) or an accuracy to reach (--accuracy 0.2)", field="bound")
    if trust not in LABELS:
        raise SpecError(f'trust is proved or conditional, got "{trust}"', field="trust")
    considered = [name for name, method in REGISTRY.items() if method.trust in LABELS[trust]]
    check_hierarchies(options.get("hierarchies"), considered)
    secret = Secret.from_seed(seed)
    if progress:
        progress("recommend, reading the table", 0, len(REGISTRY))
    if bound is not None:
        setting = make_setting(source, roles=roles, bound=bound, rho1=rho1, secret=secret, **options)
        return choose(setting, trust=trust, secret=secret, progress=progress)
    assert accuracy is not None
    if not accuracy > 0:
        raise SpecError(f"accuracy is a mean relative error above 0, got {accuracy}", field="accuracy")
    setting = make_setting(source, roles=roles, bound="1/2", rho1=rho1, secret=secret, **options)
    return strongest(setting, accuracy, trust=trust, rho1=rho1, secret=secret)


def choose(
    setting: Setting, *, trust: str = "proved", secret: Secret | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """The recommendation at the setting's bound; PlanError where no method reaches it."""
    secret = secret or Secret.fresh()
    found, refused = [], []
    for k, name in enumerate(REGISTRY):
        if progress:
            progress(f"recommend, {name}", k, len(REGISTRY))
        if REGISTRY[name].trust not in LABELS[trust]:
            continue
        for result in expected(setting, name, secret):
            if result.get("reason"):
                refused.append({key: result[key] for key in ("method", "variant", "reason")})
            elif Trust(result["trust"]) in LABELS[trust] and _score(result) is not None:
                found.append(result)
    if not found:
        if len(refused) > 1 and len({r["reason"] for r in refused}) == 1:  # the table is the reason, not the bound
            raise PlanError(f"no {trust} method can be planned: {refused[0]['reason']}")
        reasons = "; ".join(f"{r['method']}: {r['reason']}" for r in refused[:2])
        raise PlanError(f"no {trust} method reaches the bound {setting.tau} ({reasons})")
    found.sort(key=lambda r: settled(_score(r) or 0.0))
    best, second = found[0], next((r for r in found[1:] if r["method"] != found[0]["method"]), None)
    return {
        "bound": str(setting.tau),
        "allowed": trust,
        **best,
        "why": _why(setting, best, second, trust),
        "by_readers": _by_readers(found),
        "warnings": list(_warnings(setting, best, secret)),
        "runner_up": second,
        "considered": found,
        "refused": refused,
        "workload": setting.workload.describe(),
        "rows": setting.truth.rows,
    }


def expected(setting: Setting, name: str, secret: Secret) -> Iterator[dict[str, Any]]:
    """Each candidate of a method at the setting's bound: expected error and readers, or the "reason" against it."""
    try:
        own = REGISTRY[name].at_bound(setting.facts, setting.tau, setting.rho1)
    except SfumatoError as error:
        yield {"method": name, "variant": "", "reason": str(error)}
        return
    for candidate in (c for c in own if c.estimator is None):
        result = _expect(setting, candidate, secret)
        if not result.get("reason") and not result["holds_bound"]:
            result["reason"] = _not_equal(setting, result)
        yield result


def strongest(
    setting: Setting, accuracy: float, *, trust: str, rho1: Ratio | None = None, secret: Secret | None = None
) -> dict[str, Any]:
    """The recommendation at the strongest bound 1/k whose error stays within the accuracy; errors grow with k."""
    share = Fraction(max(setting.facts.true_counts), setting.facts.rows)
    start = exact(rho1, "rho1") if rho1 is not None else share
    low, high = 2, min(MOST_BOUND, -int(-1 // start) - 1)  # 1/k must stay above the prior
    tried: dict[int, dict[str, Any] | None] = {}

    def at(k: int) -> dict[str, Any] | None:
        if k not in tried:
            try:
                tried[k] = choose(setting.at(Fraction(1, k), rho1), trust=trust, secret=secret)
            except SfumatoError:
                tried[k] = None
        return tried[k]

    def within(k: int) -> bool:
        found = at(k)
        return found is not None and (_score(found) or 0.0) <= accuracy

    if high < 2 or not within(2):
        best = at(2) if high >= 2 else None
        reached = f"; at 1/2 the error is {_score(best):.3g}" if best else ""
        raise PlanError(f"an accuracy of {accuracy:g} is not reached at any bound{reached}")
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if within(middle) else (low, middle - 1)
    found = at(low)
    assert found is not None
    return found | {"accuracy": accuracy}


def _expect(setting: Setting, candidate: Candidate, secret: Secret) -> dict[str, Any]:
    """Expected error of one candidate, from its plan where that is possible."""
    head: dict[str, Any] = {"method": candidate.method, "variant": candidate.variant}
    try:
        prepared = setting.prepare(candidate, secret)
        if prepared.planned.law.foreseeable:
            stated = guarantee_model(prepared.method.guarantee(prepared.planned.public)).model_dump(mode="json")
            return head | {
                "parameters": dict(candidate.parameters),
                "command": candidate.options(),
                "expected_error": foresee(setting, prepared),
                "trust": stated["trust"],
                "guarantee": stated["statement"],
                **reached(prepared, setting),
            }
    except SfumatoError as error:
        return head | {"reason": str(error).splitlines()[0]}
    found = measure(replace(setting, reference=None), candidate, 1, secret)  # no table has to be given back
    promise = found.get("guarantee") or {}
    if found["applicable"] and found["expected_error"] is None:
        head["tried"] = True  # the error is that of one release, which another will not have
    return head | {
        "parameters": dict(candidate.parameters),
        "command": candidate.options(),
        "expected_error": found["expected_error"] or found["observed_error"],
        "reason": found["reason"],
        "trust": found.get("trust", "baseline"),
        "guarantee": promise.get("statement"),
        "readers": found.get("readers", []),
        "unprotected": found.get("unprotected"),
        "holds_bound": found["holds_bound"],
    }


def _not_equal(setting: Setting, result: dict[str, Any]) -> str:
    """Why a method does not take part: how far the reader that makes methods equal gets."""
    far = result["readers"][EQUAL]["posterior"]
    figure = "is not known to hold" if far is None else f"reaches {far:.4g}, above"
    return f"the reader who knows the histogram and sees all that is published {figure} the bound {setting.tau}"


def _by_readers(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best of every set of readers that is held, most readers first; `found` is sorted by error."""
    best: dict[tuple[str, ...], dict[str, Any]] = {}
    for result in found:
        best.setdefault(held(result), result)
    return [
        {"held": list(readers), "method": r["method"], "command": r["command"], "expected_error": r["expected_error"]}
        for readers, r in sorted(best.items(), key=lambda item: -len(item[0]))
    ]


def _warnings(setting: Setting, best: dict[str, Any], secret: Secret) -> Iterator[str]:
    """What speaks against publishing at all: answers no better than a baseline's, rows that are not covered."""
    baseline = _expect(setting, Candidate(method=BASELINE, parameters={}), secret)
    error, other = _score(best), _score(baseline)
    if error is not None and other is not None and other <= error:
        yield (
            f"the release would be useless for these questions: {BASELINE}, which promises nothing and keeps no link "
            f"between columns, errs by {other:.1%}, this method by {error:.1%}; take a larger bound"
        )
    left = best.get("unprotected") or {}
    if left.get("values"):
        yield f"{left['share']:.1%} of the rows hold a value above rho1 = {setting.rho1}: they are not covered"


def _score(result: dict[str, Any]) -> float | None:
    """Mean relative error over all questions."""
    errors = result.get("expected_error")
    return next(iter(errors.values())) if errors else None


def _why(setting: Setting, best: dict[str, Any], second: dict[str, Any] | None, trust: str) -> list[str]:
    error = _score(best) or 0.0
    among = "proved" if trust == "proved" else "proved and conditional"
    not_held = ", ".join(r["reader"] for r in best["readers"] if not r["held"]) or "none"
    lines = [
        f"least expected error of {among} methods that hold the reader histogram to {setting.tau}: {error:.1%}",
        f"promises: {best['guarantee']}",
        f"readers held to {setting.tau}: {', '.join(held(best))}; not held or not stated: {not_held}",
    ]
    if best.get("tried"):
        lines.append(f"{best['method']} foresees no errors: this one is that of a trial release; others will differ")
    if error < LEAST_ERROR:
        lines.append("the answers are exact: by this measure the table may be published as it is; read what it covers")
    if second is not None:
        other = _score(second) or 0.0
        more = f", {other / error:.2g} times as much" if error > LEAST_ERROR else ""
        lines.append(f"runner-up {second['method']}: {other:.1%}{more}")
    if best["trust"] == Trust.CONDITIONAL:
        lines.append("conditional: it holds under assumptions that a real reader may break; --trust proved avoids it")
    return lines


# What `publish` runs where no method is named, and what the more accurate methods would give up.
#
# The default is the most accurate method that holds the readers with any prior on a value and on a set of values:
# docs/explanation/readers.md. Errors are foreseen from plans; nothing is published to learn them.


HELD = ("value", "set")  # the readers that the default holds
NOTICED = 0.99  # of the error: less is not worth a word
LINKING = "linking"  # follows from the other columns, which are not looked at here


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """A method at the bound: the expected errors of all values' counts over the rows, and the readers it holds."""

    method: str
    command: str
    error: float
    held: tuple[str, ...]

    def against(self, other: Foreseen) -> str:
        """One line: how much more accurate this is, and what it gives up."""
        lost = ", ".join(reader for reader in other.held if reader not in self.held) or "nothing"
        return (
            f"more accurate: {self.command}: the counts would err by {self.error:.2%} of the rows; it gives up the "
            f"readers {lost}"
        )


def alternatives(
    source: Any, *, roles: Roles, rho1: Fraction, rho2: Fraction, secret: Secret | None = None, **reading: Any
) -> tuple[Foreseen, tuple[Foreseen, ...]]:
    """The default at (rho1, rho2), and the proved methods that would err less, the most accurate first."""
    secret = secret or Secret.fresh()
    alone = replace(roles, quasi=(), insensitive=(), identifying=(), rest="drop")
    names = ", ".join(quoted(name) for name in alone.sensitive)
    counts = f"SELECT {names}, COUNT(*) AS {free_name('n', alone.sensitive, ENDS)} FROM release GROUP BY {names}"
    setting = make_setting(source, roles=alone, bound=rho2, rho1=rho1, workload=counts, secret=secret, **reading)
    found = list(_foreseen(setting, secret))
    own = next(f for f in found if f.method == DEFAULT)
    better = sorted((f for f in found if f.error < NOTICED * own.error), key=lambda f: settled(f.error))
    return own, tuple({f.method: f for f in reversed(better)}.values())[::-1]


def _foreseen(setting: Setting, secret: Secret) -> Iterator[Foreseen]:
    for name, method in REGISTRY.items():
        if method.trust is not Trust.PROVED:
            continue
        try:
            for candidate in method.at_bound(setting.facts, setting.tau, setting.rho1):
                prepared = setting.prepare(candidate, secret)
                proved = method.guarantee(prepared.planned.public).trust is Trust.PROVED
                if proved and prepared.planned.law.foreseeable:
                    yield _at(setting, candidate, prepared)
        except SfumatoError:
            if name == DEFAULT:
                raise


def _at(setting: Setting, candidate: Candidate, prepared: Prepared) -> Foreseen:
    truth = setting.workload.truth
    answers = setting.workload.ask(ExpectedRelease(prepared, setting.truth), candidate.estimator)
    errors = mean_absolute_error(answers.value - truth, answers.se)
    readers = reached(prepared, setting)["public_readers"]
    return Foreseen(
        method=candidate.method,
        command=candidate.options(),
        error=float(errors.sum() / truth.sum()),
        held=tuple(r["reader"] for r in readers if r["held"] and r["reader"] != LINKING),
    )
