"""HTML that loads nothing from anywhere: pages of reports, releases, plans and fits, and tables for notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from ..model.names import ERROR_ENDS
from ..model.public import Curve
from ..version import __version__
from . import charts
from .charts import altair, report_package
from .documents import band_label, entries, opening, posteriors, render_audit, rows_compared, share_text
from .report_files import MARK, charts_folder, write_html, write_twin
from .text import name_of, number, p_text, percent, reached, verdict

HERE = Path(__file__).parent


def page(
    *,
    title: str,
    intro: Sequence[str],
    figures: Mapping[str, Any],
    tables: Sequence[Mapping[str, Any]],
    guarantees: Sequence[Mapping[str, Any]] = (),
    left_out: Sequence[Mapping[str, Any]] = (),
    private: bool,
) -> str:
    """The page as text. Every text is escaped; charts are altair objects by name."""
    jinja2, markup = report_package("jinja2"), report_package("markupsafe").Markup
    loader = jinja2.FileSystemLoader(HERE)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    specs = {name: chart.to_dict() for name, chart in figures.items()}
    return environment.get_template("report.html").render(
        title=title,
        intro=intro,
        figures=list(figures),
        tables=[dict(t) | {"numeric": _numeric(t)} for t in tables],
        guarantees=guarantees,
        left_out=left_out,
        private=private,
        version=__version__,
        mark=markup(MARK),  # a constant of ours
        bundle=markup(_scripts()) if figures else "",  # our own dependency's script, not data
        specs=markup(_json(specs)),  # escaped for a script element below
    )


@cache
def _scripts() -> str:
    """Vega, Vega-Lite and vegaEmbed in one script."""
    import vl_convert

    made: str = vl_convert.javascript_bundle(None)  # type: ignore[arg-type] # the stub is narrower than the function
    return made.replace("</script", "<\\/script")


def _json(value: Any) -> str:
    """JSON that cannot leave its script element."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _numeric(table: Mapping[str, Any]) -> list[bool]:
    def number(cell: Any) -> bool:
        return str(cell) in {"", "-"} or str(cell)[:1].isdigit()

    return [all(number(row[i]) for row in table["rows"]) for i in range(len(table["header"]))]


def release_page(document: Mapping[str, Any], *, name: str, verified: Sequence[str] = ()) -> str:
    """The page; `document` is that of `sfumato inspect --json`, `verified` the lines of `sfumato verify`."""
    guarantee = document["guarantee"]
    columns = [
        [c["name"], c["role"], c["type"], f"{len(c['domain'])}" if c.get("domain") is not None else ""]
        for c in document["columns"]
    ]
    tables = []
    if guarantee.get("readers"):
        readers = [[name_of(r), verdict(r["held"]), reached(r["posterior"]), r["why"]] for r in guarantee["readers"]]
        tables.append(
            {
                "title": "How far readers get",
                "header": ["reader", "held", "posterior", "why"],
                "rows": readers,
                "note": "As far as the published parameters tell: a dash where the table decides.",
            }
        )
    tables.append(
        {"title": "Columns", "header": ["column", "role", "type", "declared values"], "rows": columns, "note": ""}
    )
    files = [[file, f"{facts['rows']:,}", facts["sha256"]] for file, facts in document["files"].items()]
    tables.append({"title": "Files", "header": ["file", "rows", "SHA-256"], "rows": files, "note": ""})
    if verified:
        checked = [[line] for line in verified]
        note = "By sfumato verify, from the release alone; repeat it on your own copy."
        tables.append({"title": "Verified", "header": ["what holds"], "rows": checked, "note": note})
    return page(
        title=f"{name}: what is published",
        intro=[
            f"{document['rows']:,} rows by {document['method']} ({guarantee['trust']}).",
            "This page holds nothing but what the release states about itself.",
        ],
        figures={},
        tables=tables,
        guarantees=[{"label": document["method"], "trust": guarantee["trust"], "guarantee": guarantee}],
        private=False,
    )


CURVE_WIDTH, CURVE_HEIGHT = 460, 240  # pixels of one chart


def svg(curve: Curve) -> str:
    """The curve as SVG."""
    alt, vl_convert = altair(), report_package("vl_convert")
    points = [{"x": x, "y": y, "series": name} for name, line in curve.series.items() for x, y in line]
    scale = alt.Scale(type="log") if curve.log else alt.Scale(zero=True)
    chart = (
        alt.Chart(alt.Data(values=points), title=curve.title, width=CURVE_WIDTH, height=CURVE_HEIGHT)
        .mark_line(point={"size": 14}, strokeWidth=1.3)
        .encode(
            x=alt.X("x:Q", title=curve.x, scale=scale),
            y=alt.Y("y:Q", title=curve.y, scale=scale),
            color=alt.Color("series:N", title=None, sort=list(curve.series)),
        )
    )
    return str(vl_convert.vegalite_to_svg(chart.to_dict()))


def text_page(title: str, intro: str, figures: Sequence[str], text: str) -> str:
    """A page of figures, as SVG, and text as the terminal shows it."""
    shown = "".join(f"<figure>{figure}</figure>" for figure in figures)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{MARK}<title>{escape(title)}</title>'
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}pre{white-space:pre-wrap}</style>"
        f"<h1>{escape(title)}</h1><p>{escape(intro)}</p>{shown}<pre>{escape(text)}</pre></html>\n"
    )


def plan_page(report: dict[str, Any], text: str, curves: Sequence[Curve]) -> str:
    """`sfumato plan` as a page: its text, and the mechanism's curves."""
    title = f"Plan: {report['method']}, {report['rows']:,} rows"
    return text_page(title, "For the custodian: it holds facts about the table.", list(map(svg, curves)), text)


def audit_page(document: dict[str, Any]) -> str:
    """The page of `sfumato audit --report`: its text, and how far the attacks got."""
    title = f"Audit: {document['method']}, {document['rows']:,} rows"
    intro = "For the custodian: it was scored with the original table."
    return text_page(title, intro, [attacks_drawn(document)], render_audit(document))


LEFT, WIDE, ROW = 230, 420, 26


def attacks_drawn(document: dict[str, Any]) -> str:
    """Success of every attack with its interval (blue), the blind guess (grey) and the promise (red), as SVG."""
    lines = document["attacks"]
    height = ROW * len(lines) + 60

    def x(share: float) -> float:
        return LEFT + WIDE * share

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDE + 40} {height}" font-size="12">',
        f'<rect width="{LEFT + WIDE + 40}" height="{height}" fill="#ffffff"/>',
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<line x1="{x(tick):g}" x2="{x(tick):g}" y1="10" y2="{height - 46}" stroke="#e2e3ea"/>')
        parts.append(f'<text x="{x(tick):g}" y="{height - 30}" text-anchor="middle">{tick:.0%}</text>')
    for i, line in enumerate(lines):
        y = 24 + ROW * i
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(line["attack"])}</text>')
        parts.append(_tick(x(line["blind"]), y, "#888888"))
        if line["bound"] is not None:
            parts.append(_tick(x(line["bound"]), y, "#c0392b"))
        parts.append(
            f'<line x1="{x(line["low"]):g}" x2="{x(line["high"]):g}" y1="{y}" y2="{y}" stroke="#2b6cb0" '
            'stroke-width="3"/>'
        )
        parts.append(f'<circle cx="{x(line["success"]):g}" cy="{y}" r="4" fill="#2b6cb0"/>')
    note = "blue: success with its interval; grey: blind guess; red: promised"
    parts += [f'<text x="{LEFT}" y="{height - 10}" fill="#5d6070">{note}</text>', "</svg>"]
    return "\n".join(parts)


def _tick(x: float, y: int, colour: str) -> str:
    return f'<line x1="{x:g}" x2="{x:g}" y1="{y - 9}" y2="{y + 9}" stroke="{colour}" stroke-width="2"/>'


# --- answers: numbers, and every interval as a bar on a common scale ---


SCALE_WIDTH = 160  # pixels of the scale


def answer_table(
    names: Sequence[str],
    rows: list[dict[str, Any]],
    *,
    aggregates: Sequence[str],
    method: str,
    level: float,
    kind: str,
    caveats: Sequence[str],
) -> str:
    """An HTML table; no script, no style sheet, nothing loaded from anywhere."""
    errors = {name + end for name in aggregates for end in ERROR_ENDS}
    shown = [name for name in names if name not in errors]
    head = "".join(f"<th>{escape(name)}</th>" + ("<th></th>" if name in aggregates else "") for name in shown)
    scales = {name: _scale(rows, name) for name in aggregates}
    body = ""
    for row in rows:
        cells = ""
        for name in shown:
            value = row[name]
            if name in aggregates:
                cells += (
                    f"<td style='text-align:right'>{_estimate(row, name)}</td><td>{_bar(row, name, scales[name])}</td>"
                )
            else:
                cells += f"<td>{'NULL' if value is None else escape(str(value))}</td>"
        body += f"<tr>{cells}</tr>"
    said = {"bounds": "certain bounds", "exact": "exact"}.get(kind, f"{percent(level)} intervals")
    notes = "".join(f"<p>{escape(caveat)}</p>" for caveat in caveats)
    caption = f"<p>{escape(method)}: {said}</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{caption}{notes}"


def _estimate(row: dict[str, Any], name: str) -> str:
    low, high = number(row[f"{name}_low"]), number(row[f"{name}_high"])
    if row[f"{name}_low"] == row[f"{name}_high"] and row[f"{name}_se"]:  # bounds that meet: the number is known
        return f"<b>{low}</b> <small>exact</small>"
    return f"<b>{number(row[name])}</b> <small>{low} .. {high}</small>"


def _scale(rows: list[dict[str, Any]], name: str) -> tuple[float, float]:
    ends = [row[f"{name}{end}"] for row in rows for end in ("_low", "_high") if row[f"{name}{end}"] is not None]
    return (min([0.0, *ends]), max([1e-12, *ends]))


def _bar(row: dict[str, Any], name: str, scale: tuple[float, float]) -> str:
    """The interval as a line with a dot at the estimate."""
    low, high, value = row[f"{name}_low"], row[f"{name}_high"], row[name]
    if low is None or high is None:
        return ""

    def at(x: float) -> str:
        return f"{(x - scale[0]) / (scale[1] - scale[0]) * (SCALE_WIDTH - 8) + 4:.1f}"

    dot = "" if value is None else f"<circle cx='{at(min(max(value, low), high))}' cy='8' r='3'/>"
    line = f"<line x1='{at(low)}' x2='{at(high)}' y1='8' y2='8' stroke='currentColor' stroke-width='2'/>"
    return f"<svg width='{SCALE_WIDTH}' height='16' fill='currentColor' role='img'>{line}{dot}</svg>"


FIT_WIDTH = 520
HEADER = ("term", "estimate", "std err", "of the noise", "interval", "p")


def coefficient_plot(document: Mapping[str, Any]) -> Any:
    """An altair chart: one line per coefficient, a dot at the estimate, the interval around it, 0 as a rule."""
    alt = altair()
    rows = [r for r in document["rows"] if r["low"] is not None]
    data = alt.Data(values=[{k: r[k] for k in ("term", "estimate", "low", "high", "se", "p")} for r in rows])
    order = [r["term"] for r in rows]
    y = alt.Y("term:N", sort=order, title=None, axis=alt.Axis(labelLimit=320))
    tips = ["term:N", *(alt.Tooltip(f"{name}:Q", format=".4g") for name in ("estimate", "se", "low", "high", "p"))]
    zero = alt.Chart(alt.Data(values=[{"x": 0}])).mark_rule(strokeDash=[4, 3], color="#888").encode(x="x:Q")
    base = alt.Chart(data)
    bars = base.mark_rule(strokeWidth=2).encode(
        y=y, x=alt.X("low:Q", title=f"coefficient, {percent(document['level'])} interval"), x2="high:Q", tooltip=tips
    )
    dots = base.mark_circle(size=70, opacity=1).encode(y=y, x="estimate:Q", tooltip=tips)
    return (zero + bars + dots).properties(width=FIT_WIDTH, height=alt.Step(24), title=document["formula"])


def fit_page(document: Mapping[str, Any], errors: str) -> str:
    """The page of a fit; `errors` says whose errors are shown."""
    rows = [
        [
            r["term"],
            number(r["estimate"]),
            number(r["se"]),
            "-" if not r["se"] or r["se_table"] is None else f"{min(1.0, (r['se_table'] / r['se']) ** 2):.0%}",
            f"{number(r['low'])} .. {number(r['high'])}",
            p_text(r["p"]),
        ]
        for r in document["rows"]
    ]
    intro = [
        f"models {document['models']}; {document['nobs']:,.0f} rows, {document['cells']:,} cells",
        errors,
        *document["caveats"],
    ]
    note = "Of a table that nobody but its publisher holds: coefficients describe groups of people, never one of them."
    return page(
        title=f"{document['family']} fit of {document['formula']}",
        intro=intro,
        figures={"coefficients": coefficient_plot(document)},
        tables=[{"title": "Coefficients", "header": HEADER, "rows": rows, "note": note}],
        private=False,
    )


def fit_table(document: Mapping[str, Any], errors: str) -> str:
    """An HTML table for notebooks, each interval as a bar; nothing loaded from anywhere."""
    rows = [
        {"term": r["term"], "coef": r["estimate"], "coef_low": r["low"], "coef_high": r["high"], "p": p_text(r["p"])}
        for r in document["rows"]
        if r["p"] is not None
    ]
    table = answer_table(
        ("term", "coef", "p"),
        rows,
        aggregates=("coef",),
        method=document["method"],
        level=document["level"],
        kind="confidence",
        caveats=document["caveats"],
    )
    head = f"{escape(document['family'])} fit of {escape(document['formula'])}; models {escape(document['models'])}"
    return f"<p>{head}<br>{escape(errors)}</p>{table}"


# --- the report of a comparison: for the custodian with everything, for the public without anything private


# What may leave the house: texts, parameters and what follows from them. Errors, reasons with limits, sizes and numbers
# of questions are computed from the original table and stay.
PUBLIC_KEYS = (
    "method",
    "variant",
    "label",
    "trust",
    "applicable",
    "parameters",
    "guarantee",
    "retention",
)

REBUILT = ("kl", "chi_square", "euclid", "association")


def public_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison without anything that was computed from true counts."""

    def clean(entry: Mapping[str, Any]) -> dict[str, Any]:
        found = {k: entry[k] for k in PUBLIC_KEYS if k in entry}
        if "guarantee" in found:  # what it says of this table follows from true counts
            found["guarantee"] = {k: v for k, v in found["guarantee"].items() if k not in {"readers", "unprotected"}}
        found["readers"] = [{k: r[k] for k in r if k != "rows"} for r in entry.get("public_readers", [])]
        found["holds_bound"] = any(r["reader"] == "histogram" and r["held"] for r in found["readers"])
        if "variants" in entry:
            found["variants"] = [clean(v) for v in entry["variants"] if v["applicable"]]
        return found

    kept = {k: document[k] for k in ("bound", "rho1", "sensitive", "quasi") if k in document}
    return kept | {"public": True, "methods": [clean(e) for e in document["methods"] if e["applicable"]]}


def write_comparison(
    document: Mapping[str, Any],
    *,
    custodian: str | None = None,
    public: str | None = None,
    charts: str | None = None,
    force: bool = False,
) -> Iterator[Path]:
    """Paths as they are written: HTML with its JSON twin, and charts as PNG and SVG."""
    for target, content in ((custodian, document), (public, public_document(document))):
        if target is not None:
            yield write_html(target, comparison_html(content), force=force)
            yield write_twin(target, content, force=force)
    if charts is not None:
        folder = charts_folder(Path(charts), force=force)
        for name, chart in drawn(document).items():
            for kind in ("svg", "png"):
                path = folder / f"{name}.{kind}"
                chart.save(str(path), **({"scale_factor": 2} if kind == "png" else {}))
                yield path


def drawn(document: Mapping[str, Any]) -> dict[str, Any]:
    """The charts that the document has numbers for."""
    made = {
        "errors": charts.errors_by_band(document),
        "frontier": charts.frontier(document),
        "foreseen": charts.predicted_against_observed(document),
        "scatter": charts.scatter(document),
        "retention": charts.retention(document),
    }
    return {name: chart for name, chart in made.items() if chart is not None}


def comparison_html(document: Mapping[str, Any]) -> str:
    """One HTML file that needs no network."""
    public = bool(document.get("public"))
    sensitive, bound = ", ".join(document["sensitive"]), document["bound"]
    intro = [opening(document)]
    if public:
        intro.append(
            "This version holds nothing that was computed from the original table beyond what a release states."
        )
    else:
        workload = document["workload"]
        intro.append(
            f"{rows_compared(document)}; {workload['questions']:,} questions ({workload['name']}); "
            f"{document['releases']} releases each. For the custodian only: it compares with the truth."
        )
    tables = [] if public else [_errors(document), _costs(document)]
    tables.append(_readers(document))
    left_out = [
        {"label": e["label"], "reason": e.get("reason") or ""} for e in entries(document) if not e["applicable"]
    ]
    return page(
        title=f"{sensitive} at {bound}: methods compared",
        intro=intro,
        figures=drawn(document),
        tables=tables,
        guarantees=[e for e in entries(document) if e["applicable"] and e.get("guarantee")],
        left_out=left_out,
        private=not public,
    )


def _errors(document: Mapping[str, Any]) -> dict[str, Any]:
    bands = list(document["workload"]["bands"])
    header = ["method", "trust", "rank"]
    header += [f"expected {band_label(b)}" for b in bands] + [f"observed {band_label(b)}" for b in bands] + ["covered"]
    rows = []
    for e in entries(document):
        if e["applicable"]:
            row = [e["label"], e["trust"], e.get("rank") or ""]
            row += [share_text((e.get("expected_error") or {}).get(b)) for b in bands]
            row += [share_text((e.get("observed_error") or {}).get(b)) for b in bands]
            rows.append([*row, share_text(e.get("coverage"))])
    note = (
        "Mean of |estimate - true| / true over the questions that hold at least that share of the rows. Ranked among "
        "the methods that hold the same readers to the bound: another is often more accurate because it holds fewer."
    )
    return {"title": "Errors", "header": header, "rows": rows, "note": note}


def _costs(document: Mapping[str, Any]) -> dict[str, Any]:
    header = ["method", "KL", "chi-square", "Euclid", "association", "bounds", "publish s", "questions s", "MB"]
    rows = []
    for e in entries(document):
        if e["applicable"]:
            rebuilt, seconds = e.get("reconstruction") or {}, e.get("seconds") or {}
            width = next(iter((e.get("bound_width") or {"": None}).values()))
            rows.append(
                [
                    e["label"],
                    *(f"{rebuilt[k]:.4f}" if k in rebuilt else "-" for k in REBUILT),
                    share_text(width),
                    f"{seconds['publish']:.2f}" if seconds else "-",
                    f"{seconds['workload']:.2f}" if seconds else "-",
                    f"{e['bytes'] / 1e6:.2f}" if e.get("bytes") else "-",
                ]
            )
    reference = document.get("reference")
    note = "Bounds: mean width of certain bounds over the true answer."
    if reference:
        note = (
            f"Distances of the estimated table of {', '.join(document['sensitive'])} by {reference['column']} from the "
            f"true one, whose association (uncertainty coefficient) is {reference['association']:.4f}. " + note
        )
    return {"title": "Reconstruction, time and size", "header": header, "rows": rows, "note": note}


def _readers(document: Mapping[str, Any]) -> dict[str, Any]:
    header, rows = posteriors(document)
    note = f"The largest posterior that each reader reaches, rounded up; * held to {document['bound']}."
    if document.get("public"):
        note += " As far as the published parameters tell: a dash where the table decides."
    return {"title": "How far readers get", "header": header, "rows": rows, "note": note}
