"""`sfumato plan` for people."""

from __future__ import annotations

from typing import Any

from .readers_text import render_cells, render_readers, render_unprotected
from .text import number, table

SHOWN_VALUES = 12
SHOWN_BLOCKS = 8
SHOWN_TABLES = 20


def render(report: dict[str, Any]) -> str:
    """The custodian's view of a plan: guarantee, sub-tables, error to expect."""
    guarantee = report["guarantee"]
    parts = [
        f"{report['method']} ({report['trust']}), {report['rows']:,} rows; nothing is written",
        guarantee["statement"],
    ]
    facts = {k: v for k, v in report["parameters"].items() if isinstance(v, str | int | float | bool)}
    parts += [", ".join(f"{k} = {v}" for k, v in facts.items())] if facts else []
    parts.append(render_readers(report["readers"]))
    parts += [t for t in (render_unprotected(report["unprotected"]),) if t]
    parts += [t for t in (render_cells(report["quasi_identifiers"], report["rows"]),) if t]
    if "sub_tables" in report:
        rows = [
            [str(t["id"]), f"{t['size']:,}", str(len(t["domain"])), f"{t['gamma']:.3g}", f"{t['retention']:.1%}"]
            for t in report["sub_tables"][:SHOWN_TABLES]
        ]
        more = len(report["sub_tables"]) - SHOWN_TABLES
        text = table(["sub-table", "rows", "values", "gamma", "retention"], rows)
        parts.append(text + (f"\n... and {more} more sub-tables (--json shows all)" if more > 0 else ""))
    if "amplification" in report:
        parts.append(_amplification(report["amplification"]))
    if "groups_in_all" in report:
        parts.append(_groups(report["groups"], report["groups_in_all"]))
    if "audit" in report:
        parts.append(_audit(report["audit"]))
    if "expected_error" in report:
        parts.append(_errors(report["expected_error"]))
    if "fit" in report:
        parts.append(_fit(report["fit"]))
    for key in ("notes", "warnings"):
        parts += [f"note: {line}" for line in report.get(key, ())]
    return "\n\n".join(parts)


def _fit(fit: dict[str, Any]) -> str:
    """Foreseen standard errors of a model's coefficients."""
    rows = [
        [
            r["term"],
            *(number(r[key]) for key in ("estimate", "se", "se_table")),
            "-" if not r["se"] else f"{abs(r['estimate']) / r['se']:.1f}",
        ]
        for r in fit["rows"]
    ]
    head = f"{fit['family']} fit of {fit['formula']}: coefficients of the original rows, and the errors to expect"
    return f"{head}\n" + table(["term", "coefficient", "se", "of the noise", "coefficient / se"], rows)


def _groups(groups: list[dict[str, Any]], in_all: int) -> str:
    """The blocks of the first groups."""
    rows = [
        [g["key"], f"{g['size']:,}", str(g["fakes"]), "  ".join(map(_block, g["blocks"][:SHOWN_BLOCKS]))]
        for g in groups[:SHOWN_VALUES]
    ]
    text = table(["group", "rows", "fakes", "blocks"], rows)
    more = in_all - len(rows)
    return text + (f"\n... and {more} more groups (--json shows them)" if more > 0 else "")


def _audit(audit: dict[str, Any]) -> str:
    """What a reader who knows the algorithm learns, in the worst of the audited groups."""
    rows = [
        [f"largest posterior, prior = {prior}", number(audit["largest_posterior"][prior])]
        for prior in ("target", "overall")
    ]
    rows += [
        [f"furthest from prior = {prior}", number(audit["furthest_from_prior"][prior])]
        for prior in ("target", "overall")
    ]
    rows.append(["groups that admit one value only", str(audit["only_one_value_possible"])])
    rows.append(["groups published as exact values, shuffled", str(audit["exact_multiset"])])
    head = f"what a reader who knows the algorithm learns ({audit['audited_groups']} small groups)\n"
    return head + table(["", "worst"], rows) + f"\nhelps: {audit['knobs']}"


def _block(block: dict[str, Any]) -> str:
    ends = block["low"] if block["low"] == block["high"] else f"{block['low']}..{block['high']}"
    return f"{ends} x{block['count']}"


def _amplification(grown: dict[str, Any]) -> str:
    """How much the noise of conditioned counts grows, largest first; by column where there are several."""
    flat: dict[str, Any] = {}
    for name, value in grown.items():
        flat |= {f"{name}={v}": a for v, a in value.items()} if isinstance(value, dict) else {name: value}
    largest = sorted(flat.items(), key=lambda item: -float("inf") if item[1] is None else -item[1])[:SHOWN_VALUES]
    rows = [[name, "infinite" if a is None else number(a)] for name, a in largest]
    return "amplification of the noise of conditioned counts, largest first\n" + table(["value", "amplification"], rows)


def _errors(error: dict[str, Any]) -> str:
    columns = [(k, v) for k, v in error.items() if k != "values" and isinstance(v, list)]
    rows = [
        ["NULL" if value is None else str(value), *(number(numbers[i]) for _, numbers in columns)]
        for i, value in enumerate(error["values"][:SHOWN_VALUES])
    ]
    what = error.get("meaning", "standard error of the count of each value")
    text = f"{what}: over all rows, and among 1 % and 10 % of them\n"
    text += table(["value", *(name.replace("_", " ") for name, _ in columns)], rows)
    more = len(error["values"]) - SHOWN_VALUES
    return text + (f"\n... and {more} more values (--json shows all)" if more > 0 else "")
