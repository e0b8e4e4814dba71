"""Questions without SQL: what a form says becomes SQL, on the server, where everybody can read it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ..errors import SpecError
from ..model.names import ENDS, free_name
from .catalogue import ServedColumn
from .refusals import identifier, literal

MOST_CONDITIONS, MOST_GROUPS = 12, 3
WHAT = {"count": "how many rows", "share": "which share of rows", "average": "the average of", "sum": "the sum of"}
OPERATORS: dict[str, dict[str, str]] = {  # kind of column -> operator -> how it reads
    "text": {
        "is": "is",
        "not": "is not",
        "in": "is one of",
        "has": "contains",
        "empty": "is empty text",
        "null": "is missing",
    },
    "whole": {
        "eq": "=",
        "ne": "≠",
        "lt": "<",
        "le": "≤",
        "gt": ">",
        "ge": "≥",
        "between": "between",
        "null": "missing",
    },
    "truth": {"is": "is", "null": "is missing"},
    "date": {"eq": "on", "lt": "before", "ge": "from", "between": "between", "null": "is missing"},
}
OPERATORS["number"] = OPERATORS["whole"]
OPERATORS["other"] = {"null": "is missing"}
ALONE = {"null": "IS NULL", "empty": "= ''"}  # comparisons that need no value
SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "is": "=", "not": "<>"}
STEPS = {
    "whole": ("", "5", "10", "20", "50", "100", "1000", "10000"),
    "number": ("", "1", "5", "10", "50", "100", "1000", "10000"),
    "date": ("", "month", "year"),
}


class Fields(Protocol):
    """The fields of a form or of a query string: one value, or all of them."""

    def get(self, key: str, /) -> str | None: ...
    def getlist(self, key: str, /) -> list[str]: ...
    def __contains__(self, key: object, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FormCondition:
    """One line of the form: a column, how it is compared, and with what."""

    column: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    @property
    def value(self) -> str:
        """The first value, or nothing."""
        return self.values[0] if self.values else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormGroup:
    """A column to group by, in steps where it is a number or a date."""

    column: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the form asks. Empty lines are kept, so that the form can be shown again as it was."""

    what: str = "count"
    of: str = ""
    share: FormCondition = field(default_factory=FormCondition)
    conditions: tuple[FormCondition, ...] = ()
    groups: tuple[FormGroup, ...] = ()


def read(fields: Fields, columns: Sequence[ServedColumn]) -> Question:
    """The question in the fields of a form; unknown columns and operators fall away."""
    known = {c.name: c for c in columns}
    what = fields.get("what") or "count"

    def condition(mark: str) -> FormCondition:
        column = fields.get(f"c{mark}") or ""
        if column not in known:
            return FormCondition()
        allowed = OPERATORS[known[column].kind]
        operator = fields.get(f"o{mark}") or ""
        given = tuple(v for v in fields.getlist(f"v{mark}") if v != "")
        return FormCondition(
            column=column, operator=operator if operator in allowed else next(iter(allowed)), values=given
        )

    removed = fields.get("without") or ""
    conditions = [condition(str(i)) for i in range(MOST_CONDITIONS) if str(i) != removed and f"c{i}" in fields]
    if fields.get("more") and len(conditions) < MOST_CONDITIONS:
        conditions.append(FormCondition())
    groups: list[FormGroup] = []
    for i in range(MOST_GROUPS):
        column, step = fields.get(f"g{i}") or "", fields.get(f"s{i}") or ""
        if column in known and column not in {g.column for g in groups}:
            groups.append(FormGroup(column=column, step=step if step in STEPS.get(known[column].kind, ()) else ""))
    of = fields.get("of") or ""
    return Question(
        what=what if what in WHAT else "count",
        of=of if of in known else "",
        share=condition("s"),
        conditions=tuple(conditions),
        groups=tuple(groups),
    )


def to_sql(question: Question, columns: Sequence[ServedColumn]) -> str:
    """The SQL of a question; SpecError names the field that is still empty or does not fit."""
    known = {c.name: c for c in columns}
    keys = [_key(group, known) for group in question.groups]
    number, named = _aggregate(question, known)
    where = [_test(c, known) for c in question.conditions if c.column]
    shown = [*(f"{sql} AS {name}" if sql != name else sql for sql, name in keys), f"{number} AS {named}"]
    lines = ["SELECT " + ", ".join(shown)]
    lines.append("FROM release")
    if where:
        lines.append("WHERE " + "\n  AND ".join(where))
    if keys:
        lines.append("GROUP BY " + ", ".join(sql for sql, _ in keys))
        plain = len(keys) == 1 and known[question.groups[0].column].kind in {"text", "truth"}
        lines.append("ORDER BY " + (f"{named} DESC" if plain else ", ".join(n for _, n in keys)))
    return "\n".join(lines)


def _aggregate(question: Question, known: Mapping[str, ServedColumn]) -> tuple[str, str]:
    """(SQL, name) of the number that is asked for."""
    if question.what == "count":
        return "COUNT(*)", _named("n", known)
    if question.what == "share":
        if not question.share.column:
            raise SpecError("choose the column whose share is asked", field="cs")
        return f"AVG(CASE WHEN {_test(question.share, known)} THEN 1 ELSE 0 END)", _named("share", known)
    if not question.of or known[question.of].kind not in {"whole", "number"}:
        raise SpecError("choose a column of numbers", field="of")
    function, name = ("AVG", "average") if question.what == "average" else ("SUM", "total")
    return f"{function}({identifier(question.of)})", _named(f"{name}_{question.of}", known)


def _named(name: str, known: Iterable[str]) -> str:
    """A name for a column of the answer that no column of the release has."""
    return identifier(free_name(name, known, ENDS))


def _key(group: FormGroup, known: Mapping[str, ServedColumn]) -> tuple[str, str]:
    """(SQL, name) of a group."""
    column, kind = identifier(group.column), known[group.column].kind
    if not group.step:
        return column, column
    if kind == "date":
        named = _named(f"{group.column}_{group.step}", known)
        return (f"YEAR({column})" if group.step == "year" else f"DATE_TRUNC('month', {column})"), named
    steps = f"{column} // {group.step} * {group.step}" if kind == "whole" else _floor(column, group.step)
    return steps, _named(f"{group.column}_from", known)


def _floor(column: str, step: str) -> str:
    return f"FLOOR({column})" if step == "1" else f"FLOOR({column} / {step}) * {step}"


def _test(condition: FormCondition, known: Mapping[str, ServedColumn]) -> str:
    """A condition as SQL."""
    column, kind, op = identifier(condition.column), known[condition.column].kind, condition.operator
    if op in ALONE:
        return f"{column} {ALONE[op]}"
    if not condition.values:
        raise SpecError(f'choose a value for "{condition.column}"', field=condition.column)
    values = [_literal(condition.column, v, kind) for v in condition.values]
    if op == "in":
        return f"{column} IN ({', '.join(values)})" if len(values) > 1 else f"{column} = {values[0]}"
    if op == "has":
        return f"{column} LIKE {_containing(condition.value)}"
    if op == "between":
        if len(values) < 2:
            raise SpecError(f'give both ends for "{condition.column}"', field=condition.column)
        return f"{column} BETWEEN {values[0]} AND {values[1]}"
    return f"{column} {SIGNS[op]} {values[0]}"


def _containing(text: str) -> str:
    """The pattern of texts that contain this one, whose own % and _ stand for themselves."""
    plain = re.sub(r"([\\%_])", r"\\\1", text)
    return literal(f"%{plain}%") + ("" if plain == text else r" ESCAPE '\'")


def _literal(column: str, text: str, kind: str) -> str:
    """A value of the form as SQL of the column's kind."""
    if kind in {"whole", "number"}:
        if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", text.strip(), re.ASCII):
            raise SpecError(f'"{column}" is compared with numbers; "{text[:40]}" is none', field=column)
        return text.strip().lstrip("+")
    if kind == "truth":
        return "TRUE" if text.lower() == "true" else "FALSE"
    if kind == "date":
        try:
            datetime.datetime.fromisoformat(text.strip())
        except ValueError:
            raise SpecError(f'"{column}" is compared with dates such as 2024-01-31', field=column) from None
    return literal(text)


def with_empty_line(question: Question) -> Question:
    """The question with one more condition to fill in."""
    return replace(question, conditions=(*question.conditions, FormCondition()))
