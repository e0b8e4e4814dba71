"""A custodian's signature beside a release: Ed25519 over the digest of release.json, in a file of its own.

release.json holds the digests of the data files, so one signature covers them all. Keys are PEM files that
`openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` make; no key enters a bundle.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ReleaseError, SpecError, VerificationError
from .files import digest
from .verify import SIGNATURE

MAX_KEY = 64 * 2**10
PREFIX = b"sfumato release 1\n"  # a signature of something else is none of a release


def read_private(path: str | Path) -> Any:
    """The private key in a PEM file, or SpecError; the file's content is never quoted."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return _key(path, lambda data: load_pem_private_key(data, password=None), Ed25519PrivateKey)


def read_public(path: str | Path) -> Any:
    """The public key in a PEM file, or SpecError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    return _key(path, load_pem_public_key, Ed25519PublicKey)


def _key(path: str | Path, load: Callable[[bytes], Any], kind: type) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    file = Path(path)
    try:
        if file.stat().st_size > MAX_KEY:
            raise ValueError
        key = load(file.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        raise SpecError(f'"{file.name}" holds no key in PEM that can be read', field="sign") from None
    if not isinstance(key, kind):
        raise SpecError(f'"{file.name}" holds a key of another kind; {kind.__name__} is needed', field="sign")
    return key


def sign(folder: Path, key: Any) -> None:
    """Write the signature of the release in the folder."""
    (folder / SIGNATURE).write_bytes(key.sign(_message(folder)).hex().encode("ascii") + b"\n")


def check_signature(folder: Path, key: Any) -> None:
    """Raise VerificationError unless the release was signed with the private half of the key."""
    from cryptography.exceptions import InvalidSignature

    try:
        given = (folder / SIGNATURE).read_text(encoding="ascii")
        key.verify(bytes.fromhex(given), _message(folder))
    except FileNotFoundError:
        raise VerificationError("the release is not signed") from None
    except OSError as error:
        raise ReleaseError(f"{SIGNATURE} cannot be read: {error.strerror}") from None
    except (InvalidSignature, ValueError):
        raise VerificationError("the signature is not that of this release and this key") from None


def _message(folder: Path) -> bytes:
    return PREFIX + digest(folder / "release.json").encode("ascii")
