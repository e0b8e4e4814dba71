"""A cryptographic stream, keyed by the operating system; seeds for tests, stamped."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from commands import METHODS, SRC, sfumato
from sfumato.publishing.randomness import Secret
from tables import ROLES, people

# Generators that make no noise: a reader's replay of a public computation (seeded by published counts), starting
# points of a search, a custodian's forecast, a pool of questions; and folders that make tables, attack
# releases or repeat experiments.
PUBLIC = {
    "analysis/association.py",
    "choosing/workload.py",
    "methods/randomized_response/plan.py",
    "methods/randomized_response/method.py",
    "methods/shared/workloads.py",
    "methods/shared/set_lists.py",
    "laws/decoy_channel.py",
}
FOLDERS = {"audit", "datasets"}
GENERATORS = {"default_rng", "RandomState", "seed", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64", "SeedSequence"}


def test_fresh_secret_is_256_bits_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def spy(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    monkeypatch.setattr("secrets.token_bytes", spy)
    Secret.fresh()
    assert asked == [32]


def test_stream_is_chacha20() -> None:
    """The words are those that OpenSSL's ChaCha20 makes under the key of (secret, partition, step)."""
    secret = Secret.from_seed(1)
    key = hashlib.blake2b(b"apply/3", key=secret.key, digest_size=32, person=b"sfumato-streams").digest()
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()
    words = np.frombuffer(cipher.update(bytes(4 * 5000)), dtype=np.uint32)
    assert np.array_equal(secret.stream("apply", 3).integers(0, 1 << 32, size=5000, dtype=np.uint32), words)


def test_streams_derive_from_key_partition_and_step() -> None:
    """A repeated partition repeats its bytes; another partition, step or key shares nothing."""
    secret = Secret.from_seed(1)
    draws = {
        name: tuple(rng.integers(0, 2**63, 4))
        for name, rng in {
            "base": secret.stream("apply", 0),
            "partition": secret.stream("apply", 1),
            "step": secret.stream("order", 0),
            "key": Secret.from_seed(2).stream("apply", 0),
        }.items()
    }
    assert len(set(draws.values())) == 4
    assert draws["base"] == tuple(secret.stream("apply", 0).integers(0, 2**63, 4))


def test_secret_does_not_show_its_key() -> None:
    secret = Secret.fresh()
    assert secret.key.hex() not in repr(secret) + str(secret)
    assert repr(secret.key) not in repr(secret)


def test_no_module_makes_a_generator_of_its_own() -> None:
    """Only randomness.py (and the made-up tables of datasets) may; no other module names a numpy generator."""
    offenders = []
    for file in sorted((SRC / "sfumato").rglob("*.py")):
        name = file.relative_to(SRC / "sfumato").as_posix()
        if name in {"publishing/randomness.py", *PUBLIC} or FOLDERS & set(file.parts):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in GENERATORS and _under_random(node):
                offenders.append(f"{name}:{node.lineno}")
            if isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names):
                offenders.append(f"{name}:{node.lineno}")
    assert offenders == []


def _under_random(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Attribute | ast.Name) and ast.unparse(node.value).split(".")[-1] == "random"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("source") / "people.parquet"
    pq.write_table(people(), file)
    return file


@pytest.mark.parametrize("method", METHODS)
def test_seed_repeats_the_bytes_and_is_stamped(method: str, source: Path, tmp_path: Path) -> None:
    for out in ("a", "b", "c"):
        seed = 7 if out < "c" else 8
        done = sfumato("publish", source, tmp_path / out, *ROLES, "--method", method, *METHODS[method], "--seed", seed)
        assert done.code == 0, done.text
    a, b, c = ((tmp_path / out / "data.parquet").read_bytes() for out in "abc")
    assert a == b
    assert a != c
    assert json.loads((tmp_path / "a" / "release.json").read_text())["reproducible"] is True


@pytest.mark.parametrize("method", METHODS)
def test_without_a_seed_no_two_releases_agree(method: str, source: Path, tmp_path: Path) -> None:
    for out in ("a", "b"):
        done = sfumato("publish", source, tmp_path / out, *ROLES, "--method", method, *METHODS[method])
        assert done.code == 0, done.text
    assert (tmp_path / "a" / "data.parquet").read_bytes() != (tmp_path / "b" / "data.parquet").read_bytes()
    assert json.loads((tmp_path / "a" / "release.json").read_text())["reproducible"] is False


def test_publishing_leaves_the_global_generator_alone(source: Path, tmp_path: Path) -> None:
    import sfumato as sf

    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the state that must not move
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=["zqxjmark_name"])
    sf.publish(source, roles=roles, method=sf.UniformPerturbation(rho1="1/5", rho2="1/3")).save(tmp_path / "out")
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002 - the same
