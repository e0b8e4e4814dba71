"""The HTML page: scripts, styles and charts inline, so that it opens anywhere and asks no network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ..errors import SfumatoError
from ..version import __version__
from .report_files import MARK

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
