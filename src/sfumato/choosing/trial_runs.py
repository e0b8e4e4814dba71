"""The releases of one candidate: drawn, asked the questions of the workload, and gone.

The first is written as it would be published and has the machine to itself, because its times are told. The others
are drawn from rows in memory, some at a time: each has a secret of its own and depends on no other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ..model.public import Candidate, Roles
from ..publish import Prepared
from ..publishing.files import read_column_hierarchy
from ..publishing.randomness import Secret
from ..query import Release
from .candidates import spec_of
from .rebuilt_table import reconstruction
from .setting import Setting
from .trial import drawn, trial
from .workload import Answers

Result = TypeVar("Result")

SLOW_PLAN = 2.0  # seconds from which a plan that draws nothing is kept for all releases
AT_ONCE = min(2, os.cpu_count() or 1)  # releases in memory at the same time


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run:
    """One release, asked and gone."""

    answers: Answers
    reconstruction: dict[str, float] | None
    publish_seconds: float
    query_seconds: float
    size: int
    largest_share: float | None  # of one value among the records a reader cannot tell apart


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Trials:
    """A candidate with the plan that was made for it, in so many seconds."""

    setting: Setting
    candidate: Candidate
    prepared: Prepared
    planned: float
    secret: Secret

    def asked(self, releases: int, beside: Callable[[], Result], step: Callable[[], None]) -> tuple[list[Run], Result]:
        """(the releases in their order, what `beside` returns, which is called meanwhile); `step` follows each."""
        runs = [self._run(0)]
        step()
        held = self.setting.held_rows(self.prepared) is not None
        workers = ThreadPoolExecutor(max_workers=AT_ONCE if held else 1)
        try:
            also = workers.submit(beside)
            for run in [workers.submit(self._run, k) for k in range(1, releases)]:
                runs.append(run.result())
                step()
            return runs, also.result()
        finally:
            workers.shutdown(cancel_futures=True)  # where one has failed, those that have not begun are not wanted

    def _run(self, k: int) -> Run:
        setting, candidate, prepared = self.setting, self.candidate, self.prepared
        own = Secret(self.secret.stream(f"compare {candidate.method} {candidate.variant}", k).bytes(32))
        start = time.perf_counter()
        if k and (self.planned < SLOW_PLAN or prepared.method.plan_draws):
            spec = prepared.method.with_files(spec_of(candidate), read_column_hierarchy)
            fresh = prepared.method.plan(spec, prepared.profile, own.stream("plan"))
            prepared = replace(prepared, planned=fresh)
        held = setting.held_rows(prepared) if k else None  # the first is written: its files are measured
        with trial(prepared, own) if held is None else drawn(prepared, own, held) as release:
            release.subject = setting.questions.told(release.subject)
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
                largest_share=largest_share(release, setting.roles) if prepared.method.classes else None,
            )


def largest_share(release: Release, roles: Roles) -> float:
    """The largest share that one sensitive value has among the rows with equal published quasi-identifiers."""
    cells, rows = release.opened.counts.distinct_cells((*roles.quasi, *roles.sensitive))
    _, place = np.unique(cells[:, : len(roles.quasi)], axis=0, return_inverse=True)
    place = place.reshape(-1)
    return float((rows / np.bincount(place, weights=rows)[place]).max())
