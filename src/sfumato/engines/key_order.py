"""The order that random keys give to rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def key_order(keys: NDArray[np.uint64]) -> NDArray[np.uint32 | np.uint64]:
    """The numbers of the rows in the order of their keys.

    Row numbers replace the lowest bits of the keys, so that plain numbers are sorted; where only those bits tell keys
    apart, which is rare, the keys themselves decide.
    """
    bits = np.uint64(max(len(keys) - 1, 1).bit_length())
    low = (np.uint64(1) << bits) - np.uint64(1)
    packed = keys & ~low
    packed |= np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    order: NDArray[np.uint32 | np.uint64] = (packed & low).astype(np.uint32 if bits <= 32 else np.uint64)
    packed >>= bits
    tied = np.flatnonzero(packed[1:] == packed[:-1])
    if len(tied):
        places = np.union1d(tied, tied + 1)
        order[places] = order[places][np.lexsort((keys[order[places]], packed[places]))]
    return order
