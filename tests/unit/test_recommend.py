"""recommend: the method that compare measures as best, or within 5 % of it, on a dozen settings."""

from __future__ import annotations

import pytest

from comparing import people, roles
from sfumato.choosing.compare import main_error, make_setting, run
from sfumato.choosing.recommend import choose, recommend
from sfumato.choosing.setting import Setting
from sfumato.errors import PlanError, SpecError

SETTINGS = [
    # rows, values, decay, bound, trust
    (2500, 12, 0.93, "1/2", "proved"),
    (2500, 12, 0.93, "1/3", "proved"),
    (2500, 12, 0.93, "1/5", "proved"),
    (4000, 20, 0.97, "1/3", "proved"),
    (4000, 20, 0.97, "1/5", "proved"),
    (4000, 20, 0.97, "1/8", "proved"),
    (3000, 30, 0.98, "1/4", "proved"),
    (3000, 5, 0.9, "1/2", "proved"),
    (2500, 12, 0.93, "1/3", "conditional"),
    (4000, 20, 0.97, "1/5", "conditional"),
    (3000, 30, 0.98, "1/8", "conditional"),
    (3000, 8, 0.85, "1/2", "conditional"),
    (1500, 16, 1.0, "1/4", "conditional"),
]


def small(rows: int, values: int, decay: float, bound: str) -> Setting:
    table = people(rows=rows, values=values, decay=decay, seed=rows + values)
    return make_setting(table, roles=roles(("area", "sex")), bound=bound, conditions=12)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "values", "decay", "bound", "trust"), SETTINGS)
def test_the_choice_is_the_best_that_compare_measures(
    rows: int, values: int, decay: float, bound: str, trust: str
) -> None:
    setting = small(rows, values, decay, bound)
    chosen = choose(setting, trust=trust)
    allowed = ("subset-response", "uniform", "small-domain")
    if trust == "conditional":
        allowed += ("splu", "anatomy", "l-diversity", "randomized-response")
    found = run(setting, releases=6, seed=2, methods=allowed)
    errors = {m["method"]: main_error(m) for m in found["methods"] if m["applicable"]}
    # small-domain with one sub-table publishes by the channel of subset-response, gamma rounded a little lower: plans
    # foresee errors within 1 % of each other, and what six releases of each show differs by chance. Such methods are
    # one choice, measured by all of them.
    foreseen = {c["method"]: c["expected_error"] for c in chosen["considered"]}
    alike = [m for m in errors if m in foreseen and foreseen[m] == pytest.approx(chosen["expected_error"], rel=0.01)]
    errors |= dict.fromkeys(alike, sum(errors[m] or 0.0 for m in alike) / max(len(alike), 1))
    best = min(e for e in errors.values() if e is not None)
    mine = errors[chosen["method"]]
    assert mine is not None
    assert mine <= 1.05 * best, (chosen["method"], errors)


def test_only_proved_methods_unless_asked() -> None:
    setting = small(8000, 24, 0.99, "1/3")
    proved, both = choose(setting), choose(setting, trust="conditional")
    assert proved["method"] == "small-domain"
    assert proved["runner_up"]["method"] == "subset-response"
    assert both["trust"] == "conditional"
    assert proved["trust"] == "proved"
    assert {c["trust"] for c in proved["considered"]} == {"proved"}
    assert any("conditional" in line for line in both["why"])
    assert proved["command"].startswith("--method small-domain --rho1")


def test_a_wanted_accuracy_gives_the_strongest_bound_that_reaches_it() -> None:
    table = people(rows=4000, values=20, decay=0.97)
    options = {"roles": roles(("area", "sex")), "conditions": 12}
    found = recommend(table, accuracy=0.9, **options)  # type: ignore[arg-type]
    k = int(found["bound"].split("/")[1])
    assert next(iter(found["expected_error"].values())) <= 0.9
    stronger = recommend(table, bound=f"1/{k + 1}", **options)  # type: ignore[arg-type]
    assert next(iter(stronger["expected_error"].values())) > 0.9
    with pytest.raises(PlanError):
        recommend(table, accuracy=1e-6, **options)  # type: ignore[arg-type]


def test_bad_requests_are_refused() -> None:
    for wrong in ({}, {"bound": "1/3", "accuracy": 0.1}, {"accuracy": -1.0}, {"bound": "1/3", "trust": "blind"}):
        with pytest.raises(SpecError):
            recommend(people(rows=500), roles=roles(), **wrong)  # type: ignore[arg-type]
