"""Every method with the reader "histogram" held to one bound: how far each reader gets, how far off its answers are.

The story: read the table once, draw the workload, and for each method plan, foresee the error from the plan, publish a
few releases into a temporary folder, ask them the same questions, and throw them away. Private: it compares with truth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..errors import SfumatoError, SpecError
from ..methods import REGISTRY
from ..model.names import Ratio
from ..model.public import Roles, Trust
from ..publishing.randomness import Secret
from ..stats.ties import settled
from .measure import foresee, laplace, measure, releases_of
from .setting import LAPLACE, Setting, check_hierarchies, make_setting

RELEASES = 5
MOST_ROWS = 1_000_000  # of a larger table a sample is compared
FRONTIER = (2, 3, 4, 5, 6, 8, 10)  # bounds 1/k of the risk-utility chart
FRONTIER_SETS = 8  # column sets of the workload it is computed on
FRONTIER_PLAN = 3.0  # seconds of planning above which a method is left out of it
STEPS = 100  # of the bar, for each method
Progress = Callable[[str, int, int], None]


def compare(
    source: Any,
    *,
    roles: Roles,
    bound: Ratio,
    releases: int = RELEASES,
    methods: Sequence[str] | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    keep_points: int = 0,
    frontier: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Every method at one bound on the posterior, with its error on the same questions: `sfumato compare --json`.

    Options: `workload` (SQL text, one statement a question; without it the query pool), `rho1`, `hierarchies`, and
    `engine`, `domains`, `null_as_value` as for `publish`. For the custodian: it holds true counts.
    `keep_points` questions per method keep their estimate beside the truth, for the custodian's scatter plot;
    `frontier` adds the expected error at other bounds. Of a table above a million rows it looks at a random sample.
    """
    known = (*REGISTRY, LAPLACE)
    unknown = [name for name in methods or () if name not in known]
    if unknown or methods == []:
        named = f'there is no method "{unknown[0]}"' if unknown else "no method is named"
        raise SpecError(f"--methods: {named}; methods: {', '.join(known)}", field="methods")
    check_hierarchies(options.get("hierarchies"), known if methods is None else methods)
    if progress:
        progress("compare, reading the table", 0, STEPS * len(known if methods is None else methods))
    setting = make_setting(
        source, roles=roles, bound=bound, secret=Secret.from_seed(seed), most_rows=MOST_ROWS, **options
    )
    document = run(setting, releases=releases, methods=methods, seed=seed, progress=progress, keep_points=keep_points)
    return document | ({"frontier": risk_frontier(setting, document)} if frontier else {})


def run(
    setting: Setting,
    *,
    releases: int = RELEASES,
    methods: Sequence[str] | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    keep_points: int = 0,
) -> dict[str, Any]:
    """`compare` on a setting that was read before."""
    names = [name for name in (*REGISTRY, LAPLACE) if methods is None or name in methods]
    secret = Secret.from_seed(seed)
    entries = []
    for k, name in enumerate(names):

        def tell(share: Fraction, k: int = k, name: str = name) -> None:
            if progress:
                progress(f"compare, {name}", int(STEPS * (k + share)), STEPS * len(names))

        tell(Fraction(0))
        entries.append(
            laplace(setting, secret) if name == LAPLACE else _method(setting, name, releases, secret, keep_points, tell)
        )
    if progress:
        progress("compare", STEPS * len(names), STEPS * len(names))
    rank(entries)
    return {
        "bound": str(setting.tau),
        "rows": setting.truth.rows,
        "rows_in_all": setting.truth.rows_in_all,
        "rho1": str(setting.rho1),
        "sensitive": list(setting.roles.sensitive),
        "quasi": list(setting.roles.quasi),
        "unprotected": sum(Fraction(c, setting.truth.rows) > setting.rho1 for c in setting.facts.true_counts),
        "unprotected_share": sum(c for c in setting.facts.true_counts if Fraction(c, setting.truth.rows) > setting.rho1)
        / setting.truth.rows,
        "workload": setting.workload.describe(),
        "releases": releases,
        "reference": setting.reference.describe() if setting.reference else None,
        "methods": entries,
    }


def risk_frontier(setting: Setting, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Expected error of the applicable methods at several bounds, on a part of the workload; from plans alone."""
    share = Fraction(max(setting.facts.true_counts), setting.facts.rows)
    bounds = sorted({t for t in (*(Fraction(1, k) for k in FRONTIER), setting.tau) if t > share}, reverse=True)
    part = replace(setting, workload=setting.workload.part(FRONTIER_SETS))
    secret = Secret.fresh()
    points = []
    for entry in document["methods"]:
        name = entry["method"]
        seconds = (entry.get("seconds") or {}).get("plan", 0)
        if entry["applicable"] and name in REGISTRY and seconds < FRONTIER_PLAN:
            points += _foreseen_at(part, bounds, name, secret)
    return points


def _foreseen_at(part: Setting, bounds: Sequence[Fraction], name: str, secret: Secret) -> list[dict[str, Any]]:
    """The expected error of a method at every bound; nothing where its law foresees none."""
    points = []
    for tau in bounds:
        setting, error = part.at(tau), None
        try:
            own = REGISTRY[name].at_bound(setting.facts, setting.tau, setting.rho1)[0]
            prepared = setting.prepare(own, secret)
            if not prepared.planned.law.foreseeable:
                return []
            error = next(iter(foresee(setting, prepared).values()))
        except SfumatoError:
            pass  # the method does not reach this bound
        points.append({"method": name, "bound": float(tau), "error": error})
    return points


def rank(entries: list[dict[str, Any]]) -> None:
    """Writes "rank" into every entry: its place, by error, among those that hold the same readers to the bound."""
    for entry in entries:
        entry["rank"] = None
    # answers instead of a release and baselines are shown but not ranked; nor is what does not hold the bound
    able = [
        e
        for e in entries
        if e["applicable"]
        and e["holds_bound"]
        and e["method"] != LAPLACE
        and e["trust"] != Trust.BASELINE
        and main_error(e) is not None
    ]
    for readers in {held(e) for e in able}:
        equal = [e for e in able if held(e) == readers]
        for place, entry in enumerate(sorted(equal, key=lambda e: settled(main_error(e) or 0.0)), start=1):
            entry["rank"] = place


def held(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The readers that an entry holds to the bound."""
    return tuple(r["reader"] for r in entry["readers"] if r["held"])


def main_error(entry: Mapping[str, Any]) -> float | None:
    """The error methods are ranked by: over all questions of the workload, observed where it was observed."""
    for name in ("observed_error", "expected_error"):
        errors = entry.get(name)
        if errors:
            found = next(iter(errors.values()))
            return None if found is None else float(found)
    return None


def _method(
    setting: Setting, name: str, releases: int, secret: Secret, keep_points: int, tell: Callable[[Fraction], None]
) -> dict[str, Any]:
    """The entry of one method; `tell` hears what share of the work is done."""
    trust = str(REGISTRY[name].trust)
    head: dict[str, Any] = {
        "method": name,
        "trust": trust,
        "applicable": False,
        "holds_bound": False,
        "reason": None,
        "readers": [],
    }
    try:
        tried = REGISTRY[name].at_bound(setting.facts, setting.tau, setting.rho1)
    except SfumatoError as error:
        return head | {"reason": str(error), "expected_error": None, "observed_error": None}
    steps = sum(1 + releases_of(c, releases) for c in tried)  # a plan, and its releases
    done = itertools.count(1)

    def step() -> None:
        tell(Fraction(next(done), steps))

    results = [measure(setting, c, releases, secret, keep_points, step) for c in tried]
    own, *others = results
    return head | own | {"variants": [r | {"variant": c.variant} for r, c in zip(others, tried[1:], strict=True)]}
