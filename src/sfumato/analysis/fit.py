"""The result of a fit, under the names that statsmodels uses.

`llf`, `aic`, `deviance`, `rsquared`, residuals and fitted values of rows are absent on purpose: there is no likelihood
of the true rows here, and residuals would invite reading rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..errors import QueryError, UnsupportedQuery
from ..laws.functionals import Target
from ..model.public import Floats
from ..reports.text import csv_cell, json_text, p_said, p_text, percent
from ..stats.intervals import chi_square_tail, two_sided
from .design import Family, ModelDesign
from .formula import Variable, label

ERRORS: Mapping[str, str] = {
    "population": "errors: of a population of which the table is a random sample",
    "table": "errors: of the randomisation only; target: the fit on the publisher's own rows",
}


def plain_name(name: str) -> str:
    """`C(occupation)[T.Sales]` as messages say it: occupation[Sales]."""
    return re.sub(r"C\(([^(),]*)(?:, base=[^)]*)?\)", r"\1", name).replace("[T.", "[")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaldTest:
    """A test that several coefficients are 0 together."""

    terms: tuple[str, ...]
    statistic: float
    df: int
    pvalue: float

    def __str__(self) -> str:
        return f"chi2({self.df}) = {self.statistic:.4g}, {p_said(self.pvalue)}: {', '.join(self.terms)} = 0"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Fit:
    """Coefficients with their errors; `target` says whose errors `bse` and everything after it are."""

    method: str
    family: Family
    design: ModelDesign
    outcome: str
    levels: tuple[str, ...]
    names: tuple[str, ...]
    estimates: Floats
    covariance: Mapping[Target, Floats | None]
    information_ratio: Floats
    target: Target
    level: float
    nobs: float
    cells: int
    steps: int
    caveats: tuple[str, ...]
    converged: bool = True  # a fit that does not converge is refused

    # --- numbers ----------------------------------------------------------------------------------------------

    def _covariance(self) -> Floats:
        found = self.covariance[self.target]
        assert found is not None  # such a fit is refused
        return found

    def _se(self, target: Target | None = None) -> Floats:
        found = self._covariance() if target is None else self.covariance[target]
        return np.full(len(self.names), np.nan) if found is None else np.sqrt(np.maximum(np.diag(found), 0.0))

    def _p(self) -> Floats:
        return two_sided(self._z())

    def _ends(self, level: float) -> tuple[Floats, Floats]:
        half = -ndtri((1 - level) / 2) * self._se()
        return self.estimates - half, self.estimates + half

    # --- as statsmodels names them -------------------------------------------------------------------------------

    def _series(self, numbers: Floats, name: str | None = None) -> Any:
        import pandas as pd

        return pd.Series(numbers, index=list(self.names), name=name)

    @property
    def params(self) -> Any:
        """The coefficients."""
        return self._series(self.estimates)

    @property
    def bse(self) -> Any:
        """Standard errors, for the target."""
        return self._series(self._se())

    @property
    def bse_table(self) -> Any:
        """Standard errors of the randomisation alone; NaN where they cannot be told."""
        return self._series(self._se("table"))

    @property
    def noise(self) -> Any:
        """The share of the population's variance that is randomisation."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._series((self._se("table") / self._se("population")) ** 2)

    @property
    def tvalues(self) -> Any:
        """Coefficients by their standard errors."""
        return self._series(self._z())

    @property
    def pvalues(self) -> Any:
        """Two-sided, normal; 1e-300 says "at most that"."""
        return self._series(self._p())

    @property
    def information(self) -> Any:
        """How many of its own standard errors the information about each coefficient is away from 0."""
        return self._series(self.information_ratio)

    def _z(self) -> Floats:
        """Infinite where nothing is randomised and the outcome is fitted without error."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.estimates / self._se()

    def conf_int(self, alpha: float | None = None) -> Any:
        """Both ends of the interval of every coefficient."""
        import pandas as pd

        low, high = self._ends(self.level if alpha is None else 1 - alpha)
        return pd.DataFrame({0: low, 1: high}, index=list(self.names))

    def cov_params(self) -> Any:
        """The covariance matrix of the coefficients, for the target."""
        import pandas as pd

        return pd.DataFrame(self._covariance(), index=list(self.names), columns=list(self.names))

    def wald_test(self, terms: str | Sequence[str]) -> WaldTest:
        """The test that a term, a factor in all its terms, or named coefficients are 0."""
        wanted = (terms,) if isinstance(terms, str) else tuple(terms)
        P = len(self.design.names)
        chosen: dict[int, None] = {}
        for name in wanted:
            if name in self.names:
                found = [self.names.index(name)]
            elif name in self.design.terms:
                found = [j * P + i for j in range(len(self.names) // P) for i in self.design.terms[name]]
            else:
                raise QueryError(f'there is no term "{name}"', hint=f"Terms: {', '.join(self.design.terms)}")
            chosen.update(dict.fromkeys(found))
        at = np.array(list(chosen), dtype=np.intp)
        b, S = self.estimates[at], self._covariance()[np.ix_(at, at)]
        statistic = float(b @ np.linalg.solve(S, b))
        return WaldTest(terms=wanted, statistic=statistic, df=len(at), pvalue=chi_square_tail(len(at), statistic))

    def odds_ratios(self) -> Any:
        """exp of coefficients and of their intervals; rate ratios for poisson."""
        import pandas as pd

        if self.family.name == "gaussian":
            raise UnsupportedQuery("a gaussian fit has no odds ratios; its coefficients are differences")
        low, high = self._ends(self.level)
        found = {"ratio": np.exp(self.estimates), "low": np.exp(low), "high": np.exp(high)}
        return pd.DataFrame(found, index=list(self.names))

    def predict(self, description: Mapping[str, Sequence[Any]]) -> Any:
        """The mean outcome, with its interval, at described points: columns of the formula with values of equal length.

        Of a description, never of a row. A multinomial fit has a column per level.
        """
        import pandas as pd

        x = self.design.at(_points(description, self.design))
        z = -ndtri((1 - self.level) / 2)
        P, J = x.shape[1], len(self.names) // x.shape[1]
        eta = x @ self.estimates.reshape(J, P).T
        V = self._covariance().reshape(J, P, J, P)
        if self.family.name != "multinomial":
            se = np.sqrt(np.einsum("np,pq,nq->n", x, V[0, :, 0, :], x))
            slope = self.family.slope(eta)[:, 0, 0]
            ends = [self.family.mean(eta[:, 0] + sign * z * se) for sign in (-1, 1)]
            mean = self.family.mean(eta)[:, 0]
            return pd.DataFrame({"mean": mean, "se": slope * se, "low": ends[0], "high": ends[1]})
        slope = self.family.slope(eta)
        variance = np.einsum("njk,np,kplq,nq,njl->nj", slope, x, V, x, slope, optimize=True)
        mean = self.family.mean(eta)
        total = np.einsum("nk,np,kplq,nq,nl->n", slope.sum(axis=1), x, V, x, slope.sum(axis=1), optimize=True)
        columns = {}
        means = np.column_stack([1 - mean.sum(axis=1), mean])
        for j, (name, se) in enumerate(
            zip(self.levels, np.sqrt(np.maximum(np.column_stack([total, variance]), 0.0)).T, strict=True)
        ):
            columns[name] = means[:, j]
            columns[f"{name}_low"], columns[f"{name}_high"] = (
                np.clip(means[:, j] + sign * z * se, 0.0, 1.0) for sign in (-1, 1)
            )
        return pd.DataFrame(columns)

    # --- shapes ------------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per coefficient, as `sfumato fit --format json` has them."""
        low, high = self._ends(self.level)
        columns = {
            "estimate": self.estimates,
            "se": self._se(),
            "se_table": self._se("table"),
            "low": low,
            "high": high,
            "p": self._p(),
            "information": self.information_ratio,
        }
        return [
            {"term": name, **{key: _finite(column[i]) for key, column in columns.items()}}
            for i, name in enumerate(self.names)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The document of `sfumato fit --format json`."""
        return {
            "method": self.method,
            "formula": self.design.formula.text,
            "family": self.family.name,
            "models": self.outcome,
            "target": self.target,
            "level": self.level,
            "nobs": self.nobs,
            "cells": self.cells,
            "rows": self.rows(),
            "caveats": list(self.caveats),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json_text(self.to_dict())

    def to_csv(self) -> str:
        """The coefficients as CSV with a header."""
        import csv
        import io

        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.rows()[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: csv_cell(cell) for key, cell in row.items()} for row in self.rows())
        return text.getvalue()

    def plot(self) -> Any:
        """The coefficients with their intervals, as an altair chart."""
        from ..reports.pages import coefficient_plot

        return coefficient_plot(self.to_dict())

    def to_html(self) -> str:
        """A page with summary and plot that loads nothing from anywhere."""
        from ..reports.pages import fit_page

        return fit_page(self.to_dict(), ERRORS[self.target])

    def _repr_html_(self) -> str:
        from ..reports.pages import fit_table

        return fit_table(self.to_dict(), ERRORS[self.target])

    def to_pandas(self) -> Any:
        """The coefficients as a data frame, indexed by their names."""
        return self.to_arrow().to_pandas().set_index("term")

    def to_arrow(self) -> Any:
        """The coefficients as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows())

    def summary(self) -> str:
        """The fit as text."""
        low, high = self._ends(self.level)
        z = self._z()
        header = ["", "coef", "std err", "of noise", "z", "P>|z|", f"{percent(self.level)} interval"]
        table, population = self._se("table"), self._se("population")
        lines = [
            [
                name,
                f"{self.estimates[i]:.4g}",
                f"{self._se()[i]:.3g}",
                "-" if math.isnan(table[i]) or population[i] == 0 else f"{(table[i] / population[i]) ** 2:.0%}",
                f"{z[i]:.2f}",
                p_text(self._p()[i]),
                f"{low[i]:.4g} .. {high[i]:.4g}",
            ]
            for i, name in enumerate(self.names)
        ]
        widths = [max(len(line[c]) for line in [header, *lines]) for c in range(len(header))]
        shown = [
            "  ".join(
                cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in [header, *lines]
        ]
        top = [
            f"{self.family.name} fit of {self.design.formula.text}",
            f"models {self.outcome}; {self.nobs:,.0f} rows, {self.cells:,} cells; release by {self.method}",
            ERRORS[self.target],
        ]
        return "\n".join([*top, *shown, *(f"note: {caveat}" for caveat in self.caveats)])

    def __str__(self) -> str:
        return self.summary()

    __repr__ = __str__


def _points(description: Mapping[str, Sequence[Any]], design: ModelDesign) -> dict[str, Variable]:
    columns = design.formula.columns
    missing = [c for c in columns if c not in description]
    if missing:
        raise QueryError(f'a point needs a value for "{missing[0]}"', hint=f"Columns: {', '.join(columns)}")
    lengths = {len(description[c]) for c in columns}
    if len(lengths) > 1:
        raise QueryError("the columns of a description have different lengths")
    found = {}
    for name in columns:
        values = list(description[name])
        distinct = list(dict.fromkeys(values))
        codes = np.array([distinct.index(v) for v in values], dtype=np.intp)[:, None]
        numeric = all(v is None or isinstance(v, int | float) for v in distinct)
        found[name] = Variable(
            name=name,
            values=tuple(distinct if numeric else [label(v) if v is not None else None for v in distinct]),
            codes=codes,
            numeric=numeric,
            randomised=False,
        )
    return found


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
