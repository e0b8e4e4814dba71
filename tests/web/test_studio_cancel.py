"""Cancelling at any moment: what is half-written goes, what lies in its place stays, and the page says which."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from serving import PATIENCE
from sfumato.engines import scratch
from sfumato.web.studio.choices import Choices
from sfumato.web.studio.session import Studio, write_whole
from sfumato.web.studio.work import STOPPED, TOO_LATE, Errand, Hand, Tell, Work


def half(task: Errand, tell: Tell) -> None:
    """Publishing that stops in the middle of writing."""
    out = Path(task.choices.out)
    partial = out.parent / f".{out.name}.1.partial"
    with scratch.temporary(partial):
        partial.mkdir()
        tell("progress", ("writing", 0, 0))
        time.sleep(600)


def whole(task: Errand, tell: Tell) -> None:
    """Publishing that has moved the release to its place, and is not done yet."""
    out = Path(task.choices.out)
    partial = out.parent / f".{out.name}.1.partial"
    partial.mkdir()
    tell("progress", ("writing", 0, 0))
    while not (out.parent / "go").exists():
        time.sleep(0.01)
    partial.rename(out)
    tell("progress", ("written", 0, 0))
    time.sleep(600)


def make_half() -> Work:
    return half


def make_whole() -> Work:
    return whole


async def stage(studio: Studio, name: str) -> None:
    """Wait as the page does: it asks for news."""
    while studio.published is None or studio.published.stage != name:
        await asyncio.sleep(0.02)
        await studio.advance()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"

    async def walk() -> None:
        studio = Studio(choices=Choices(out=str(out)), publisher=Hand(make_half))
        await studio.publish()
        await stage(studio, "writing")
        out.mkdir()
        (out / "thesis.txt").write_text("years of work")
        await studio.cancel()
        assert studio.published is not None
        assert studio.published.refusal == TOO_LATE
        studio.close()

    asyncio.run(asyncio.wait_for(walk(), PATIENCE))
    assert [p.name for p in tmp_path.rglob("*")] == ["out", "thesis.txt"]


def test_a_release_that_is_done_stays_and_the_page_says_so(tmp_path: Path) -> None:
    async def walk() -> None:
        studio = Studio(choices=Choices(out=str(tmp_path / "out")), publisher=Hand(make_whole))
        await studio.publish()
        await stage(studio, "writing")
        (tmp_path / "go").touch()
        await stage(studio, "written")
        await studio.cancel()
        assert studio.published is not None
        assert studio.published.refusal == TOO_LATE
        studio.close()

    asyncio.run(asyncio.wait_for(walk(), PATIENCE))
    assert {p.name for p in tmp_path.rglob("*")} == {"go", "out"}


def test_what_is_half_written_goes(tmp_path: Path) -> None:
    async def walk() -> None:
        studio = Studio(choices=Choices(out=str(tmp_path / "out")), publisher=Hand(make_half))
        await studio.publish()
        await stage(studio, "writing")
        await studio.cancel()
        assert studio.published is not None
        assert studio.published.refusal == STOPPED
        studio.close()

    asyncio.run(asyncio.wait_for(walk(), PATIENCE))
    assert list(tmp_path.iterdir()) == []


def test_another_table_is_not_opened_while_one_is_published(tmp_path: Path) -> None:
    from sfumato.errors import SpecError

    async def walk() -> None:
        studio = Studio(choices=Choices(out=str(tmp_path / "out")), publisher=Hand(make_half))
        await studio.publish()
        await stage(studio, "writing")
        with pytest.raises(SpecError, match="under way"):
            await studio.open("other.csv")
        assert studio.published is not None  # so it can still be seen and cancelled
        await studio.cancel()
        studio.close()

    asyncio.run(asyncio.wait_for(walk(), PATIENCE))


def test_the_file_of_choices_is_never_half_written(tmp_path: Path) -> None:
    kept = tmp_path / "kept.toml"
    kept.write_text("old")
    link = tmp_path / "link.toml"
    link.symlink_to(kept)
    write_whole(link, "new")
    assert (kept.read_text(), link.is_symlink()) == ("new", True)
    write_whole(tmp_path / "nowhere" / "kept.toml", "lost")  # said nowhere, breaks nothing
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept.toml", "link.toml"]
