"""What is made of a release while the digests of its files are being compared: nothing leaves before they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Opening(Generic[T]):
    """Something made of files whose digests are being compared.

    Two ways lead to it, and both wait for the digests: `checked`, and the end of a block `beside`. A file that is not
    the stated one is told before anything else that is wrong with it, however often somebody asks. Who interrupts
    the work does not wait.
    """

    def __init__(self, held: T, compared: Future[None] | None = None) -> None:
        """`compared` ends, or fails, when the digests have been compared; None: there is nothing to compare."""
        self._held, self._compared = held, compared

    def checked(self) -> T:
        """It, of files that are the stated ones."""
        with self.beside() as held:
            return held

    @contextmanager
    def beside(self) -> Iterator[T]:
        """It, for the work of a block, of which nothing may leave but by the block's end."""
        try:
            yield self._held
        except Exception:
            self._wait()
            raise
        self._wait()

    def then(self, make: Callable[[T], U]) -> Opening[U]:
        """What is made of it, at once; that, too, leaves by the same ways only."""
        try:
            return Opening(make(self._held), self._compared)
        except Exception:
            self._wait()
            raise

    def _wait(self) -> None:
        wrong = self._compared.exception() if self._compared is not None else None
        if wrong is not None:
            raise wrong from None


def begun(work: Callable[[], T]) -> Future[T]:
    """What will come of the work, which a thread of its own does."""
    worker = ThreadPoolExecutor(max_workers=1)
    found = worker.submit(work)
    worker.shutdown(wait=False)
    return found
