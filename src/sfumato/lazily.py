"""Libraries that take a tenth of a second to load, loaded when a name of theirs is first used.

A command imports what it uses: docs/performance.md, "Start-up"; tests/unit/test_start_up.py holds the list.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class _Later:
    """Stands for a module until one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)  # this is not asked for the same name again
        return found


if TYPE_CHECKING:
    import sqlglot
    from pyarrow import dataset
    from scipy import linalg, sparse, special
    from scipy.sparse import csgraph
    from sqlglot import exp
else:
    linalg, sparse, special = _Later("scipy.linalg"), _Later("scipy.sparse"), _Later("scipy.special")
    csgraph, exp, sqlglot = _Later("scipy.sparse.csgraph"), _Later("sqlglot.expressions"), _Later("sqlglot")
    dataset = _Later("pyarrow.dataset")  # it loads pandas

__all__ = ["csgraph", "dataset", "exp", "linalg", "sparse", "special", "sqlglot"]
