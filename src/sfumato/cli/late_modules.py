"""Modules that libraries load for what a command does not do are loaded when somebody does it.

Only for a process of our own; whoever asks for one of their names gets what they would have had.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

METADATA, INSTALLED = "importlib.metadata", ".dist-info"


def load_late() -> None:
    """Nothing; from now on importlib.metadata is loaded when it is used."""
    if METADATA not in sys.modules:
        sys.modules[METADATA] = vars(importlib)["metadata"] = _Installed(METADATA)


class _Installed(ModuleType):
    """Stands for importlib.metadata, which comes with what reads e-mail and archives, until it is asked for more than
    a package's version, or for the functions that packages hold and do not call."""

    @staticmethod
    def version(name: str) -> str:
        """As the name of the folder beside the package says it."""
        for folder in sys.path:
            with suppress(OSError):
                for found in os.listdir(folder or "."):  # noqa: PTH208 - pathlib is not loaded yet
                    if found.startswith(f"{name}-") and found.endswith(INSTALLED):
                        return found[len(name) + 1 : -len(INSTALLED)]
        return str(_installed().version(name))

    @staticmethod
    def entry_points(**asked: Any) -> Any:
        """Those of the module itself."""
        return _installed().entry_points(**asked)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever imports something asks for these
            raise AttributeError(name)
        return getattr(_installed(), name)


def _installed() -> Any:
    """The module itself, from now on in its place."""
    if isinstance(sys.modules.get(METADATA), _Installed):
        del sys.modules[METADATA]
    return importlib.import_module(METADATA)


class _NoMasks(ModuleType):
    """Stands for numpy.ma, which is asked of every array whether it is a masked one: none is, until it is loaded."""

    MaskedArray = type("MaskedArray", (), {})

    @staticmethod
    def is_masked(_: object) -> bool:
        return False

    isMaskedArray = is_masked  # noqa: N815 - numpy's name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


def masks_late(numpy: ModuleType) -> None:
    """Nothing; numpy.ma is loaded when it is imported, or asked for anything else, and then takes its place."""
    if "numpy.ma" not in sys.modules:
        vars(numpy).setdefault("ma", _NoMasks("numpy.ma"))
