"""Documents of the commands as text: look, plan, inspect, compare, recommend and audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .text import (
    READER_NAMES,
    bullets,
    number,
    percent,
    reached,
    render_cells,
    render_readers,
    render_unprotected,
    table,
    visible,
)


def render_look(found: dict[str, Any]) -> str:
    """`sfumato look`: the columns, and what the quasi-identifiers tell."""
    shown = any("examples" in column for column in found["columns"])
    rows = []
    for column in found["columns"]:
        cells = [
            column["name"],
            column["type"],
            f"{column['distinct']:,}",
            f"{column['missing']:,}",
            column["suggested"],
        ]
        rows.append([*cells, column["why"], *([", ".join(column["examples"])] if shown else [])])
    header = ["column", "type", "values", "missing", "suggested", "why", *(["most frequent"] if shown else [])]
    parts = [f"{found['rows']:,} rows; for the custodian only, nothing is written", table(header, rows)]
    if "linkage" in found:
        parts.append(linkage_text(found["linkage"], found["rows"]))
    return "\n\n".join(parts)


def linkage_text(found: dict[str, Any], rows: int) -> str:
    """What a reader who knows the quasi-identifiers can do, in a few lines."""

    def share(part: int) -> str:
        return f"{part:,} rows ({part / rows:.1%})"

    lines = [
        f"whoever knows {', '.join(found['quasi'])} tells {found['cells']:,} cells apart:",
        f"  {share(found['unique_rows'])} are alone in theirs",
        f"  {share(found['rows_in_small_cells'])} are in cells of fewer than 5",
    ]
    if "sharpened_rows" in found:
        lines.append(
            f"  {share(found['sharpened_rows'])} are in cells that alone give a value of at most {found['rho1']} of "
            f"the table more than {found['rho1']}: rho1 does not cover a reader who knows them"
        )
    return "\n".join(lines)


SHOWN_VALUES = 12
SHOWN_BLOCKS = 8
SHOWN_TABLES = 20


def stated_parameters(document: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a method and of its law that are one value; the name of the law among them."""
    law = {"law" if k == "name" else k: v for k, v in document["law"].items()}
    return {k: v for k, v in (document["parameters"] | law).items() if isinstance(v, str | int | float | bool)}


def render_plan(report: dict[str, Any]) -> str:
    """The custodian's view of a plan: guarantee, sub-tables, error to expect."""
    guarantee = report["guarantee"]
    parts = [
        f"{report['method']} ({report['trust']}), {report['rows']:,} rows; nothing is written",
        guarantee["statement"],
    ]
    facts = stated_parameters(report)
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


UNVERIFIED = "(as release.json states it; nothing of it is verified here, sfumato verify does that)"


def render_release(found: dict[str, Any]) -> str:
    """`sfumato inspect`: guarantee, parameters, assumptions and columns."""
    guarantee = found["guarantee"]
    shown = stated_parameters(found)
    columns = []
    for column in found["columns"]:
        domain = f"{len(column['domain'])} values" if "domain" in column else ""
        columns.append([column["name"], column["role"], column["type"], domain])
    parts = [
        f"{found['method']} ({guarantee['trust']}), {found['rows']:,} rows",
        visible(guarantee["statement"]),
        UNVERIFIED,
        visible(", ".join(f"{k} = {v}" for k, v in shown.items())),
        render_readers(guarantee["readers"]) if "readers" in guarantee else "",
        render_unprotected(guarantee.get("unprotected")) or "",
        bullets("assumes", guarantee["assumptions"]),
        bullets("does not cover", guarantee["not_covered"]),
        table(["column", "role", "type", "domain"], columns),
        bullets("made coarser before publishing", found["coarsened"]) if "coarsened" in found else "",
    ]
    if not found.get("method_installed", True):
        parts.append("the method is not installed here: the release can be asked, its promise cannot be recomputed")
    if found["reproducible"]:
        parts.append("made with a seed: for tests only")
    return "\n\n".join(part for part in parts if part)


# --- compare and recommend ---


ORDER = ("proved", "conditional", "baseline")


def entries(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every method and variant with a "label", best trust first, then by rank; variants after their method."""
    methods = sorted(
        document["methods"],
        key=lambda m: (not m["applicable"], ORDER.index(m["trust"]), m.get("rank") or 99),
    )
    for method in methods:
        yield method | {"label": method["method"]}
        for variant in method.get("variants", ()):
            yield {"trust": method["trust"]} | variant | {"label": f"{method['method']}, {variant['variant']}"}


def rows_compared(document: Mapping[str, Any]) -> str:
    """How many rows were looked at, and of how many they are a sample."""
    rows, of = document["rows"], document["rows_in_all"]
    return f"{rows:,} rows" if rows == of else f"a random sample of {rows:,} of {of:,} rows (fewer rows, larger errors)"


def opening(document: Mapping[str, Any]) -> str:
    """The first sentence: which entries are equal, and which are only listed."""
    able = [e for e in entries(document) if e["applicable"] and e.get("readers")]
    equal = [e["label"] for e in able if e["holds_bound"]]
    others = [e["label"] for e in able if not e["holds_bound"]]
    text = (
        f"At the bound {document['bound']} on what a reader reaches who knows the histogram of "
        f"{', '.join(document['sensitive'])} and sees all that is published about a record: "
        f"{'; '.join(equal) or 'none'}."
    )
    return text + (f" Listed, but above it: {'; '.join(others)}." if others else "")


def posteriors(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """(header, rows): the posterior that each reader reaches, by method; a star where it is held to the bound."""
    rows = []
    for e in entries(document):
        if e["applicable"] and e.get("readers"):
            cells = [reached(r["posterior"]) + ("*" if r["held"] else "") for r in e["readers"]]
            rows.append([e["label"], e["trust"], *cells])
    return ["method", "trust", *READER_NAMES], rows


def render_posteriors(document: Mapping[str, Any]) -> str:
    """The same as text."""
    what = f"the largest posterior of each reader; * held to {document['bound']}"
    return f"{what}\n{table(*posteriors(document))}"


def render_comparison(document: Mapping[str, Any]) -> str:
    """The comparison as a table, how far each reader gets, and who is left out."""
    workload, bands = document["workload"], list(document["workload"]["bands"])
    header = ["method", "trust", "rank", *(f"expected {band_label(b)}" for b in bands)]
    header += [*(f"observed {band_label(b)}" for b in bands), "covered", "bounds", "seconds", "MB"]
    rows, left_out, notes = [], [], []
    for entry in entries(document):
        if not entry["applicable"]:
            left_out.append(f"{entry['label']}: {entry['reason']}")
            continue
        cells = [entry["label"], entry["trust"], str(entry.get("rank") or "-")]
        cells += [share_text((entry.get("expected_error") or {}).get(b)) for b in bands]
        cells += [share_text((entry.get("observed_error") or {}).get(b)) for b in bands]
        width = next(iter((entry.get("bound_width") or {"": None}).values()))
        seconds = entry.get("seconds") or {}
        cells += [share_text(entry.get("coverage")), share_text(width)]
        cells += [f"{seconds['publish']:.2f}" if seconds else "-", _megabytes(entry.get("bytes"))]
        rows.append(cells)
        if entry.get("largest_share"):
            notes.append(f"{entry['label']}: one value fills up to {entry['largest_share']:.0%} of a class")
    first = (
        f"{opening(document)} {rows_compared(document)}, {workload['questions']:,} questions ({workload['name']}), "
        f"{document['releases']} releases each."
    )
    meaning = (
        "error: mean of |estimate - true| / true over the questions of at least that share of the rows; "
        "covered: share of 95% intervals that hold the truth; bounds: mean width of certain bounds over the true answer"
    )
    parts = [first, table(header, rows), meaning, render_posteriors(document)]
    if notes:
        parts.append(bullets("classes", notes))
    if document.get("unprotected"):
        parts.append(
            f"not covered: {document['unprotected']} sensitive values, more frequent than rho1 = {document['rho1']}, "
            f"held by {document['unprotected_share']:.0%} of the rows"
        )
    if left_out:
        parts.append(bullets("not applicable", left_out))
    return "\n\n".join(parts)


def render_recommendation(document: Mapping[str, Any]) -> str:
    """Method, parameters, expected error, reasons and the runner-up."""
    bands = "  ".join(f"{band_label(b)} {share_text(e)}" for b, e in document["expected_error"].items())
    said = f"sfumato publish SOURCE OUT --sa ... --qi ... {document['command']}"
    parts = [
        f"{document['method']} ({document['trust']}) at the bound {document['bound']}",
        said,
        f"expected error: {bands}",
        render_readers(document["readers"]),
        bullets("why", document["why"]),
    ]
    parts += [f"warning: {line}" for line in document["warnings"]]
    parts += [t for t in (render_unprotected(document.get("unprotected")),) if t]
    parts.append(
        bullets(
            "least error by the readers that are held",
            [
                f"{', '.join(b['held'])}: {b['method']}, {share_text(next(iter(b['expected_error'].values())))}"
                for b in document["by_readers"]
            ],
        )
    )
    if document["runner_up"]:
        parts.append(f"runner-up: {document['runner_up']['command']}")
    if document["refused"]:
        parts.append(bullets("not applicable", [f"{r['method']}: {r['reason']}" for r in document["refused"]]))
    return "\n\n".join(parts)


def band_label(name: str) -> str:
    """The name of a band as people read it."""
    return "all" if name == "all" else f">={100 * float(name):g}%"


def share_text(value: float | None) -> str:
    """A share as people read it."""
    return "-" if value is None else f"{value:.1%}" if value < 10 else f"{value:.0%}"


def _megabytes(size: int | None) -> str:
    return "-" if size is None else f"{size / 1e6:.2f}"


# --- audit ---


def render_audit(document: dict[str, Any]) -> str:
    """The table of `sfumato audit`."""
    header = ("attack", "success", f"{percent(document['level'])} interval", "blind guess", "promised", "")
    rows = [
        (
            line["attack"],
            f"{line['success']:.1%}",
            f"{line['low']:.1%} to {line['high']:.1%}",
            f"{line['blind']:.1%}",
            "nothing" if line["bound"] is None else f"{line['bound']:.1%}",
            "ABOVE THE PROMISE" if line["breaks"] else "",
        )
        for line in document["attacks"]
    ]
    parts = [
        f"{document['method']}: {document['rows']:,} rows, {document['targets']:,} targets",
        f"{document['linkable']:,} records can be told apart by what is published as it is",
        table(header, rows),
        *(f"{line['attack']}: she knows {line['knows']}" for line in document["attacks"]),
    ]
    if document["not_looked_at"]:
        parts.append(
            f"columns not looked at (bytes, NaN, dates beyond calendars): {', '.join(document['not_looked_at'])}"
        )
    parts += [f"not tried: {line['attack']} ({line['why']})" for line in document["left_out"]]
    return "\n".join(parts)
