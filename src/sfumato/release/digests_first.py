"""What is made of a release while the digests of its files are being compared: nothing leaves before they are, nor
after a file has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from ..engines.forks import at_fork
from ..errors import EngineError
from .file_states import FileStates

T = TypeVar("T")
U = TypeVar("U")

_open: WeakSet[Opening[Any]] = WeakSet()


class Opening(Generic[T]):
    """Something made of files whose digests are being compared.

    Two ways lead to it, and both wait for the digests: `checked`, and the end of a block `beside`. A file that is not
    the stated one is told before anything else that is wrong with it, however often somebody asks. So is one that is
    no longer the file whose digest was asked for: files are read by name whenever a question needs their rows. Who
    interrupts the work does not wait.

    Neither the threads of a database nor those that compare digests outlive a fork: `again` opens the same files in
    the process that was forked off.
    """

    def __init__(self, held: T, compared: Future[None] | None = None, *, files: FileStates | None = None) -> None:
        """`compared` ends, or fails, when the digests have been compared; None: there is nothing to compare.

        `files`: how they were before that.
        """
        self._held, self._compared, self._files = held, compared, files
        self.again: Callable[[], Opening[T]] | None = None  # None: that cannot be done
        self._process, self._forked = os.getpid(), dict[int, Opening[T]]()
        _open.add(self)

    def checked(self) -> T:
        """It, of files that are the stated ones."""
        with self.beside() as held:
            return held

    @contextmanager
    def beside(self) -> Iterator[T]:
        """It, for the work of a block, of which nothing may leave but by the block's end."""
        here = self._here()
        here._unchanged()
        try:
            yield here._held
        except Exception:
            here._wait()
            raise
        here._wait()

    def then(self, make: Callable[[T], U]) -> Opening[U]:
        """What is made of it, at once; that, too, leaves by the same ways only."""
        here = self._here()
        try:
            found = Opening(make(here._held), here._compared, files=here._files)
        except Exception:
            here._wait()
            raise
        if here.again is not None:
            found.again = lambda: here._here().then(make)
        return found

    def instead(self, other: T) -> Opening[T]:
        """Another in its place, of the same files."""
        here = self._here()
        return Opening(other, here._compared, files=here._files)

    def later(self, work: Callable[[], U]) -> Callable[[], U]:
        """The work, which holds something of these files: whenever it is done, it is done as in a block `beside`."""
        here = self.instead(self._here()._held)

        def checked() -> U:
            with here.beside():
                return work()

        return checked

    def finish(self) -> None:
        """Nothing; the digests have been compared, whatever came of it."""
        if self._compared is not None and self._process == os.getpid():
            wait([self._compared])

    def _wait(self) -> None:
        wrong = self._compared.exception() if self._compared is not None else None
        self._unchanged()  # first: of a file that is gone there is no digest
        if wrong is not None:
            raise wrong from None

    def _unchanged(self) -> None:
        if self._files is not None:
            self._files.check()

    def _here(self) -> Opening[T]:
        """It in this process."""
        process = os.getpid()
        if process == self._process:
            return self
        if process not in self._forked:
            if self.again is None:
                raise EngineError(
                    "the release was opened before this process was forked off; open it in the process that asks"
                )
            self._unchanged()
            self._forked[process] = self.again()
            self._unchanged()
        return self._forked[process]


def begun(work: Callable[[], T]) -> Future[T]:
    """What will come of the work, which a thread of its own does."""
    worker = ThreadPoolExecutor(max_workers=1)
    found = worker.submit(work)
    worker.shutdown(wait=False)
    return found


def _finish() -> None:
    """Nothing; no digest is being computed: a thread that holds a lock at a fork holds it in the child for ever."""
    for opening in tuple(_open):
        opening.finish()


at_fork(before=_finish)
