"""ChaCha20 under numpy's `Generator`, with long draws of whole numbers made in bulk.

`randomgen` makes the stream word by word, as numpy asks for it; OpenSSL makes the same words six times as fast. A long
draw takes them from there and moves the generator on, so that it gives the numbers that numpy would give, and short
draws may follow. What numpy makes of words of 32 bits: it takes them as they are, or multiplies them by the number of
outcomes and keeps the upper half, leaving out the few words that would make some outcomes likelier than others
[Lemire 2019, algorithm 5].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

WORDS = 16  # in a block of ChaCha20
LONG = 2048  # numbers; shorter draws are left to numpy
FEW = 1 << 20  # outcomes, of which a draw of its own for every row seldom leaves a word out
TURN = 1 << 32  # blocks, over whose end OpenSSL is not asked to count
AT_ONCE = 1 << 15  # words: what is at hand stays in the processor's cache
NOTHING = memoryview(bytes(4 * AT_ONCE))  # encrypted, it is the stream


def load() -> None:
    """Nothing; the libraries that streams need are loaded, so that nobody waits for them who draws."""
    Stream(bytes(32)).integers(0, TURN, LONG, np.uint32)


class Stream(np.random.Generator):
    """The generator of one key."""

    def __init__(self, key: bytes) -> None:
        from randomgen import ChaCha

        super().__init__(ChaCha(key=int.from_bytes(key, "little"), rounds=20))
        self._key = key

    def integers(  # type: ignore[override]  # numpy lists twenty signatures; this one takes and returns the same
        self, low: Any, high: Any = None, size: Any = None, dtype: DTypeLike = np.int64, endpoint: bool = False
    ) -> Any:
        """As of `Generator`, number by number."""
        plain = isinstance(low, int) and low >= 0 and not endpoint
        if plain and isinstance(high, int) and isinstance(size, tuple) and min(size, default=-1) >= 0:
            return self.integers(low, high, math.prod(size), dtype).reshape(size)
        kind = np.dtype(dtype)
        if plain and isinstance(high, int) and isinstance(size, int) and size >= LONG and _within(high, kind):
            outcomes = high - low
            if kind == np.uint64 and outcomes == 1 << 64:
                return self._words(2 * size).view(np.uint64)
            if kind == np.uint32 and outcomes == 1 << 32:
                return self._words(size)
            if kind in (np.uint32, np.int64) and 1 < outcomes < 1 << 32:
                return self._multiplied(outcomes, low, np.empty(size, dtype=kind))
        several = isinstance(high, np.ndarray) and high.dtype.kind in "iu" and high.ndim == 1 and len(high) >= LONG
        if plain and several and low == 0 and size is None:
            found = self._multiplied_each(high, kind)
            if found is not None:
                return found
        return super().integers(low, high, size, dtype, endpoint)

    def _multiplied(self, outcomes: int, low: int, result: NDArray[Any]) -> NDArray[Any]:
        """The array, filled with numbers from `low` on."""
        left_out, done = (1 << 32) % outcomes, 0  # words whose lower half is below it
        products, lowers = np.empty(AT_ONCE, dtype=np.uint64), np.empty(AT_ONCE, dtype=np.uint32)
        while done < len(result):
            words = self._words(len(result) - done)
            for some in (words[first : first + AT_ONCE] for first in range(0, len(words), AT_ONCE)):
                found = np.multiply(some, np.uint64(outcomes), out=products[: len(some)])
                lower = np.multiply(some, np.uint32(outcomes), out=lowers[: len(some)])
                found >>= np.uint64(32)
                if lower.min() < left_out:
                    found = found[lower >= left_out]
                np.add(found, np.uint64(low), out=result[done : done + len(found)], casting="unsafe")
                done += len(found)
        return result

    def _multiplied_each(self, outcomes: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any] | None:
        """Numbers from 0 on, for every row as many outcomes as it has; None where numpy must look at each word."""
        most = int(outcomes.max())
        if kind not in (np.uint32, np.int64) or int(outcomes.min()) <= 1 or most > FEW:
            return None
        narrow, words = outcomes.astype(np.uint32, copy=False), self._words(len(outcomes))
        while True:
            lower = words * narrow  # of the product, modulo 2^32
            if int(lower.min()) >= most:
                break
            out = np.flatnonzero(lower < (1 << 32) % narrow.astype(np.uint64))
            if not len(out):
                break
            words = np.append(np.delete(words, out[0]), self._words(1))  # this row takes the next one; it is rare
        found = np.multiply(words, narrow, dtype=np.uint64)
        found >>= np.uint64(32)
        return found.astype(kind)

    def _words(self, count: int) -> NDArray[np.uint32]:
        """The next words of the stream; the generator goes on behind them."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        bits = self.bit_generator
        with bits.lock:
            state = bits.state
            at = int(state["state"]["ctr"][0])
            block, skipped = divmod(at, WORDS)
            size = (skipped + count) // WORDS * WORDS + WORDS  # to the end of the block that the generator goes on with
            if block % TURN + size // WORDS <= TURN:
                words = np.empty(size + WORDS, dtype=np.uint32)  # the library asks for room to spare
                cipher = Cipher(algorithms.ChaCha20(self._key, block.to_bytes(16, "little")), None).encryptor()
                raw = words.view(np.uint8).data
                for first in range(0, 4 * size, len(NOTHING)):
                    cipher.update_into(NOTHING[: 4 * size - first], raw[first:])
                state["state"]["ctr"][0] = at + count
                state["state"]["block"][:] = words[size - WORDS : size]
                bits.state = state
                return words[skipped : skipped + count]
        return super().integers(0, 1 << 32, size=count, dtype=np.uint32)


def _within(high: int, kind: np.dtype[Any]) -> bool:
    return kind.kind in "iu" and high <= int(np.iinfo(kind).max) + 1
