"""Work that is done a little ahead of whoever wants its results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def ahead(work: Iterable[Callable[[], Result]], threads: int) -> Iterator[Result]:
    """What the functions return, in their order; a few of them are called ahead, at the same time."""
    with ThreadPoolExecutor(max_workers=threads) as workers:
        waiting: deque[Future[Result]] = deque()
        for one in work:
            waiting.append(workers.submit(one))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
