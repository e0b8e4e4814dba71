"""The Adult rows the papers used: 30,162 complete training rows, coded over sorted domains."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato import datasets
from sfumato.methods.randomized_response.risk import RiskCells

TRAINING = 32_561
EMGRW = ("education", "marital_status", "sex", "race", "workclass")
ESGRO = ("education", "income", "sex", "race", "occupation")


def data_folder() -> Path:
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        pytest.skip("SFUMATO_DATA is not set: the hierarchies are not at hand")
    return Path(folder)


@functools.cache
def adult(training: bool = True) -> pa.Table:
    """Rows without missing values, of the training file or of both files."""
    table = datasets.adult()
    table = table.slice(0, TRAINING) if training else table
    keep = functools.reduce(pc.and_, [pc.is_valid(table[c]) for c in table.column_names])
    return table.filter(keep)


def coded(table: pa.Table, columns: tuple[str, ...]) -> tuple[np.ndarray, tuple[int, ...], list[list[object]]]:
    """Codes (rows, columns), domain sizes and sorted domains."""
    codes, domains = [], []
    for name in columns:
        domain = sorted(table[name].unique().to_pylist())
        codes.append(pc.index_in(table[name], pa.array(domain, type=table[name].type)).to_numpy())
        domains.append(domain)
    return np.column_stack(codes).astype(np.int64), tuple(map(len, domains)), domains


def cells_of(table: pa.Table, columns: tuple[str, ...]) -> RiskCells:
    codes, sizes, _ = coded(table, columns)
    distinct, counts = np.unique(codes, axis=0, return_counts=True)
    return RiskCells(codes=distinct, true_counts=counts.astype(np.int64), sizes=sizes)


def tensor_of(table: pa.Table, columns: tuple[str, ...]) -> np.ndarray:
    """The full contingency table of true counts."""
    codes, sizes, _ = coded(table, columns)
    return np.bincount(np.ravel_multi_index(tuple(codes.T), sizes), minlength=int(np.prod(sizes))).reshape(sizes)
