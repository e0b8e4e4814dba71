"""Modules that libraries load for what a command does not do are loaded when somebody does it.

Only for a process of our own; whoever asks for one of their names gets what they would have had.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any

UNUSED = frozenset({"html", "ipaddress", "platform", "subprocess"})  # imported as they are, not by names in them

METADATA, INSTALLED = "importlib.metadata", ".dist-info"


class _Late:
    """Finds these modules; they are executed when an attribute of theirs is first asked for."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(fullname, path, target) if fullname in UNUSED else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def load_late() -> None:
    """Nothing; from now on these modules are loaded when they are used."""
    if not any(isinstance(finder, _Late) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Late())
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


class _Untyped(dict[str, Any]):
    """A typed dictionary whose types nobody looks at: a dictionary."""

    def __init_subclass__(cls, **_: Any) -> None: ...

    def __new__(cls, **given: Any) -> Any:
        return dict(given)


def types_late() -> None:
    """Nothing; pydantic's core is loaded without the types of its hundred kinds of schemas, which are for people."""
    name = "pydantic_core.core_schema"
    modules = [importlib.import_module(one) for one in ("typing", "typing_extensions")]
    if name in sys.modules:
        return
    typed = [module.TypedDict for module in modules]
    try:
        for module in modules:
            vars(module)["TypedDict"] = _Untyped
        with suppress(Exception):  # a pydantic that is built in another way, which is loaded as ever
            importlib.import_module(name)
    finally:
        for module, own in zip(modules, typed, strict=True):
            vars(module)["TypedDict"] = own


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
