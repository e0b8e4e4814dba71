"""Libraries that take a tenth of a second to load, loaded when a name of theirs is first used.

A command imports what it uses: docs/performance.md, "Start-up"; tests/unit/test_start_up.py holds the list.
"""

from __future__ import annotations

import sys
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Later:
    """Stands for a module until one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _module(self) -> ModuleType:
        return import_module(self._name)

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._module(), attribute)
        setattr(self, attribute, found)  # this is not asked for the same name again
        return found


class _Functions(_Later):
    """scipy.special; in a process that runs one command only its compiled functions.

    The package also loads linear algebra, sparse arrays and wrappers for the arrays of other libraries, a fifth of a
    second, for functions that take numpy arrays. While the functions are loaded an empty package stands in its place.
    It does not stay there: whoever imports scipy.special later gets the real one, with the same functions in it.
    """

    def _module(self) -> ModuleType:
        with _loading:
            return self._functions() if _alone and self._name not in sys.modules else import_module(self._name)

    def _functions(self) -> ModuleType:
        stand_in = ModuleType(self._name)
        stand_in.__path__ = [f"{folder}/special" for folder in import_module("scipy").__path__]
        sys.modules[self._name] = stand_in
        try:
            return import_module(f"{self._name}._ufuncs")
        except ImportError:  # a scipy that is built in another way
            pass
        finally:
            del sys.modules[self._name]
        return import_module(self._name)


class _NoText:
    """A docstring that was not looked through."""

    def __init__(self, _: str) -> None: ...

    def __getitem__(self, _: str) -> tuple[()]:
        return ()


class _Few:
    """A list of pyarrow's functions with those that its module names itself."""

    @staticmethod
    def list_functions() -> list[str]:
        return ["utf8_zero_fill"]

    @staticmethod
    def get_function(name: str) -> Any:
        return import_module("pyarrow._compute").get_function(name)


def _functions_on_demand(module: ModuleType) -> None:
    """Nothing; the module makes those of pyarrow's functions that it lacks when they are first asked for."""

    def made(name: str) -> Any:
        try:
            kernel = vars(module)["get_function"]({"and_": "and", "or_": "or"}.get(name, name))
            if kernel.kind == "hash_aggregate":  # which the module leaves out
                raise KeyError
        except KeyError:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name) from None
        vars(module)[name] = vars(module)["_wrap_function"](name, kernel)
        return vars(module)[name]

    vars(module)["__getattr__"] = made


class _Kernels(_Later):
    """pyarrow.compute; in a process that runs one command without most of its functions, and without docstrings of the
    others: it would make three hundred, and look through the docstrings of all their options for a list of parameters,
    which is most of the time that it takes."""

    def _module(self) -> ModuleType:
        with _loading:
            name = "pyarrow.vendored.docscrape"
            if not _alone or name in sys.modules or self._name in sys.modules:
                return import_module(self._name)
            stand_in = ModuleType(name)
            vars(stand_in)["NumpyDocString"] = _NoText
            sys.modules[name] = stand_in
            kernels = vars(import_module("pyarrow._compute"))
            registry = kernels["function_registry"]
            kernels["function_registry"] = _Few
            try:
                found = import_module(self._name)
                vars(found)["function_registry"] = registry
                _functions_on_demand(found)
                return found
            except Exception:  # a pyarrow that is built in another way
                sys.modules.pop(self._name, None)
            finally:
                kernels["function_registry"] = registry
                del sys.modules[name]
            return import_module(self._name)


class _Template:
    """An expression of a class, parsed when it is first asked for."""

    def __init__(self, parse: Any, *given: Any, **how: Any) -> None:
        self._parse, self._given, self._how, self._found = parse, given, how, None

    def __get__(self, _: object, owner: type | None = None) -> Any:
        if self._found is None:
            self._found = self._parse(*self._given, **self._how)
        return self._found


class _Dialect(_Later):
    """sqlglot; in a process that runs one command DuckDB's dialect comes without the expressions that it would parse
    while it is loaded, by which it writes functions that no question of ours has (a fifth of the time of both)."""

    def _module(self) -> ModuleType:
        with _loading:
            found = import_module(self._name)
            dialect = f"{self._name}.dialects.duckdb"
            expressions = vars(import_module(f"{self._name}.expressions"))
            parse = expressions.get("maybe_parse")
            if not _alone or dialect in sys.modules or parse is None:
                return found

            def later(*given: Any, **how: Any) -> Any:
                in_class = expressions["maybe_parse"] is later and "__qualname__" in sys._getframe(1).f_locals
                return _Template(parse, *given, **how) if in_class else parse(*given, **how)

            expressions["maybe_parse"] = later
            try:
                import_module(dialect)
            except ImportError:  # a sqlglot that is built in another way
                pass
            finally:
                expressions["maybe_parse"] = parse
            return found


_alone, _loading = False, Lock()


def one_command() -> None:
    """Nothing; from now on no other thread of this process imports scipy, as is known of a command of ours, and nobody
    reads the docstrings of pyarrow's functions."""
    global _alone  # noqa: PLW0603 - a fact about the process
    _alone = True


if TYPE_CHECKING:
    import sqlglot
    from pyarrow import compute, dataset, parquet
    from scipy import linalg, sparse, special
    from sqlglot import exp
else:
    linalg, sparse = _Later("scipy.linalg"), _Later("scipy.sparse")
    special = _Functions("scipy.special")
    exp, sqlglot = _Later("sqlglot.expressions"), _Dialect("sqlglot")
    compute, parquet = _Kernels("pyarrow.compute"), _Later("pyarrow.parquet")
    dataset = _Later("pyarrow.dataset")  # it loads pandas

__all__ = ["compute", "dataset", "exp", "linalg", "one_command", "parquet", "sparse", "special", "sqlglot"]
