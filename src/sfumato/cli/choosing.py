"""The commands that choose a method: compare, recommend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ..errors import SpecError
from .options import NONE, Json, ReadingOptions, RoleOptions, Source, SourceOptions, option
from .terminal import note, progress_bar, say, say_json

BOUND, ASKED, OUTPUT = "What must hold", "What is asked", "Output"
Bound = Annotated[str | None, option("--bound SHARE", "bound on the posterior", "1/3", without=NONE, panel=BOUND)]
PriorOption = Annotated[
    str | None,
    option(
        "--rho1 SHARE",
        "prior up to which the bound must hold",
        "1/10",
        without="the largest share below the bound",
        panel=BOUND,
    ),
]
WorkloadFile = Annotated[
    str | None,
    option("--workload FILE", "file of SQL questions", "questions.sql", without="the query pool", panel=ASKED),
]
Hierarchies = Annotated[
    str | None,
    option(
        "--hierarchies COLUMN=WHAT,...",
        "of methods that generalise: how columns are made coarser",
        "age=interval:5/10",
        without="intervals, or whole columns",
        panel=BOUND,
    ),
]


def compare(
    source: Source,
    roles: RoleOptions,
    where: SourceOptions,
    reading: ReadingOptions,
    bound: Bound = None,
    rho1: PriorOption = None,
    workload: WorkloadFile = None,
    releases: Annotated[int, option("--releases NUMBER", "trial releases per method", "20", min=1, panel=ASKED)] = 5,
    methods: Annotated[
        str | None, option("--methods NAMES", "only these, with commas", "uniform,anatomy", without="all", panel=ASKED)
    ] = None,
    hierarchies: Hierarchies = None,
    report: Annotated[
        str | None, option("--report FILE", "HTML file for the custodian", "compare.html", without=NONE, panel=OUTPUT)
    ] = None,
    public: Annotated[
        str | None,
        option("--public-report FILE", "HTML file without anything private", "public.html", without=NONE, panel=OUTPUT),
    ] = None,
    charts: Annotated[
        str | None,
        option("--charts FOLDER", "folder for the charts as PNG and SVG", "charts", without=NONE, panel=OUTPUT),
    ] = None,
    force: Annotated[bool, option("--force", "let reports replace files that are no reports", panel=OUTPUT)] = False,
    as_json: Json = False,
) -> None:
    """Compare every method with posteriors of at most one bound. For the custodian: it knows the truth.

    Example: sfumato compare adult.parquet --sa occupation --qi age,sex,education --rest drop --null-as-value
    --bound 1/3 --report compare.html
    """
    if bound is None:
        raise SpecError("compare needs a bound on the posterior, for example --bound 1/6", field="bound")
    from ..choosing.compare import compare as run
    from ..reports.documents import render_comparison
    from ..reports.report_files import check_places

    check_places({"--report": report, "--public-report": public}, charts=charts, source=source, force=force)
    with progress_bar() as progress:
        document = run(
            where.source(source),
            roles=roles.roles(),
            releases=releases,
            methods=None if methods is None else [m.strip() for m in methods.split(",")],
            seed=reading.seed,
            progress=progress,
            keep_points=400 if report or charts else 0,
            frontier=bool(report or charts),
            **_choosing(bound, rho1, workload, hierarchies),
            **reading.arguments(),
        )
    if report or public or charts:
        from ..reports.pages import write_comparison

        for path in write_comparison(document, custodian=report, public=public, charts=charts, force=force):
            note(f"written: {path}")
    if as_json:
        say_json(document)
    else:
        say(render_comparison(document))


def recommend(
    source: Source,
    roles: RoleOptions,
    where: SourceOptions,
    reading: ReadingOptions,
    bound: Bound = None,
    accuracy: Annotated[
        float | None,
        option(
            "--accuracy SHARE", "mean relative error to reach, in place of a bound", "0.2", without=NONE, panel=BOUND
        ),
    ] = None,
    trust: Annotated[
        str, option("--trust NAME", "proved, or conditional for both", "conditional", panel=BOUND)
    ] = "proved",
    rho1: PriorOption = None,
    workload: WorkloadFile = None,
    hierarchies: Hierarchies = None,
    as_json: Json = False,
) -> None:
    """Recommend a method and its parameters for a bound, or the strongest bound for an accuracy.

    Example: sfumato recommend adult.parquet --sa occupation --qi age,sex,education --rest drop --null-as-value
    --bound 1/3
    """
    from ..choosing.recommend import recommend as run
    from ..reports.documents import render_recommendation

    with progress_bar() as progress:
        document = run(
            where.source(source),
            roles=roles.roles(),
            accuracy=accuracy,
            trust=trust,
            seed=reading.seed,
            progress=progress,
            **_choosing(bound, rho1, workload, hierarchies),
            **reading.arguments(),
        )
    if as_json:
        say_json(document)
    else:
        say(render_recommendation(document))


def _choosing(bound: str | None, rho1: str | None, workload: str | None, hierarchies: str | None) -> dict[str, Any]:
    """What compare and recommend hand on as it is; the workload's file is read."""
    text = None
    if workload is not None:
        try:
            text = Path(workload).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise SpecError(f'the workload file "{Path(workload).name}" cannot be read', field="workload") from None
    return {"bound": bound, "rho1": rho1, "workload": text, "hierarchies": hierarchies}
