"""Fits and tests on the analysts' page: what is asked for, and the result as files and as a page shows it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode

from ..analysis.families import FAMILIES
from ..analysis.fit import Fit
from ..analysis.independence import Independence
from ..query import Release
from ..reports.text import json_text, number, p_text
from .answer_charts import dots
from .presenting import cell, scale

Form = Literal["json", "csv", "page"]
FORMS = {"fit": ("json", "csv"), "test": ("json",)}
MOST_DRAWN = 60  # coefficients; the table has all
INTERCEPT = "Intercept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """A model or a test asked of a release: a formula, or two columns."""

    release: str
    form: Form
    formula: str = ""
    family: str = FAMILIES[0]
    x: str = ""
    y: str = ""
    where: str = ""
    level: float = 0.95

    @property
    def kind(self) -> str:
        """ "fit" or "test"."""
        return "fit" if self.formula else "test"

    @property
    def sql(self) -> str:
        """What was typed."""
        return self.formula or f"{self.x}, {self.y}"

    def fields(self) -> dict[str, str]:
        """The question as fields of an address."""
        own = {"formula": self.formula, "family": self.family} if self.formula else {"x": self.x, "y": self.y}
        level = {} if self.level == 0.95 else {"level": str(self.level)}
        return own | ({"where": self.where} if self.where else {}) | level


def concluded(release: Release, asked: Conclusion) -> tuple[bytes, dict[str, Any]]:
    """(the file, what a page needs); one of them is empty."""
    found: Fit | Independence
    if asked.formula:
        found = release.fit(asked.formula, family=asked.family, where=asked.where or None, level=asked.level)
    else:
        found = release.test(asked.x, asked.y, where=asked.where or None, level=asked.level)
    if asked.form == "page":
        return b"", _model(found) if isinstance(found, Fit) else _independence(found)
    text = found.to_csv() if asked.form == "csv" and isinstance(found, Fit) else json_text(found.to_dict())
    return text.encode(), {}


def _model(fit: Fit) -> dict[str, Any]:
    document = fit.to_dict()
    rows = [
        {"": row["estimate"], "_se": row["se"], "_low": row["low"], "_high": row["high"]} for row in document["rows"]
    ]
    ends = scale([(row["_low"], row["_high"]) if row["_low"] is not None else None for row in rows])
    drawn = [
        {"key": r["term"], "value": r["estimate"], "low": r["low"], "high": r["high"]}
        for r in document["rows"]
        if r["low"] is not None and (r["term"] != INTERCEPT or len(rows) == 1)  # its scale is not that of the others
    ][:MOST_DRAWN]
    return {
        "kind": "fit",
        "title": f"{document['family']} fit of {document['formula']}",
        "standfirst": f"models {document['models']}; {document['nobs']:,.0f} rows; release by {document['method']}",
        "interval": f"{100 * document['level']:.10g} % interval",
        "names": [row["term"] for row in document["rows"]],
        "cells": [cell(row, "", ends) for row in rows],
        "p": ["" if row["p"] is None else p_text(row["p"]) for row in document["rows"]],
        "chart": dots(
            drawn, "coefficient", "term", "Coefficients with their intervals; the table below holds the same numbers"
        )
        if drawn
        else None,
        "caveats": document["caveats"],
        "text": fit.summary(),
    }


def _independence(test: Independence) -> dict[str, Any]:
    strength = "not told by this release"
    if test.high is not None:
        ends = (
            f"{number(test.low)} to {number(test.high)}" if test.cramers_v is not None else f"up to {number(test.high)}"
        )
        strength = ends if test.cramers_v is None else f"{number(test.cramers_v)}, {ends}"
    facts = [
        (f"chi-square, {test.df} degrees of freedom", number(test.statistic)),
        ("p", p_text(test.pvalue)),
        (f"Cramer's V, {100 * test.level:.10g} % interval", strength),
    ]
    if test.odds_ratio is not None:
        ratio = test.odds_ratio
        facts.append(("odds ratio", f"{number(ratio.value)}, {number(ratio.low)} to {number(ratio.high)}"))
    return {
        "kind": "test",
        "title": f"Do {test.x} and {test.y} go together?",
        "standfirst": test.test,
        "facts": facts,
        "caveats": list(test.caveats),
        "text": str(test),
    }


def links(name: str, digest: str, asked: Conclusion) -> dict[str, str]:
    """Addresses of a conclusion: the page, and the files; they name the release's contents."""
    fields = asked.fields() | {"digest": digest[:16]}
    files = {f: f"/{quote(name)}/{asked.kind}?{urlencode(fields | {'format': f})}" for f in FORMS[asked.kind]}
    return {"page": f"/{quote(name)}/ask?{urlencode(fields)}#answer", **files}


def lines(name: str, asked: Conclusion) -> dict[str, str]:
    """The same on a command line and in Python."""
    fields: Mapping[str, str] = asked.fields()
    words = [asked.formula] if asked.formula else [asked.x, asked.y]
    options = {key: fields[key] for key in ("family", "where", "level") if key in fields}
    if options.get("family") == FAMILIES[0]:
        del options["family"]
    given_options = "".join(f" --{key}={shlex.quote(text)}" for key, text in options.items())
    ended = ["--"] if any(word.startswith("-") for word in (name, *words)) else []  # what follows is no option
    shell = " ".join(shlex.quote(word) for word in (*ended, name, *words))
    given = [repr(word) for word in words]
    given += [f"{key}={text if key == 'level' else repr(text)}" for key, text in options.items()]
    return {
        "shell": f"sfumato {asked.kind}{given_options} {shell}",
        "python": f"import sfumato\n\nrelease = sfumato.open_release({name!r})\n"
        f"print(release.{asked.kind}({', '.join(given)}))",
    }
