"""How the secret reaches the tasks: by a door that no plan, log, page or event of Spark shows.

With a cluster's own driver it is a broadcast, which is destroyed when the block ends: the blocks on the executors'
memory and disks and the file on the driver go. Spark Connect has no broadcasts: there it is part of the pickled
function, which a server keeps in memory as long as the operation lasts. docs/spark.md says who can see what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .session import is_connect


@contextmanager
def door(session: Any, thing: Any) -> Iterator[Callable[[], bytes]]:
    """A function that gives the pickled thing to a task, while the block lasts."""
    from pyspark import cloudpickle

    pickled: bytes = cloudpickle.dumps(thing)
    if is_connect(session):
        yield lambda: pickled
        return
    sent = session.sparkContext.broadcast(pickled)
    try:
        yield lambda: sent.value
    finally:
        sent.destroy(blocking=True)
