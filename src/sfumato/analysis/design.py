"""The design of a model on the grid of cells by true values: numbers x for every coefficient, and the outcome.

Levels come from what the release declares, not from what happens to be published; the reference is the first one.
formulaic lays out contrasts and interactions. It is given factors that are already numbers or levels, under names of
ours, so no text of the analyst's reaches it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..errors import QueryError, SpecError, UnsupportedQuery
from ..model.public import Floats, Scalar
from ..sql.aggregates import LARGEST
from .formula import Factor, Formula, Variable, label

MOST_COEFFICIENTS = 1_000  # a fit of these takes seconds; the time grows with their cube
MOST_NUMBERS = 2_000_000_000  # cells x values x coefficients
NO_NUMBER = (
    "It divides by 0, takes a logarithm or a root of what has none, or overflows; leave those rows out with where."
)
PLACE = re.compile(r"sfq(\d+)z")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """A factor with levels: `values` in order, the reference first; codes on the grid, -1 where weight is 0."""

    values: tuple[Scalar, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelDesign:
    """x is (cells, values or 1, coefficients): one column of values where no randomised column is on the right side."""

    formula: Formula
    x: Floats
    names: tuple[str, ...]
    terms: Mapping[str, tuple[int, ...]]  # term -> its coefficients
    levels: tuple[Levels | None, ...]  # of each factor
    spec: Any  # formulaic's, for other points

    def at(self, variables: Mapping[str, Variable]) -> Floats:
        """(points, coefficients): x at described points, each variable being (points, 1)."""
        columns = {}
        for i, (factor, levels) in enumerate(zip(self.formula.factors, self.levels, strict=True)):
            columns[_place(i)] = _column(factor, levels, variables, None)
        frame = _frame(columns)
        return np.asarray(self.spec.get_model_matrix(frame, context={}), dtype=np.float64)


def requirement() -> Any:
    """The formulaic module, or how to get it."""
    try:
        import formulaic
    except ImportError:
        raise SpecError("models need the extra: pip install 'sfumato[fit]'", field="fit") from None
    return formulaic


def build(
    formula: Formula, variables: Mapping[str, Variable], weight: Floats, rows: Floats, most: int = MOST_COEFFICIENTS
) -> ModelDesign:
    """The design of the right side; `weight` (cells, values) is 0 where a row does not take part, `rows` per cell.

    At most `most` columns are laid out: more are refused before there is room for them.
    """
    formulaic = requirement()
    levels = tuple(_levels(f, variables, weight) for f in formula.factors)
    randomised = any(variables[c].randomised for c in formula.columns)
    width = weight.shape[1] if randomised else 1
    shape = (len(weight), width)
    texts = [":".join(_place(i) for i in term) or "1" for term in formula.terms]
    text = " + ".join(texts) if () in formula.terms else " + ".join(["0", *texts])
    _check_size(formula, levels, formulaic.Formula(text), shape[0] * weight.shape[1], most)
    columns: dict[str, Any] = {}
    inside = weight if randomised else weight.max(axis=1, keepdims=True)
    for i, (factor, found) in enumerate(zip(formula.factors, levels, strict=True)):
        column = _column(factor, found, variables, inside)
        if found is None:
            _check_numbers(factor, column, inside, rows, variables)
        columns[_place(i)] = np.broadcast_to(column, shape) if found is None else _spread(column, shape)
    frame = _frame(columns, rows=shape[0] * shape[1])
    matrix = formulaic.Formula(text).get_model_matrix(frame, na_action="raise", output="numpy", context={})
    spec = matrix.model_spec
    names = tuple(_named(name, formula) for name in spec.column_names)
    terms: dict[str, tuple[int, ...]] = {}
    at = 0
    for term, found in zip(spec.terms, spec.structure, strict=True):
        terms[_named(str(term), formula) if str(term) != "1" else "Intercept"] = tuple(
            range(at, at + len(found.columns))
        )
        at += len(found.columns)
    x = np.ascontiguousarray(np.asarray(matrix, dtype=np.float64)).reshape(*shape, len(names))
    return ModelDesign(formula=formula, x=x, names=names, terms=terms, levels=levels, spec=spec)


def _check_size(formula: Formula, levels: Sequence[Levels | None], made: Any, points: int, most: int) -> None:
    """Refuse a model that is too large, from its levels alone.

    A term has at least the product of its factors' levels less one; where that is few enough, formulaic lays out a
    single row and tells how many columns there are.
    """
    sizes = [1 if found is None else len(found.values) for found in levels]
    least = sum(math.prod(max(1, sizes[i] - 1) for i in term) for term in formula.terms)
    if least <= most:
        one = {
            _place(i): np.ones((1, 1)) if found is None else (np.zeros((1, 1), dtype=np.intp), found.labels)
            for i, found in enumerate(levels)
        }
        matrix = made.get_model_matrix(_frame(one, rows=1), na_action="raise", output="numpy", context={})
        least = len(matrix.model_spec.column_names)
    if least > most:
        largest = max(formula.terms, key=lambda term: math.prod(sizes[i] for i in term))
        name = ":".join(formula.factors[i].name for i in largest)
        raise UnsupportedQuery(
            f"the model has more than {most:,} coefficients for each outcome, most of them of {name}; it is not fitted",
            hint="Merge levels (recode), or leave out a term.",
        )
    if points * least > MOST_NUMBERS:
        raise QueryError(
            f"the model has {points:,} cells by values and {least} coefficients, too many",
            hint="Round a column, for example I(age // 10 * 10), or publish it in classes.",
        )


def _levels(factor: Factor, variables: Mapping[str, Variable], weight: Floats) -> Levels | None:
    """The levels of a factor that has them, among rows that take part; None for a number."""
    column = factor.expression.column
    variable = variables[column] if column is not None else None
    if factor.levels is False or (factor.levels is None and variable is not None and _is_number(variable)):
        return None
    if variable is not None:
        values, labels, codes = variable.values, variable.labels, variable.codes
    else:
        numbers = factor.expression.evaluate(variables)
        finite = numbers[np.isfinite(numbers)]
        distinct, codes = np.unique(finite, return_inverse=True)
        values, labels = tuple(distinct.tolist()), tuple(label(v) for v in distinct.tolist())
        places = np.full(numbers.shape, -1)
        places[np.isfinite(numbers)] = codes.reshape(-1)
        codes = places
    used = np.unique(np.broadcast_to(codes, weight.shape)[weight != 0])
    chosen = [int(i) for i in used if i >= 0]
    if len(chosen) < 2:
        raise QueryError(f"{factor.name} has {len(chosen)} level among the rows that take part; a factor needs two")
    if factor.base is not None:
        wanted = label(factor.base)
        found = [i for i in chosen if labels[i] == wanted]
        if not found:
            raise QueryError(
                f'{factor.name} has no level "{wanted}"', hint=f"Levels: {', '.join(labels[i] for i in chosen[:30])}"
            )
        chosen = [found[0], *(i for i in chosen if i != found[0])]
    return Levels(values=tuple(values[i] for i in chosen), labels=tuple(labels[i] for i in chosen))


def _is_number(variable: Variable) -> bool:
    return variable.numeric and not any(isinstance(v, bool) for v in variable.values)


def _column(factor: Factor, levels: Levels | None, variables: Mapping[str, Variable], weight: Floats | None) -> Any:
    """Numbers, or a pandas categorical with its shape, on the grid."""
    if levels is None:
        numbers = factor.expression.evaluate(variables)
        return numbers if weight is None else np.where(_full(weight, numbers) != 0, _full(numbers, weight), 0.0)
    column = factor.expression.column
    if column is not None:
        variable = variables[column]
        place = {text: i for i, text in enumerate(levels.labels)}
        table = np.array([place.get(text, -1) for text in variable.labels], dtype=np.intp)
        codes = table[variable.codes]
    else:
        numbers = factor.expression.evaluate(variables)
        order = np.argsort(np.array(levels.values, dtype=np.float64))
        sorted_values = np.array(levels.values, dtype=np.float64)[order]
        near = np.minimum(np.searchsorted(sorted_values, numbers), len(order) - 1)
        codes = np.where(sorted_values[near] == numbers, order[near], -1)
    if weight is None:
        if (codes < 0).any():
            raise QueryError(f"{factor.name} has levels {', '.join(levels.labels[:30])}; another one was given")
        return (codes, levels.labels)
    full = _full(codes, weight)
    # a row that does not take part has weight 0 whatever its level is
    return (np.where((_full(weight, codes) != 0) & (full >= 0), full, 0), levels.labels)


def _full(array: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    return np.broadcast_to(array, np.broadcast_shapes(array.shape, other.shape))


def _spread(column: tuple[NDArray[Any], tuple[str, ...]], shape: tuple[int, int]) -> Any:
    codes, labels = column
    return np.broadcast_to(codes, shape), labels


def _check_numbers(
    factor: Factor, column: Floats, weight: Floats, rows: Floats, variables: Mapping[str, Variable]
) -> None:
    """Refuse nulls and infinities among rows that take part."""
    bad = ~(np.abs(column) <= LARGEST)
    if not bad.any():
        return
    count = float(rows[np.broadcast_to(bad, weight.shape).any(axis=1)].sum())
    nulls = [c for c in factor.expression.columns if None in variables[c].values]
    hint = f'Leave them out: where="{nulls[0]} IS NOT NULL"' if nulls else NO_NUMBER
    held = "is missing or not finite" if nulls else "is not finite or too large"
    raise QueryError(f"{factor.name} {held} for up to {count:,.0f} rows", hint=hint)


def _frame(columns: Mapping[str, Any], rows: int | None = None) -> Any:
    import pandas as pd

    made: dict[str, Any] = {}
    for name, column in columns.items():
        if isinstance(column, tuple):
            codes, labels = column
            made[name] = pd.Categorical.from_codes(codes.ravel(), categories=list(labels))
        else:
            made[name] = np.asarray(column, dtype=np.float64).ravel()
    return pd.DataFrame(made) if made else pd.DataFrame(index=range(rows or 1))


def _place(i: int) -> str:
    return f"sfq{i}z"


def _named(name: str, formula: Formula) -> str:
    """A name of formulaic's with the factors as the analyst typed them."""
    return PLACE.sub(lambda found: formula.factors[int(found[1])].name, name)


# Families of models with their canonical links: mean and slope of the outcome at a linear predictor.
#
# Every family has J equations (one, or the levels of a multinomial outcome but the first): eta is (..., J).


FAMILIES = ("gaussian", "binomial", "poisson", "multinomial")


class Family(Protocol):
    """What Newton asks of a family."""

    @property
    def name(self) -> str:
        """As typed."""

    @property
    def bounded(self) -> bool:
        """Whether no coefficient can run away to infinity."""

    def mean(self, eta: Floats) -> Floats:
        """(..., J) expected outcome."""

    def slope(self, eta: Floats) -> Floats:
        """(..., J, J) its derivative; symmetric, because links are canonical."""

    def link(self, mean: float) -> float:
        """The predictor at an overall mean, where to start."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    name: str = "gaussian"
    bounded: bool = True

    def mean(self, eta: Floats) -> Floats:
        return eta

    def slope(self, eta: Floats) -> Floats:
        return np.ones((*eta.shape, 1))

    def link(self, mean: float) -> float:
        return mean


@dataclass(frozen=True, slots=True)
class Binomial:
    name: str = "binomial"
    bounded: bool = False

    def mean(self, eta: Floats) -> Floats:
        return expit(eta)

    def slope(self, eta: Floats) -> Floats:
        p = expit(eta)
        return (p * (1 - p))[..., None]

    def link(self, mean: float) -> float:  # noqa: ARG002 - probabilities start at a predictor of 0
        return 0.0


@dataclass(frozen=True, slots=True)
class Poisson:
    name: str = "poisson"
    bounded: bool = False

    def mean(self, eta: Floats) -> Floats:
        return np.exp(eta)

    def slope(self, eta: Floats) -> Floats:
        return np.exp(eta)[..., None]

    def link(self, mean: float) -> float:
        return float(np.log(mean)) if mean > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Multinomial:
    name: str = "multinomial"
    bounded: bool = False

    def mean(self, eta: Floats) -> Floats:
        top = np.maximum(eta.max(axis=-1, keepdims=True), 0.0)
        e = np.exp(eta - top)
        return e / (np.exp(-top) + e.sum(axis=-1, keepdims=True))

    def slope(self, eta: Floats) -> Floats:
        p = self.mean(eta)
        return p[..., :, None] * np.eye(eta.shape[-1]) - p[..., :, None] * p[..., None, :]

    def link(self, mean: float) -> float:  # noqa: ARG002 - probabilities start at a predictor of 0
        return 0.0


def family_of(name: str) -> Family:
    """The family of this name."""
    made: dict[str, Family] = {f.name: f for f in (Gaussian(), Binomial(), Poisson(), Multinomial())}
    if name not in made:
        raise SpecError(f'family must be one of {", ".join(FAMILIES)}, got "{name}"', field="family")
    return made[name]
