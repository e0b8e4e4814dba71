"""What a stranger's release.json may state that no release of ours does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from typing import Any

import pyarrow as pa

from ..errors import ReleaseError, SfumatoError

LARGEST = 2**53  # of a whole number; beyond it numbers of a plan would not survive JSON readers either
_SENSELESS = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError, pa.ArrowException)


def check_numbers(parameters: Any) -> None:
    """Refuse parameters with whole numbers that no table could give rise to."""
    pending = [parameters]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            pending += node.values()
        elif isinstance(node, list | tuple):
            pending += node
        elif isinstance(node, int) and abs(node) > LARGEST:
            raise ReleaseError("release.json states a parameter that is too large for any table")


@contextmanager
def stated_by_a_stranger(kind: type[ReleaseError], what: str) -> Iterator[None]:
    """While the block works with what a release states, arithmetic that fails is the release's fault, not ours."""
    try:
        yield
    except SfumatoError:
        raise
    except _SENSELESS as error:
        raise kind(f"{what} ({type(error).__name__})") from error


def as_stated() -> ContextDecorator:
    """The same for a function that a question calls."""
    return stated_by_a_stranger(
        ReleaseError,
        "the answer cannot be computed from what the release states; `sfumato verify` tells whether it is whole",
    )
