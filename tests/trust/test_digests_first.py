"""Nothing leaves a release before the digests of its files have been compared, though rows are counted beside them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import sfumato as sf
from commands import sfumato
from forgeries import RELEASES, honest
from sfumato.engines.duckdb.reader import DuckDBReader
from sfumato.errors import QueryError, VerificationError
from sfumato.query import Release
from sfumato.release import opened as opened_releases
from sfumato.release.digests_first import Opening, begun
from sfumato.web.catalogue import catalogue

QUESTION = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'f'"
SECONDS = 60  # after which a test fails that waits for ever
WRONG = "is not the file that release.json describes"

# Every public way to something of a release; what is new there must be here.
WAYS: dict[str, Callable[[Release, Path], Any]] = {
    "__repr__": lambda r, _: repr(r),
    "association": lambda r, _: r.association("sex", "disease"),
    "compare": lambda r, _: r.compare(by="sex", mean="age"),
    "correlation": lambda r, _: r.correlation("age", "number"),
    "count": lambda r, _: r.count("sex = 'f'", by=["disease"]),
    "crosstab": lambda r, _: r.crosstab("sex", "disease"),
    "domains": lambda r, _: r.domains,
    "explain": lambda r, _: r.explain(QUESTION),
    "fit": lambda r, _: r.fit("age ~ C(sex)"),
    "guarantee": lambda r, _: r.guarantee,
    "manifest": lambda r, _: r.manifest,
    "opened": lambda r, _: r.opened,
    "path": lambda r, _: r.path,
    "plan": lambda r, _: r.plan,
    "quantile": lambda r, _: r.quantile("age"),
    "save": lambda r, folder: r.save(folder / "saved"),
    "schema": lambda r, _: r.schema,
    "sql": lambda r, _: r.sql(QUESTION),
    "subject": lambda r, _: r.subject,
    "table": lambda r, _: r.table(["sex", "disease"]),
    "test": lambda r, _: r.test("sex", "disease"),
}
MORE: dict[str, Callable[[Release, Path], Any]] = {
    "sql that fails": lambda r, _: r.sql("SELECT nothing FROM nowhere"),
    "sql over sql": lambda r, _: r.sql(f"SELECT MAX(n) FROM ({QUESTION})"),
    "table without negative cells": lambda r, _: r.table(["sex"], nonnegative="em"),
    "the subject of another": lambda r, _: setattr(r, "subject", r._asked._held) or r.sql(QUESTION),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "query": (QUESTION,),
    "query --explain": (QUESTION,),
    "fit": ("age ~ C(sex)",),
    "test": ("sex", "disease"),
    "inspect": (),
    "verify": ("--test",),
    "export": ("exported.csv",),
}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return honest(tmp_path_factory.mktemp("honest"))


def flipped(release: Path, target: Path, file: Path, share: float) -> Path:
    """A copy of the release, one byte of a file of which is another."""
    shutil.copytree(release, target)
    content = bytearray((target / file).read_bytes())
    content[int(share * (len(content) - 1))] ^= 0x10
    (target / file).write_bytes(content)
    return target


def files(release: Path) -> list[Path]:
    """Those whose digests a release states."""
    stated = [f.relative_to(release) for f in release.rglob("*") if f.suffix in {".parquet", ".md"}]
    assert stated
    return stated


def test_every_way_to_a_release_is_among_these() -> None:
    public = {name for name in vars(Release) if not name.startswith("_")} | {"__repr__"}
    assert public - {"at"} == set(WAYS)  # `at` is how a release begins that was written a moment ago


@pytest.mark.parametrize("name", list(RELEASES))
def test_nothing_leaves_a_release_with_a_wrong_byte(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    """In each of its files, by whatever way, however often; at the ends of a file, by opening it or asking."""
    for i, file in enumerate(files(releases[name])):
        said = f"{file} {WRONG}"
        for share in (0.0, 1.0):
            wrong = flipped(releases[name], tmp_path / f"{i} {share}", file, share)
            with pytest.raises(VerificationError, match=said):
                pytest.fail(str(sf.open_release(wrong).sql(QUESTION)))
        wrong = sf.open_release(flipped(releases[name], tmp_path / f"{i}", file, 0.5))
        for way, go in (WAYS | MORE).items():
            with pytest.raises(VerificationError, match=said):
                pytest.fail(f"{file}: {way} gave {go(wrong, tmp_path)}")
        assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("name", list(RELEASES))
def test_commands_say_nothing_of_such_a_release(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    for i, file in enumerate(files(releases[name])):
        wrong = flipped(releases[name], tmp_path / str(i), file, 0.5)
        for command, arguments in COMMANDS.items():
            verb, *options = command.split()
            done = sfumato(verb, wrong, *arguments, *options, cwd=tmp_path)
            assert (done.code, done.out) == (4, ""), command
            assert f"{file} {WRONG}" in done.err
        assert not (tmp_path / "exported.csv").exists()
        with pytest.raises(VerificationError, match=WRONG):
            catalogue([wrong])
        with pytest.raises(VerificationError, match=WRONG):
            sf.verify(wrong, test=True)


@pytest.mark.parametrize("name", list(RELEASES))
def test_the_same_ways_lead_to_an_honest_release(name: str, releases: dict[str, Path], tmp_path: Path) -> None:
    """The ways that every method has: else the tests above would find nothing."""
    always = set(WAYS) - {"association", "compare", "correlation", "fit", "quantile", "test"}
    for way in sorted(always):
        release = sf.open_release(releases[name])
        assert WAYS[way](release, tmp_path) is not None


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Digests that are compared only when the rows have been counted; "wrong" is what they then fail with."""
    counted, said = Event(), {"wrong": None, "waited": False}
    run, compare = DuckDBReader._run, opened_releases.check_digests

    def running(reader: DuckDBReader, *given: Any) -> Any:
        try:
            return run(reader, *given)
        finally:
            counted.set()

    def comparing(folder: Path, manifest: Any, **how: Any) -> None:
        said["waited"] = counted.wait(SECONDS)
        if said["wrong"] is not None:
            raise said["wrong"]
        compare(folder, manifest, **how)

    monkeypatch.setattr(DuckDBReader, "_run", running)
    monkeypatch.setattr(opened_releases, "check_digests", comparing)
    return said


BESIDE = ("sql", "count", "crosstab", "table", "fit", "test", "quantile", "compare", "correlation")


@pytest.mark.parametrize("way", BESIDE)
def test_rows_are_counted_before_the_digests_are_known(
    way: str, late: dict[str, Any], releases: dict[str, Path], tmp_path: Path
) -> None:
    """And what was counted stays inside where a digest turns out to be wrong."""
    late["wrong"] = VerificationError("late")
    release = sf.open_release(releases["uniform"])
    for _ in range(2):
        with pytest.raises(VerificationError, match="late"):
            WAYS[way](release, tmp_path)
    assert late["waited"]


def test_commands_count_before_the_digests_are_known(late: dict[str, Any], releases: dict[str, Path]) -> None:
    right = sfumato("query", releases["uniform"], QUESTION)
    assert right.code == 0, right.err
    assert late["waited"]
    late["wrong"] = VerificationError("late")
    wrong = sfumato("query", releases["uniform"], QUESTION)
    assert (wrong.code, wrong.out) == (4, "")


@pytest.mark.parametrize("name", list(RELEASES))
def test_answers_are_the_same_without_the_digests(name: str, releases: dict[str, Path]) -> None:
    asked = [sf.open_release(releases[name], check=check).sql(QUESTION).to_json() for check in (True, False)]
    assert asked[0] == asked[1]


def test_what_fails_gives_way_to_a_wrong_digest_and_to_nothing_else() -> None:
    """As often as somebody asks; who interrupts does not wait."""
    wrong, right, never = begun(lambda: _fail(VerificationError("wrong"))), begun(lambda: None), Future[None]()
    for compared, expected in ((wrong, VerificationError), (right, QueryError), (None, QueryError)):
        opening = Opening("release", compared)
        for _ in range(2):
            with pytest.raises(expected) as told, opening.beside():
                raise QueryError("the question")
            assert told.value.__suppress_context__ or expected is QueryError
            with pytest.raises(expected):
                opening.then(lambda _: _fail(QueryError("the question")))
    with pytest.raises(VerificationError):
        Opening("release", wrong).then(len).checked()
    with pytest.raises(KeyboardInterrupt), Opening("release", never).beside():
        raise KeyboardInterrupt
    assert Opening("release", never).then(len)._held == 7


def _fail(error: Exception) -> None:
    raise error
