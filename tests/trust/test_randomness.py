"""A cryptographic stream, keyed by the operating system; seeds for tests, stamped."""

from __future__ import annotations

import ast
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from commands import METHODS, SRC, sfumato
from sfumato.publishing.randomness import Secret
from tables import ROLES, people

# Generators that make no noise: a reader's replay of a public computation (seeded by the release's digest), starting
# points of a search, a custodian's forecast, a pool of questions; and folders that make tables, attack
# releases or repeat experiments.
PUBLIC = {
    "block_search.py",
    "channel_design.py",
    "contingency.py",
    "decoy_channel.py",
    "keep_search.py",
    "response_report.py",
    "workload.py",
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
    """The bit generator is ChaCha with 20 rounds: its raw output equals that of the same key made here."""
    bits = Secret.from_seed(1).stream("apply", 3).bit_generator
    assert type(bits).__name__ == "ChaCha"
    assert bits.state["state"]["rounds"] == 20


LONG_DRAWS = (
    (0, 1 << 64, np.uint64),
    (0, 1 << 32, np.uint32),
    (0, 50, np.uint32),
    (1, 8, np.uint32),
    (0, 3_000_000_000, np.uint32),  # of three words one is left out
    (0, 10_000_000, np.int64),
    (7, (1 << 31) + 12, np.int64),  # nearly every second
    (0, 1 << 40, np.int64),
    (0, 6, np.uint8),
)


def _ours_and_plain() -> tuple[np.random.Generator, np.random.Generator]:
    ours = Secret.from_seed(1).stream("apply", 3)
    bits = type(ours.bit_generator)(key=int.from_bytes(ours._key, "little"), rounds=20)  # type: ignore[attr-defined]
    return ours, np.random.Generator(bits)


def test_long_draws_are_the_numbers_of_the_generator() -> None:
    """Whatever was drawn before: words from OpenSSL, and between them words that numpy takes one by one."""
    ours, plain = _ours_and_plain()
    which = np.random.default_rng(5)
    for _ in range(60):
        low, high, kind = LONG_DRAWS[which.integers(len(LONG_DRAWS))]
        which_kind = np.uint32 if which.integers(2) else np.int64
        size = int(which.choice([1, 15, 2048, 2049, 40_000, 70_001]))
        mine, theirs = (rng.integers(low, high, size=size, dtype=kind) for rng in (ours, plain))
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs), (low, high, kind, size)
        high = which.integers(2, int(which.choice([60, 1 << 20, 10_000_000])), size=size)
        mine, theirs = (rng.integers(0, high, dtype=which_kind) for rng in (ours, plain))
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
        assert np.array_equal(ours.permutation(5), plain.permutation(5))
        assert ours.random() == plain.random()


EACH = np.arange(3000) + 2
ODD_DRAWS: tuple[tuple[Any, Any, Any, Any], ...] = (
    (0, [5, 6], (3, 2), np.int64),  # bounds that are repeated to fill a shape
    (0, EACH, (2, 3000), np.uint32),
    (0, EACH, (1, 3000), np.uint32),
    (0, EACH + 0.5, None, np.uint32),
    (0, 9, (50, 60), np.uint32),
    (0, 9, (3000, 0), np.uint32),
    (0, 9, (), np.uint32),
    (0, 9, (-50, -60), np.uint32),
    (0, 9, np.int64(3000), "uint32"),
    (0, np.int64(9), 3000, int),
    (3000, None, 3000, int),
    (1, (1 << 32) + 1, 3000, np.uint32),  # beyond the type: refused
    (1 << 32, (1 << 32) + 10, 3000, np.uint32),
    (1 << 63, (1 << 63) + 9, 3000, np.int64),
    (5, (1 << 64) + 5, 3000, np.uint64),
)


@pytest.mark.parametrize(("low", "high", "size", "kind"), ODD_DRAWS)
def test_odd_draws_are_the_numbers_of_the_generator_or_its_refusal(low: Any, high: Any, size: Any, kind: Any) -> None:
    def drawn(rng: np.random.Generator) -> Any:
        try:
            found = rng.integers(low, high, size=size, dtype=kind)
        except ValueError as error:
            return str(error)
        return found.dtype, found.shape, found.tolist(), rng.random()

    ours, plain = _ours_and_plain()
    assert drawn(ours) == drawn(plain)


@pytest.mark.parametrize("block", [(1 << 32) - 100, (1 << 32) - 1, 1 << 32, (1 << 40) + 3, (3 << 32) - 128])
def test_stream_goes_on_where_the_count_of_blocks_has_33_bits(block: int) -> None:
    both = _ours_and_plain()
    for rng in both:
        state = rng.bit_generator.state
        state["state"]["ctr"][0] = 16 * block  # type: ignore[call-overload,index]
        rng.bit_generator.state = state
        rng.integers(0, 9, size=3)
    for kind, high in ((np.uint32, 1 << 32), (np.uint32, 50), (np.uint64, 1 << 64)):
        mine, theirs = (rng.integers(0, high, size=2048, dtype=kind) for rng in both)
        assert np.array_equal(mine, theirs)


def test_no_word_goes_to_two_threads() -> None:
    """A draw with a bound for each row may give its words back: while it is made nobody else takes any."""
    rng, each = Secret.from_seed(1).stream("apply"), np.full(5000, (1 << 31) + 1)

    def words(_: int) -> list[int]:
        rng.integers(0, each, dtype=np.uint32)
        found: list[int] = rng.integers(0, 1 << 64, size=2048, dtype=np.uint64).tolist()
        return found

    with ThreadPoolExecutor(4) as workers:
        taken = [word for some in workers.map(words, range(100)) for word in some]
    assert len(set(taken)) == len(taken)


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
        if file.name in {"randomness.py", *PUBLIC} or FOLDERS & set(file.parts):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in GENERATORS and _under_random(node):
                offenders.append(f"{file.name}:{node.lineno}")
            if isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names):
                offenders.append(f"{file.name}:{node.lineno}")
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
