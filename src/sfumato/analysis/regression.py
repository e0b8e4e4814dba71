"""`fit`: a model on a release, from the formula to the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..answering.subject import Subject
from ..errors import QueryError, UnsupportedQuery
from ..laws.functionals import Target
from ..model.public import Floats, Scalar
from ..sql.aggregates import LARGEST
from ..sql.scalar import quoted
from . import design as designs
from .cells import (
    Grid,
    Measure,
    Powers,
    Recode,
    check_asked,
    check_column,
    columns_of,
    distinct_values,
    few_rows,
    is_number,
    is_randomised,
    powers,
    read,
    recoder_of,
)
from .design import Family, family_of
from .fit import Fit, plain_name
from .formula import Factor, Variable, label, read_formula
from .newton import Problem, solve

MOST_LEVELS = 50  # of a multinomial outcome
LARGEST_WEIGHT = 1e30  # so that squares of weighted numbers can be added up
LEVELLED = ("binomial", "multinomial")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What is modelled: `levels` of a categorical outcome, the reference first; SQL measures of an untouched one."""

    description: str
    levels: tuple[str, ...]
    measures: tuple[str, ...]

    def weighed(self, factor: Factor, weight: str | None) -> list[Measure]:
        """The measures, times the weight where there is one."""
        columns = factor.expression.columns
        return [
            Measure(
                name=f"the outcome {factor.name}",
                column=columns[0] if columns else None,
                sql=f"({sql}) * ({weight})" if weight else sql,
                ends=sql,
            )
            for sql in self.measures
        ]


def fit(
    subject: Subject,
    formula: str,
    *,
    family: str = "gaussian",
    where: str | None = None,
    weights: str | None = None,
    recode: Recode | None = None,
    target: str = "population",
    level: float = 0.95,
) -> Fit:
    """The model that the analyst would have fitted on the true rows, with errors that know the noise."""
    chosen = family_of(family)
    check_asked(target, level)
    designs.requirement()
    asked = read_formula(formula, columns_of(subject))
    of_outcome = asked.outcome.expression.columns
    on_grid = any(is_randomised(subject, c) for c in of_outcome)
    columns = list(asked.columns) + (list(of_outcome) if on_grid else [])
    weighted = _weights(subject, weights)
    outcome = None if on_grid else _untouched(subject, asked.outcome, chosen, recode or {}, where)
    measures = [] if weighted is None else [weighted]
    if outcome is not None:
        measures += outcome.weighed(asked.outcome, None if weighted is None else weighted.sql)
    if weights is not None and weighted is None:
        columns.append(weights)
    grid = read(subject, columns, where=where, recode=recode, measures=measures, target=target)
    weight = grid.weight
    if weights is not None and weighted is None:
        weight = weight * _weight_numbers(grid.variables[weights], weight)
    elif weights is not None:
        _check_weights(weights, *grid.extremes[0])
    table: Floats | None = None
    if outcome is None:
        outcome, table = _on_grid(asked.outcome, chosen, grid.variables, weight)
    elif not outcome.levels:
        _check_outcome(asked.outcome, chosen, *grid.extremes[-1])
    equations = len(outcome.levels) - 1 if chosen.name == "multinomial" else 1
    plan = designs.build(asked, grid.variables, weight, grid.cell_rows, designs.MOST_COEFFICIENTS // equations)
    first = 1 if weighted is None else 2
    problem = Problem(
        family=chosen,
        x=plan.x,
        names=plan.names,
        weight=weight,
        outcome=table,
        outcome_measures=() if table is not None else tuple(range(first, first + len(outcome.measures))),
        weight_measure=0 if weighted is None else 1,
        functionals=grid.functionals,
        cells=grid.cells,
        cell_rows=grid.cell_rows,
    )
    several = chosen.name == "multinomial"
    names = [f"{lv}: {n}" for lv in outcome.levels[1:] for n in plan.names] if several else list(plan.names)
    solution = solve(problem, [plain_name(n) for n in names])
    goal: Target = "population" if target == "population" else "table"
    if solution.covariance[goal] is None:
        raise UnsupportedQuery(
            "errors of the randomisation alone cannot be told for this fit", hint="Ask for target='population'."
        )
    few = _few_rows(problem, grid, None if chosen.name in LEVELLED else asked.outcome.name, weights)
    caveats = [*solution.caveats, *few, *grid.caveats]
    if grid.functionals.exact:
        caveats.append("no randomised column: an ordinary fit of the published rows")
    return Fit(
        method=grid.method,
        family=chosen,
        design=plan,
        outcome=outcome.description,
        levels=outcome.levels,
        names=tuple(names),
        estimates=solution.params,
        covariance=solution.covariance,
        information_ratio=solution.information,
        target=goal,
        level=level,
        nobs=float((grid.functionals.counts() * grid.weight).sum()),
        cells=grid.cells.cells,
        steps=solution.steps,
        caveats=tuple(caveats),
    )


def _few_rows(problem: Problem, grid: Grid, outcome: str | None, weights: str | None) -> list[str]:
    """Whether the errors hang on few rows, by the outcome (None: it has levels) and by the weights."""

    inside = grid.weight != 0

    def of_measure(m: int) -> Powers:
        rows = float(grid.cell_rows[inside.any(axis=1)].sum())
        return Powers(rows, float(grid.cells.moments[:, m, m].sum()), grid.fourths[m - 1])

    def on_grid(numbers: Floats) -> Powers:
        return powers(grid.functionals.counts() * inside, numbers)

    found: list[str] = []
    if outcome is not None:
        y, measures = problem.outcome, problem.outcome_measures
        found += few_rows(outcome, of_measure(measures[0]) if y is None else on_grid(problem.weight * y[0]))
    if weights is not None:
        measure = problem.weight_measure
        found += few_rows(weights, of_measure(measure) if measure else on_grid(problem.weight))
    return found


def _weights(subject: Subject, weights: str | None) -> Measure | None:
    """An untouched weight column; None where there is none or it is randomised."""
    if weights is None:
        return None
    check_column(subject, weights)
    if not is_number(subject, weights):
        raise QueryError(f'weights need a column of numbers; "{weights}" holds none')
    if is_randomised(subject, weights):
        return None
    sql = f"CAST({quoted(weights)} AS DOUBLE)"
    return Measure(name=f'the weight "{weights}"', column=weights, sql=sql, ends=sql)


def _weight_numbers(variable: Variable, weight: Floats) -> Floats:
    numbers = np.broadcast_to(variable.numbers(), weight.shape)
    held = numbers[weight != 0]
    if np.isnan(held).any():
        raise QueryError(f'the weight "{variable.name}" may be missing', hint="Leave those rows out with where.")
    _check_weights(variable.name, held.min(), held.max())
    return np.where(weight != 0, numbers, 0.0)


def _check_weights(name: str, least: float, most: float) -> None:
    """Refuse weights that do not say how much a row counts."""
    if least >= 0 and 0 < most <= LARGEST_WEIGHT:
        return
    held = (
        "numbers below 0" if least < 0 else "nothing but 0" if most == 0 else "numbers that are not finite or too large"
    )
    raise QueryError(f'weights are numbers from 0 on; "{name}" holds {held}', hint="Leave those rows out with where.")


# --- outcomes -----------------------------------------------------------------------------------------------------


def _check_outcome(factor: Factor, family: Family, least: float, most: float) -> None:
    """Refuse an outcome whose numbers, from the least to the largest, are none that the family models."""
    if not (abs(least) <= LARGEST and abs(most) <= LARGEST):  # NaN is not below it
        raise QueryError(f"the outcome {factor.name} is not finite or too large for some rows", hint=designs.NO_NUMBER)
    if family.name == "poisson" and least < 0:
        raise UnsupportedQuery(f"poisson needs counts, numbers from 0 on; {factor.name} holds numbers below 0")
    if family.name == "binomial" and (least < 0 or most > 1):
        held = "below 0" if least < 0 else "above 1"
        raise UnsupportedQuery(
            f"binomial needs an outcome of 0 and 1, or shares between them; {factor.name} holds numbers {held}",
            hint="Write a condition in braces, for example {x > 10} ~ ...",
        )
    if least == most:
        raise UnsupportedQuery(
            f"the outcome {factor.name} has one value among the rows that take part; there is nothing to model"
        )


def _untouched(subject: Subject, factor: Factor, family: Family, recode: Recode, where: str | None) -> Outcome:
    """An outcome of untouched columns as measures, so that it need not be told apart."""
    column = factor.expression.column
    levelled = factor.levels or (factor.levels is None and column is not None and not is_number(subject, column))
    if family.name not in LEVELLED or (family.name == "binomial" and column is None):
        if levelled:
            raise UnsupportedQuery(f"{family.name} needs a number as outcome; {factor.name} has levels")
        sql = factor.expression.sql(lambda name: is_number(subject, name))
        text = f"Pr({factor.name})" if family.name == "binomial" else factor.name
        return Outcome(description=text, levels=(), measures=(sql,))
    if column is None:
        raise UnsupportedQuery("a multinomial outcome is a column")
    recoder = recoder_of(subject, recode)
    values = distinct_values(subject, column, where)
    merged: dict[str, list[Scalar]] = {lv: [] for lv in recode.get(column, {})}
    for value in values:
        if value is None and recoder.level(column, value) is None:
            raise QueryError(
                f'the outcome "{column}" is missing for some rows', hint=f'Leave them out: where="{column} IS NOT NULL"'
            )
        merged.setdefault(label(recoder.level(column, value)), []).append(value)
    merged = {lv: held for lv, held in merged.items() if held}
    levels = tuple(merged)
    _check_levels(factor, family, levels, len(values), number=is_number(subject, column) and column not in recode)
    kind = str(subject.schema.types[column])
    measures = tuple(_indicator(column, kind, merged[lv]) for lv in levels[1:])
    return Outcome(description=_described(column, family, levels), levels=levels, measures=measures)


def _on_grid(
    factor: Factor, family: Family, variables: dict[str, Variable] | Any, weight: Floats
) -> tuple[Outcome, Floats]:
    """An outcome that reads a randomised column: (J, cells or 1, values) numbers."""
    column = factor.expression.column
    if family.name not in LEVELLED or (family.name == "binomial" and column is None):
        numbers = factor.expression.evaluate(variables)
        full = np.broadcast_to(numbers, weight.shape)
        nulls = [c for c in factor.expression.columns if None in variables[c].values]
        if nulls and np.isnan(full[weight != 0]).any():
            raise QueryError(
                f"the outcome {factor.name} may be missing for some rows",
                hint=f'Leave them out: where="{nulls[0]} IS NOT NULL"',
            )
        _check_outcome(factor, family, float(full[weight != 0].min()), float(full[weight != 0].max()))
        text = f"Pr({factor.name})" if family.name == "binomial" else factor.name
        return Outcome(description=text, levels=(), measures=()), np.where(np.isfinite(numbers), numbers, 0.0)[None]
    if column is None:
        raise UnsupportedQuery("a multinomial outcome is a column")
    variable = variables[column]
    used = np.unique(np.broadcast_to(variable.codes, weight.shape)[weight != 0])
    levels = tuple(variable.labels[i] for i in used)
    _check_levels(factor, family, levels, len(levels), number=variable.numeric)
    table = np.stack([(variable.codes == i).astype(np.float64) for i in used[1:]])
    return Outcome(description=_described(column, family, levels), levels=levels, measures=()), table


def _check_levels(factor: Factor, family: Family, levels: Sequence[str], found: int, *, number: bool) -> None:
    if family.name == "binomial" and len(levels) > 2:
        one = levels[-1] if number else f"'{levels[-1]}'"
        raise UnsupportedQuery(
            f"binomial needs an outcome of two values; {factor.name} has {len(levels)}",
            hint=f"Write a condition in braces: {{{factor.expression.column} == {one}}} ~ ...",
        )
    if len(levels) < 2:
        raise UnsupportedQuery(
            f"the outcome {factor.name} has one value among the rows that take part; there is nothing to model"
        )
    if found > MOST_LEVELS:
        raise UnsupportedQuery(f"{factor.name} has {found} values; an outcome with levels has 2 to {MOST_LEVELS}")


def _described(column: str, family: Family, levels: Sequence[str]) -> str:
    return f"Pr({column} = '{levels[1]}')" if family.name == "binomial" else f"{column}, reference '{levels[0]}'"


def _indicator(column: str, kind: str, values: Sequence[Scalar]) -> str:
    """SQL: 1 for rows that show one of the values, else 0."""
    name = quoted(column)
    listed = [v for v in values if v is not None]
    literals = ", ".join("CAST('" + str(v).replace("'", "''") + f"' AS {kind})" for v in listed)
    parts = [f"{name} IN ({literals})"] if listed else []
    parts += [f"{name} IS NULL"] if len(listed) < len(values) else []
    return f"CASE WHEN {' OR '.join(parts)} THEN 1.0 ELSE 0.0 END"
