"""One method measured: planned, foreseen, published into a temporary folder, drawn a few times, asked, thrown away."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engines import scratch
from ..errors import QueryError, SfumatoError
from ..methods.shared.readers import public_readers
from ..model.public import READERS, Candidate, Floats, Roles
from ..publish import Prepared, write
from ..publishing.custodian import read_column_hierarchy
from ..publishing.randomness import Secret
from ..query import Release
from ..release import bundle
from ..release.opened import open_folder
from .foresee import ExpectedRelease, mean_absolute_error
from .setting import LAPLACE, Setting, epsilon_of, laplace_readers, reconstruction, spec_of
from .workload import Answers, Workload

EQUAL = READERS.index("histogram")  # held to the bound by every method that is called equal
LAPLACE_DRAWS = 50  # repetitions of every noisy answer: they cost nothing


def measure(
    setting: Setting,
    candidate: Candidate,
    releases: int,
    secret: Secret,
    keep_points: int = 0,
    step: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """One candidate planned, foreseen, published and asked; or why it cannot be. `step` follows each of these."""
    result: dict[str, Any] = {
        "applicable": False,
        "reason": None,
        "holds_bound": False,
        "parameters": {k: v if isinstance(v, int | str) else _plain(v) for k, v in candidate.parameters.items()},
        "expected_error": None,
        "observed_error": None,
    }
    try:
        start = time.perf_counter()
        prepared = setting.prepare(candidate, secret)
        planned = time.perf_counter() - start
        result |= _promise(prepared, setting)
        step()
        runs = []
        for k in range(releases_of(candidate, releases)):
            runs.append(_run(setting, candidate, prepared, secret, k))
            step()
        if prepared.planned.law.foreseeable:
            result["expected_error"] = foresee(setting, prepared, candidate.estimator)
        result |= _summary(setting, runs, planned, keep_points)
    except QueryError as error:
        return result | {"applicable": False, "reason": f"the workload cannot be asked: {_one_line(error)}"}
    except SfumatoError as error:
        return result | {"applicable": False, "reason": _one_line(error)}
    if candidate.releases == 1 and result["expected_error"] is None:
        result["expected_error"] = result["observed_error"]  # nothing is drawn: the error is the same every time
    return result | {"applicable": True}


def releases_of(candidate: Candidate, releases: int) -> int:
    """How many releases of a candidate are tried: as many as asked for, or as many as can differ."""
    return candidate.releases or releases


def foresee(setting: Setting, prepared: Prepared, estimator: str | None = None) -> dict[str, float | None]:
    """Mean relative error by band that the plan's answers will have."""
    answers = setting.workload.ask(ExpectedRelease(prepared, setting.truth), estimator)
    truth = setting.workload.truth
    return by_band(setting.workload, mean_absolute_error(answers.value - truth, answers.se) / np.abs(truth))


def by_band(workload: Workload, relative: Floats) -> dict[str, float | None]:
    """The mean over the questions of each band; None where a method gives no estimate for any."""
    found: dict[str, float | None] = {}
    for name, mask in workload.bands.items():
        inside = relative[mask]
        known = inside[np.isfinite(inside)]
        found[name] = float(known.mean()) if len(known) else None
    return found


def _summary(setting: Setting, runs: Sequence[Run], planned: float, keep_points: int) -> dict[str, Any]:
    """What the releases of one candidate showed."""
    workload, truth = setting.workload, setting.workload.truth
    errors = np.array([np.abs(r.answers.value - truth) / np.abs(truth) for r in runs])
    known = np.isfinite(errors).any()
    observed = by_band(workload, errors.mean(axis=0)) if known else None
    spread = None
    if known and len(runs) > 1:
        each = [by_band(workload, e) for e in errors]
        spread = {b: _standard_error([e[b] for e in each]) for b in workload.bands}
    intervals = [(r.answers.low <= truth) & (truth <= r.answers.high) for r in runs if np.isfinite(r.answers.se).any()]
    bounds = [_bounds(r.answers) for r in runs]
    widths = [(high - low) / np.abs(truth) for low, high in bounds if np.isfinite(low).any()]
    summary: dict[str, Any] = {
        "observed_error": observed,
        "observed_error_se": spread,
        "unanswered": int((~np.isfinite(errors)).all(axis=0).sum()),
        "coverage": float(np.mean(intervals)) if intervals else None,
        "bound_width": by_band(workload, np.mean(widths, axis=0)) if widths else None,
        "reconstruction": _mean([r.reconstruction for r in runs]),
        "seconds": {
            "plan": round(planned, 3),
            "publish": round(runs[0].publish_seconds, 3),
            "workload": round(runs[0].query_seconds, 3),
        },
        "largest_share": runs[0].largest_share,
        "bytes": runs[0].size,
    }
    if keep_points:
        chosen = np.unique(np.linspace(0, len(truth) - 1, min(keep_points, len(truth))).astype(int))
        value = runs[0].answers.value[chosen]
        summary["points"] = [
            {"true": float(t), "estimate": float(v)}
            for t, v in zip(truth[chosen], value, strict=True)
            if np.isfinite(v)
        ]
    return summary


def _bounds(answers: Answers) -> tuple[Floats, Floats]:
    """Certain bounds: beside an interval, or in place of an estimate."""
    only = ~np.isfinite(answers.value)
    return np.where(only, answers.low, answers.minimum), np.where(only, answers.high, answers.maximum)


def _promise(prepared: Prepared, setting: Setting) -> dict[str, Any]:
    """The guarantee as the plan gives it, how far readers get, and facts of the plan that matter for a choice."""
    stated = prepared.guarantee.model_dump(mode="json", exclude_none=True)
    return {
        "trust": stated["trust"],
        "guarantee": stated,
        "retention": prepared.planned.law.retention(),
        **reached(prepared, setting),
    }


def reached(prepared: Prepared, setting: Setting) -> dict[str, Any]:
    """How far each reader gets at the setting's bound, and whether the reader that makes methods equal is held."""
    claim = setting.claim
    found = prepared.readers(claim)
    public = public_readers(
        prepared.method,
        prepared.planned.public,
        prepared.sensitive_domains(),
        rows_per_person=claim.rows_per_person,
        claim=claim,
    )
    return {
        "readers": found["readers"],
        "unprotected": found["unprotected"],
        "public_readers": [r.document() for r in public],
        "holds_bound": bool(found["readers"][EQUAL]["held"]),
    }


def laplace(setting: Setting, secret: Secret) -> dict[str, Any]:
    """Noisy answers in place of a release: nothing is published, and the noise grows with the questions.

    A release answers every question at one bound, so here one budget is split over the conditions of the workload; the
    counts under one condition are a histogram, of which a changed value moves two (sensitivity 2), once for each of a
    person's rows. The variant spends the whole budget on one question.
    """
    epsilon, workload, rows = epsilon_of(setting.rho1, setting.tau), setting.workload, setting.people.rows_per_person
    entry: dict[str, Any] = {
        "method": LAPLACE,
        "trust": "proved",
        "applicable": workload.counting,
        "reason": None if workload.counting else "only the counts of the query pool have noise of a known scale",
        "parameters": {"epsilon": round(epsilon, 6)},
        "expected_error": None,
        "observed_error": None,
        "holds_bound": True,
        "readers": (readers := [reader.document() for reader in laplace_readers(setting.claim)]),
        "public_readers": readers,
    }
    if not workload.counting:
        return entry
    truth, rng = workload.truth, secret.stream("compare laplace")

    def errors(counts: int) -> dict[str, Any]:
        """With all of a person's rows in `counts` counts."""
        scale = rows * counts / epsilon
        noise = np.abs(rng.laplace(scale=scale, size=(LAPLACE_DRAWS, len(truth)))).mean(axis=0) / truth
        return {"expected_error": by_band(workload, scale / truth), "observed_error": by_band(workload, noise)}

    statement = (
        f"All answers together are {epsilon:.4g}-differentially private for a person: a reader who gave a value "
        f"{setting.rho1} gives it at most {setting.tau} after seeing them. No table is published, no further question "
        "is answered."
    )
    same = {name: entry[name] for name in ("parameters", "holds_bound", "readers", "public_readers")}
    one = {"applicable": True, "reason": None, "variant": "one question only"} | same
    conditions = sum(len(s.conditions) for s in workload.sets)
    return (
        entry
        | errors(min(2 * conditions, len(truth)))
        | {
            "guarantee": {
                "model": "differential privacy",
                "parameters": entry["parameters"],
                "statement": statement,
                "assumptions": [setting.people.assumption, "the questions were chosen without looking at the table"],
                "not_covered": ["further questions", "the number of rows, and columns that are not asked about"],
                "trust": "proved",
            },
            "variants": [one | errors(1)],
        }
    )


def _standard_error(values: Sequence[float | None]) -> float | None:
    known = np.array([v for v in values if v is not None])
    return float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None


def _mean(found: Sequence[dict[str, float] | None]) -> dict[str, float] | None:
    known = [f for f in found if f is not None]
    return {k: float(np.mean([f[k] for f in known])) for k in known[0]} if known else None


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return list(value) if isinstance(value, tuple) else str(value)


# The releases of one candidate: published as they would be, asked the questions of the workload, and gone.


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run:
    """One release, asked and gone."""

    answers: Answers
    reconstruction: dict[str, float] | None
    publish_seconds: float
    query_seconds: float
    size: int
    largest_share: float | None  # of one value among the records a reader cannot tell apart


def _run(setting: Setting, candidate: Candidate, prepared: Prepared, secret: Secret, k: int) -> Run:
    """Release k of a candidate, with a secret of its own; a plan that draws is made anew from the second on."""
    own = Secret(secret.stream(f"compare {candidate.method} {candidate.variant}", k).bytes(32))
    start = time.perf_counter()
    if k and prepared.planned.law.plan_draws:
        spec = prepared.method.inputs(spec_of(candidate), read_column_hierarchy).spec
        prepared = replace(prepared, planned=prepared.method.plan(spec, prepared.profile, own.stream("plan")))
    with trial(prepared, own) as release:
        middle = time.perf_counter()
        answers = setting.workload.ask(release, candidate.estimator)
        end = time.perf_counter()
        rebuilt = reconstruction(setting.reference, release, candidate.estimator) if setting.reference else None
        return Run(
            answers=answers,
            reconstruction=rebuilt,
            publish_seconds=middle - start,
            query_seconds=end - middle,
            size=sum(f.stat().st_size for f in release.path.iterdir()),
            largest_share=largest_share(release, setting.roles) if prepared.planned.law.classes else None,
        )


def largest_share(release: Release, roles: Roles) -> float:
    """The largest share that one sensitive value has among the rows with equal published quasi-identifiers."""
    cells, rows = release.opened.counts.distinct_cells((*roles.quasi, *roles.sensitive))
    _, place = np.unique(cells[:, : len(roles.quasi)], axis=0, return_inverse=True)
    place = place.reshape(-1)
    return float((rows / np.bincount(place, weights=rows)[place]).max())


@contextmanager
def trial(prepared: Prepared, secret: Secret) -> Iterator[Release]:
    """A release in a private temporary folder, gone afterwards."""
    with scratch.folder("trial") as place:
        with bundle.writing(place / "release", force=False) as folder:
            manifest = write(prepared, folder, secret, reproducible=True)
            bundle.finish(folder, manifest)
        yield Release(open_folder(place / "release", check=False))
