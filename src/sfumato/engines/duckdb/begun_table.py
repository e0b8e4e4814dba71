"""A table that is opened, and its rows read, beside other work."""

from __future__ import annotations

import copy
from threading import Event, Thread
from typing import Any

from ...errors import SfumatoError
from .. import scratch
from ..addresses import address_of
from ..contract import Engine
from ..source import paths_of, source_of
from .engine import LocalEngine
from .files import kind_of
from .sources import binder
from .table import LocalTable, Wanted

WHOLE = "csv"  # the kind of files of which all columns are read, whoever wants which


class BegunTable:
    """The table of files, opened by a thread from the moment on that this is made.

    `wanted` tells the columns that both passes look at. Where the source cannot be opened, whoever asks for the table
    is told why, or finds none and meets the reason again.
    """

    def __init__(self, engine: LocalEngine, source: Any, wanted: Wanted) -> None:
        self._engine, self._source, self._wanted = copy.copy(engine), source, wanted
        self._engine.stop = Event()
        self._table: LocalTable | SfumatoError | None = None
        scratch.run_folder()  # here: signals that would leave it behind are watched by the main thread
        self._thread = Thread(target=self._open)
        self._thread.start()

    def _open(self) -> None:
        try:
            bound = binder(source_of(self._source), self._engine)
            self._table = LocalTable(self._engine, bound, hold=self._wanted)
        except SfumatoError as error:
            self._table = error
        except Exception:  # noqa: S110 - whatever it is: it may quote a cell, and is met again by who opens the source
            pass

    def table(self) -> LocalTable | None:
        """The table, once it has been opened."""
        self._thread.join()
        if isinstance(self._table, SfumatoError):
            raise self._table
        return self._table

    def serves(self, engine: Engine, source: Any, wanted: Wanted) -> bool:
        """Whether an engine would open the same table, and hold the rows that are read here."""
        if self._source != source or not isinstance(engine, LocalEngine) or engine.limits != self._engine.limits:
            return False
        if all(kind_of(str(path)) == WHOLE for path in paths_of(source)):
            return True
        self._thread.join()
        return isinstance(self._table, LocalTable) and self._table.holds(wanted)

    def let_go(self) -> None:
        """Nothing is read or held any more."""
        self._engine.stop.set()
        self._thread.join()
        if isinstance(self._table, LocalTable):
            self._table.let_go()
        self._table = None


def begun(engine: LocalEngine, source: Any, wanted: Wanted) -> BegunTable | None:
    """The table of files, which is opened from now on; None where the source is no file."""
    if not paths_of(source) or address_of(source_of(source).given) is not None:
        return None
    return BegunTable(engine, source, wanted)
