"""Levels merged before a formula sees them; merging is the cure where a release says too little about one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError
from ..model.public import Scalar
from ..sql.scalar import nearest
from .expressions import Variable, label

Recode = Mapping[str, Mapping[str, Sequence[Scalar]]]


class Recoder:
    """Merges levels: named ones first, in their order, then the values that no level names, in theirs."""

    def __init__(self, recode: Recode, numeric: Callable[[str], bool]) -> None:
        """`numeric` says whether a column holds numbers."""
        self._recode, self._numeric = recode, numeric
        self._level_of: dict[str, dict[str | None, str]] = {}
        for name, groups in recode.items():
            if not isinstance(groups, Mapping) or any(isinstance(held, str) for held in groups.values()):
                raise QueryError(f'recode of "{name}" needs levels, each with a list of the values that it merges')
            found: dict[str | None, str] = {}
            for level, held in groups.items():
                for member in held:
                    if found.setdefault(_key(member), level) != level:
                        raise QueryError(f'recode of "{name}" names "{member}" twice')
            self._level_of[name] = found

    def level(self, name: str, value: Scalar) -> Scalar:
        """The level that a value belongs to."""
        if name not in self._recode:
            return value
        return self._level_of[name].get(_key(value), None if value is None else label(value))

    def variable(self, name: str, values: tuple[Scalar, ...], codes: NDArray[np.intp], *, randomised: bool) -> Variable:
        """The column after merging."""
        numeric = self._numeric(name)
        if name not in self._recode:
            return Variable(name=name, values=values, codes=codes, numeric=numeric, randomised=randomised)
        known = {_key(v) for v in values}
        for member in (m for held in self._recode[name].values() for m in held):
            if randomised and _key(member) not in known:
                near = nearest(str(member), [str(v) for v in values if v is not None])
                raise QueryError(f'"{name}" has no value "{member}"{near}')
        merged = [self.level(name, v) for v in values]
        order = [lv for lv in self._recode[name] if lv in merged]
        order += [lv for lv in dict.fromkeys(merged) if lv not in order]  # type: ignore[misc]
        place = {lv: i for i, lv in enumerate(order)}
        table = np.array([place[lv] for lv in merged], dtype=np.intp)  # type: ignore[index]
        return Variable(name=name, values=tuple(order), codes=table[codes], numeric=False, randomised=randomised)


def _key(value: Scalar) -> str | None:
    """What makes two spellings one value: 1, 1.0 and "1" are the same, and null is only itself."""
    return None if value is None else label(value)
