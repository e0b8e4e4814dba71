"""HTML that loads nothing from anywhere: pages of reports, releases, plans and fits, and tables for notebooks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

from ..errors import SfumatoError, SpecError
from ..model.names import ERROR_ENDS
from ..model.public import Curve
from ..version import __version__
from .charts import altair
from .report_files import MARK
from .text import name_of, number, p_text, percent, reached, verdict

TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{{ mark }}\
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; \
style-src 'unsafe-inline'; img-src data: blob:">
<title>{{ title }}</title>
<style>
:root { color-scheme: light; --ink: #1c1c22; --quiet: #5d6070; --line: #e2e3ea; --paper: #fff; --tint: #f6f6fa; }
body { margin: 0; background: var(--tint); color: var(--ink); font: 15px/1.55 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 8px; } h2 { font-size: 18px; margin: 0 0 10px; }
p.intro { margin: 2px 0; color: var(--quiet); }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; }
section { padding: 18px 20px; margin: 18px 0; }
div.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: left; padding: 6px 10px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number, td:first-child { white-space: nowrap; }
p.note { color: var(--quiet); font-size: 13px; margin: 10px 0 0; }
.label { border-radius: 10px; padding: 1px 8px; font-size: 12px; background: #e4e6f2; white-space: nowrap; }
.proved { background: #d8efdf; } .conditional { background: #fbe9cc; } .baseline { background: #e6e6e6; }
.private { background: #fadcdc; } details { margin: 6px 0; } summary { cursor: pointer; } ul { margin: 4px 0 8px; }
form.vega-bindings { margin: 8px 0; } footer { color: var(--quiet); font-size: 13px; }
</style></head><body><main>
<h1>{{ title }}</h1>
{% for line in intro %}<p class="intro">{{ line }}</p>{% endfor %}
<p class="intro"><span class="label {{ 'private' if private else '' }}">\
{{ 'private: for the custodian only' if private else 'public version' }}</span></p>
{% for name in figures %}<section><div class="wide"><div class="chart" id="chart-{{ name }}"></div></div></section>
{% endfor %}
{% for t in tables %}<section><h2>{{ t.title }}</h2><div class="wide"><table><thead><tr>
{% for h in t.header %}<th{% if t.numeric[loop.index0] %} class="number"{% endif %}>{{ h }}</th>{% endfor %}\
</tr></thead>
<tbody>{% for row in t.rows %}<tr>{% for c in row %}<td{% if t.numeric[loop.index0] %} class="number"{% endif %}>\
{% if c in ('proved', 'conditional', 'baseline') %}<span class="label {{ c }}">{{ c }}</span>\
{% else %}{{ c }}{% endif %}\
</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div><p class="note">{{ t.note }}</p></section>
{% endfor %}
{% if guarantees %}<section><h2>What each promises</h2>
{% for e in guarantees %}<details{% if loop.first %} open{% endif %}><summary><b>{{ e.label }}</b>
<span class="label {{ e.trust }}">{{ e.trust }}</span></summary><p>{{ e.guarantee.statement }}</p>
{% if e.guarantee.assumptions %}<p class="note">assumes</p><ul>{% for a in e.guarantee.assumptions %}<li>{{ a }}</li>\
{% endfor %}</ul>{% endif %}
{% if e.guarantee.not_covered %}<p class="note">does not cover</p><ul>\
{% for a in e.guarantee.not_covered %}<li>{{ a }}</li>{% endfor %}</ul>{% endif %}</details>
{% endfor %}</section>{% endif %}
{% if left_out %}<section><h2>Not applicable</h2><ul>{% for e in left_out %}<li><b>{{ e.label }}</b>\
{% if e.reason %}: {{ e.reason }}{% endif %}</li>{% endfor %}</ul></section>{% endif %}
<footer>sfumato {{ version }}</footer>
</main>
{% if figures %}<script>{{ bundle }}</script>
<script>
const specs = {{ specs }};
Promise.all(Object.entries(specs).map(([name, spec]) =>
  vegaEmbed("#chart-" + name, spec, {actions: {export: true, source: false, compiled: false, editor: false}})
)).then(() => { document.body.dataset.charts = Object.keys(specs).length; })
  .catch(error => { document.body.dataset.failed = String(error); });
</script>{% endif %}
</body></html>
"""


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
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError:
        raise SfumatoError('reports need more packages: pip install "sfumato[report]"') from None
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False)
    specs = {name: chart.to_dict() for name, chart in figures.items()}
    return environment.from_string(TEMPLATE).render(
        title=title,
        intro=intro,
        figures=list(figures),
        tables=[dict(t) | {"numeric": _numeric(t)} for t in tables],
        guarantees=guarantees,
        left_out=left_out,
        private=private,
        version=__version__,
        mark=Markup(MARK),  # noqa: S704 - a constant of ours
        bundle=Markup(_scripts()) if figures else "",  # noqa: S704 - our own dependency's script, not data
        specs=Markup(_json(specs)),  # noqa: S704 - escaped for a script element below
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
    try:
        import altair as alt
        import vl_convert
    except ImportError:
        raise SpecError("--report needs altair and vl-convert; install sfumato[report]", field="report") from None
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


def plan_page(report: dict[str, Any], text: str, curves: Sequence[Curve]) -> str:
    """`sfumato plan` as a page: its text, and the mechanism's curves."""
    title = f"Plan: {report['method']}, {report['rows']:,} rows"
    charts = "".join(f"<figure>{svg(curve)}</figure>" for curve in curves)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{MARK}<title>{escape(title)}</title>'
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}pre{white-space:pre-wrap}</style>"
        f"<h1>{escape(title)}</h1><p>For the custodian: it holds facts about the table.</p>"
        f"{charts}<pre>{escape(text)}</pre></html>\n"
    )


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
