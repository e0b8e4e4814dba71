"""What the templates of the studio need, as plain values in the words of a custodian."""

from __future__ import annotations

import re
from typing import Any

from ...choosing.candidates import parse_bound
from ...errors import SpecError
from ...methods import REGISTRY
from ...methods.specifications import fields_of
from ...model.option_names import option_name
from ...model.public import READERS
from ...reports.text import name_of, number, reached, render_cells, render_unprotected, verdict
from ..analyst_pages import READERS as READER_WORDS
from ..analyst_pages import TRUST as TRUST_WORDS
from . import handover
from .foreseen_chart import foreseen_chart
from .state import Studio
from .studio_choices import ALWAYS, ROLES

STEPS = ("source", "look", "roles", "promise", "methods", "plan", "publish", "hand")
TITLES = {
    "source": "Choose the table",
    "look": "Look at it",
    "roles": "Give every column a role",
    "promise": "Say what must hold",
    "methods": "See what each method costs",
    "plan": "Plan",
    "publish": "Publish",
    "hand": "Verify and hand over",
}
LANES = {  # role -> (heading, what it means)
    "sensitive": ("Sensitive", "changed before publication; this is what readers must not learn"),
    "quasi": ("Others may know it", "published; somebody may know it of a person"),
    "keep": ("Harmless", "published as it is; tells nothing about anybody"),
    "drop": ("Left out", "not published"),
    "person": ("Tells people apart", "one value a person; not published"),
}
SLIDER = (2, 20)  # bounds 1/k from weak to strong
MOST_ERRORS = 12  # values of the table of errors


def bound_of(text: str, slider: str, current: str) -> str:
    """The bound that a form states: what was typed, if it is new, else the place of the slider."""
    if text.strip() and text.strip() != current:
        return str(parse_bound(text.strip()))
    if re.fullmatch(r"\d{1,3}", slider) and int(slider) >= SLIDER[0]:
        place = slider_at(current)
        return f"1/{int(slider)}" if int(slider) != place else current
    if slider:
        raise SpecError("the slider stands for a bound 1/k", field="bound")
    return current


def slider_at(bound: str) -> int:
    """The place of the slider that is nearest to a bound."""
    try:
        k = round(1 / parse_bound(bound))
    except SpecError:
        k = SLIDER[0]
    return max(SLIDER[0], min(SLIDER[1], k))


def context(here: Studio) -> dict[str, Any]:
    """Everything the steps show."""
    entries = here.entries()
    best = next((e for e in entries if e["fits"]), None)
    missing = here.missing() if here.table is not None else None
    return {
        "studio": here,
        "choices": here.choices,
        "table": here.table,
        "titles": TITLES,
        "numbers": {name: k + 1 for k, name in enumerate(STEPS)},
        "done": progress(here),
        "lanes": LANES,
        "roles": ROLES,
        "readers": {name: READER_WORDS[name] for name in READERS},
        "always": ALWAYS,
        "trust_words": TRUST_WORDS,
        "slider": SLIDER,
        "slider_at": slider_at(here.choices.bound),
        "bound": here.choices.bound,
        "missing": missing,
        "null_columns": null_columns(here),
        "entries": entries,
        "best": best,
        "chart": foreseen_chart([e for e in entries if e["able"]]),
        "reached": reached,
        "all_methods": list(REGISTRY),
        "plan": plan_view(here),
        "handed": hand_view(here),
        "oob": False,
    }


def progress(here: Studio) -> dict[str, bool]:
    """Step -> whether it is done."""
    return {
        "source": here.table is not None,
        "look": here.table is not None,
        "roles": here.table is not None and here.missing() is None,
        "promise": here.foreseen is not None,
        "methods": here.foreseen is not None and here.foreseen.finished,
        "plan": here.planned is not None and here.planned.finished,
        "publish": here.published is not None and here.published.finished,
        "hand": here.verified is not None and here.verified.finished,
    }


def null_columns(here: Studio) -> list[str]:
    """Sensitive columns with missing values."""
    columns = here.table["columns"] if here.table is not None else []
    return [c["name"] for c in columns if c["missing"] and here.choices.roles.get(c["name"]) == "sensitive"]


def plan_view(here: Studio) -> dict[str, Any] | None:
    """The plan in words and tables; None where there is none."""
    if here.planned is None or here.planned.task.choices.method not in REGISTRY:
        return None
    given = here.planned.task.choices
    fields = [
        {
            "name": field.name,
            "said": option_name(field.name),
            "help": field.help,
            "required": field.required,
            "value": given.options.get(field.name, ""),
        }
        for field in fields_of(REGISTRY[given.method].spec)
    ]
    view: dict[str, Any] = {"method": given.method, "fields": fields}
    if not here.planned.finished:
        return view | {"ready": False}
    found = here.planned.result
    report = found["report"]
    parameters = {k: v for k, v in report["parameters"].items() if isinstance(v, str | int | float | bool)}
    return view | {
        "ready": True,
        "report": report,
        "parameters": parameters,
        "readers": [
            {"name": name_of(r), "words": READER_WORDS[r["reader"]], "held": verdict(r["held"]), "why": r["why"]}
            | {"posterior": reached(r["posterior"])}
            for r in report["readers"]
        ],
        "unprotected": render_unprotected(report["unprotected"]),
        "cells": render_cells(report["quasi_identifiers"], report["rows"]),
        "errors": errors_table(report.get("expected_error")),
        "text": found["text"],
        "against": found["against"],
        "notes": found["notes"],
    }


def errors_table(error: dict[str, Any] | None) -> dict[str, Any] | None:
    """The expected errors by sensitive value, as the terminal shows them."""
    if not error or "values" not in error:
        return None
    columns = [(k, v) for k, v in error.items() if k != "values" and isinstance(v, list)]
    values = error["values"][:MOST_ERRORS]
    return {
        "meaning": error.get("meaning", "standard error of the count of each value"),
        "header": [name.replace("_", " ") for name, _ in columns],
        "rows": [[str(value), *(number(numbers[i]) for _, numbers in columns)] for i, value in enumerate(values)],
        "more": len(error["values"]) - len(values),
    }


def hand_view(here: Studio) -> dict[str, Any] | None:
    """What is handed over; None where nothing is published."""
    if here.published is None or not here.published.finished:
        return None
    given = here.published.task.choices
    return {
        "out": given.out,
        "upload": given.upload,
        "document": here.published.result["document"],
        "notes": here.published.result["notes"],
        "command": handover.command_line(given),
        "python": handover.python_lines(given),
        "needs_file": not handover.plain_names(given),
        "file": handover.file_name(given),
    }
