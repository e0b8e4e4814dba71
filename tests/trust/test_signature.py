"""A signature with the custodian's key: made on request, checked on request, and worth nothing to anybody else."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import METHODS, sfumato
from forging import forged
from tables import ROLES, people


def keys(folder: Path, name: str) -> tuple[Path, Path]:
    """(private, public) key files."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, encoding = Ed25519PrivateKey.generate(), serialization.Encoding.PEM
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_signed_release(tmp_path: Path) -> None:
    """The right key verifies; another key, a changed release with new digests, and no signature do not."""
    pq.write_table(people(), tmp_path / "t.parquet")
    private, public = keys(tmp_path, "ours")
    _, other = keys(tmp_path, "theirs")
    arguments = (tmp_path / "t.parquet", tmp_path / "out", *ROLES, "--method", "uniform", *METHODS["uniform"])
    assert sfumato("publish", *arguments, "--sign", private).code == 0
    out = tmp_path / "out"
    assert sfumato("verify", out, "--key", public).code == 0
    assert sfumato("verify", out, "--key", other).code == 4
    assert private.read_bytes() not in b"".join(file.read_bytes() for file in out.iterdir())

    changed = forged(out, tmp_path / "forged", data=lambda t: t.slice(1))
    assert sfumato("verify", changed).code == 0, "nothing in the bundle shows it"
    assert sfumato("verify", changed, "--key", public).code == 4
    (out / "release.sig").unlink()
    done = sfumato("verify", out, "--key", public)
    assert done.code == 4
    assert "not signed" in done.err


def test_a_signed_release_stays_signed_when_it_is_served(tmp_path: Path) -> None:
    """The archive that analysts fetch holds the signature, and so does the list of files."""
    pytest.importorskip("starlette", reason="sfumato[web] is not installed")
    from sfumato.web.api import MEDIA_TYPES
    from sfumato.web.catalogue import catalogue, zipped

    pq.write_table(people(), tmp_path / "t.parquet")
    private, public = keys(tmp_path, "ours")
    arguments = (tmp_path / "t.parquet", tmp_path / "out", *ROLES, "--method", "uniform", *METHODS["uniform"])
    assert sfumato("publish", *arguments, "--sign", private).code == 0
    (served,) = catalogue([tmp_path / "out"]).values()
    assert {Path(name).suffix[1:] for name in served.files} <= set(MEDIA_TYPES)
    (tmp_path / "fetched.zip").write_bytes(b"".join(zipped(served)))
    done = sfumato("verify", tmp_path / "fetched.zip", "--key", public)
    assert done.code == 0, done.text


def test_bad_keys_are_refused_before_any_work(tmp_path: Path) -> None:
    """A file that is no key, and a public key to sign with: one line, nothing written, nothing quoted."""
    pq.write_table(people(), tmp_path / "t.parquet")
    _, public = keys(tmp_path, "ours")
    (tmp_path / "junk.pem").write_text("secret words", encoding="utf-8")
    for key in (tmp_path / "junk.pem", public, tmp_path / "none.pem"):
        done = sfumato("publish", tmp_path / "t.parquet", tmp_path / "out", *ROLES, "--rho1", "1/5", "--rho2", "1/3",
                       "--sign", key)  # fmt: skip
        assert done.code == 2, done.text
        assert "secret words" not in done.text
        assert not (tmp_path / "out").exists()
