"""The only module that makes random generators.

A run has one `Secret` of 256 bits, from the operating system when people publish, from a seed in tests. Every
stream is ChaCha20 under a key derived from (secret, partition, step), so a partition that is processed again
repeats its bytes, and no two partitions or steps share any.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Secret:
    """256 bits that never leave the process; `repr` does not show them."""

    key: bytes = field(repr=False)

    @classmethod
    def fresh(cls) -> Secret:
        """A secret from the operating system: what publishing uses."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def from_seed(cls, seed: int | None) -> Secret:
        """A reproducible secret, for tests: the release is stamped `reproducible`. Without a seed a fresh one."""
        if seed is None:
            return cls.fresh()
        return cls(hashlib.blake2b(f"seed {seed}".encode(), digest_size=32, person=b"sfumato-seed").digest())

    def stream(self, step: str, partition: int = 0) -> np.random.Generator:
        """The generator of one step on one partition."""
        from randomgen import ChaCha

        message = f"{step}/{partition}".encode()
        key = hashlib.blake2b(message, key=self.key, digest_size=32, person=b"sfumato-streams").digest()
        return np.random.Generator(ChaCha(key=int.from_bytes(key, "little"), rounds=20))
