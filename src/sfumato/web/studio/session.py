"""The studio's one session: choices, the work under way and its results. Leaving the page loses nothing of it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...choosing.compare import held
from ...choosing.recommend import LABELS
from ...engines import scratch
from ...engines.files import OPTIONS, kind_of, options_of
from ...engines.source import check_no_password
from ...errors import DataError, SfumatoError, SpecError
from ...model.public import Trust
from .choices import Choices
from .work import TOO_LATE, Errand, Hand, Job, Workbench


@dataclass(slots=True, kw_only=True)
class Studio:
    """What the pages show. Changes come one at a time: whoever changes something holds `lock`."""

    choices: Choices
    file: Path | None = None  # the choices are kept there
    thinker: Hand = field(default_factory=lambda: Hand(Workbench))  # looks and foresees
    publisher: Hand = field(default_factory=lambda: Hand(Workbench))  # plans, publishes, verifies
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    looked: Job | None = None
    foreseen: Job | None = None
    planned: Job | None = None
    published: Job | None = None
    verified: Job | None = None
    settled: Job | None = None  # the look that the roles fit
    looks: int = 0  # tables opened so far, and plans made: forms say for which one they were shown
    plans: int = 0
    takes: tuple[str, ...] = ()  # ways of reading that the source has

    def choose(self, **changes: Any) -> bool:
        """Change choices, and keep them in the file if there is one; whether anything is new."""
        before, self.choices = self.choices, replace(self.choices, **changes)
        self._keep()
        return self.choices != before

    def _keep(self) -> None:
        if self.file is not None:
            write_whole(self.file, self.choices.text())

    @property
    def table(self) -> Mapping[str, Any] | None:
        """What the look has found."""
        return self.looked.result if self.looked is not None and self.looked.finished else None

    async def open(self, source: str, *, how: Mapping[str, str] | None = None, upload: bool = False) -> None:
        """Look at another table, read as `how` says; what was found for the last one is gone."""
        if not source.strip():
            raise SpecError("no table is named", field="source")
        self.check_not_publishing()
        check_no_password(source)
        takes = options_of(source)
        said = {name: (how or {}).get(name, "") if name in takes else "" for name in OPTIONS}
        if self.choices.upload and self.choices.source != source:
            forget_upload(self.choices.source)
        self.forget("foreseen", "planned", "published", "verified")
        out = proposed_release(source, upload=upload)
        self.takes = takes
        self.choose(source=source, upload=upload, out=out, **said)
        self.looked = await self.thinker.start(Errand(kind="look", choices=self.choices))
        self.looks += 1

    def forget(self, *names: str) -> None:
        """Results that no longer fit the choices."""
        for name in names:
            setattr(self, name, None)

    def check_not_publishing(self) -> None:
        """Refuse what would leave a release to be written unseen."""
        if self.published is not None and self.published.running:
            raise SpecError("publishing is under way; cancel it first", field="source")

    async def advance(self) -> None:
        """What follows by itself: roles for a table that was looked at, checks of a release that was published."""
        if self.looked is not None and self.looked.finished and self.settled is not self.looked:
            self.settled = self.looked
            found = self.looked.result["columns"]
            self.choices = self.choices.for_columns(
                [c["name"] for c in found], {c["name"]: c["suggested"] for c in found}
            )
            self._keep()
        if self.published is not None and self.published.finished and self.verified is None:
            self.verified = await self.publisher.start(Errand(kind="verify", choices=self.published.task.choices))

    def missing(self) -> str | None:
        """Why the roles are not complete; None where the library takes them."""
        if not self.choices.columns("sensitive"):
            return "choose the sensitive column: what must a reader not learn about somebody?"
        try:
            roles = self.choices.as_roles()
        except SfumatoError as error:
            return str(error)
        return None if roles.quasi or self.choices.questions.strip() else "no column is one that others may know"

    @property
    def foreseen_as_chosen(self) -> bool:
        """Whether what is foreseen, or under way, is for these choices: which readers to hold only sorts it."""
        if self.foreseen is None or self.foreseen.refusal is not None:
            return False
        used, now = self.foreseen.task.choices, self.choices
        return (used.bound, used.rho1, used.questions) == (now.bound, now.rho1, now.questions)

    async def foresee(self) -> None:
        """Foresee errors at the bound, for every method."""
        self.publisher.warm()
        self.foreseen = await self.thinker.start(Errand(kind="foresee", choices=self.choices))

    async def enough(self) -> None:
        """End foreseeing; what is known by now stays."""
        if self.foreseen is not None:
            await self.thinker.end(self.foreseen)

    async def plan(self) -> None:
        """Plan the chosen method."""
        self.check_not_publishing()
        self.forget("published", "verified")
        self.plans += 1
        self.planned = await self.publisher.start(Errand(kind="plan", choices=self.choices))

    async def publish(self) -> None:
        """Publish what was planned; a folder that exists is never replaced."""
        if exists(self.choices.out):
            raise SpecError(f'"{Path(self.choices.out).name}" exists; choose another folder', field="out")
        self.forget("verified")
        stamp = self.planned.result["stamp"] if self.planned is not None else None
        self.published = await self.publisher.start(Errand(kind="publish", choices=self.choices, stamp=stamp))

    async def cancel(self) -> None:
        """End publishing: the process removes what is half-written. A release that was complete by then stays."""
        job = self.published
        if job is not None and job.running:
            await self.publisher.end(job)
            if exists(job.task.choices.out):
                job.refusal = TOO_LATE

    def close(self) -> None:
        """End all work."""
        self.thinker.close()
        self.publisher.close()

    def job(self, step: str) -> Job | None:
        """The work that a step shows."""
        jobs = {"source": self.looked, "methods": self.foreseen, "plan": self.planned, "publish": self.published}
        return (jobs | {"hand": self.verified}).get(step)

    # --- what the pages show -------------------------------------------------------------------------------------

    def entries(self) -> list[dict[str, Any]]:
        """The candidates foreseen so far, those that fit the choices first, then by error; refused ones last."""
        if self.foreseen is None:
            return []
        wanted, allowed = set(self.choices.hold), LABELS[self.choices.trust]
        found = []
        for number, part in enumerate(self.foreseen.parts):
            readers = held(part) if part["readers"] else ()
            able = not part["reason"] and part["error"] is not None
            fits = able and wanted <= set(readers) and Trust(part["trust"]) in allowed
            label = f"{part['method']}, {part['variant']}" if part["variant"] else part["method"]
            found.append(part | {"number": number, "held": readers, "able": able, "fits": fits, "label": label})
        return sorted(found, key=lambda e: (not e["able"], not e["fits"], e["error"] or 0.0))


# Files of this machine: what the page lists to choose from, where an upload is kept, where a release may go.


MOST_ENTRIES = 400
SPARE = 64 * 2**20  # bytes that stay free on the disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A folder as the page shows it."""

    folder: Path
    parents: tuple[Path, ...]  # from the root on
    folders: tuple[str, ...]
    files: tuple[tuple[str, int], ...]  # name, bytes
    left_out: int


def listing(folder: str) -> Listing:
    """Folders and tables in a folder; names that begin with a dot are left out."""
    place = Path(spelled(folder)).absolute() if folder else Path.cwd()
    try:
        found = sorted(place.iterdir(), key=lambda path: path.name.lower())
    except ValueError:
        raise DataError("the folder has a name that cannot be") from None
    except OSError as error:
        raise DataError(f'"{place.name or place}" cannot be listed: {error.strerror}') from None
    folders: list[str] = []
    files: list[tuple[str, int]] = []
    for path in found:
        if path.name.startswith("."):
            continue
        try:
            if path.is_dir():
                folders.append(path.name)
            elif _readable(path):
                files.append((path.name, path.stat().st_size))
        except OSError:
            continue  # a link to nowhere, or not ours to see
    more = max(0, len(folders) - MOST_ENTRIES) + max(0, len(files) - MOST_ENTRIES)
    return Listing(
        folder=place,
        parents=tuple(reversed(place.parents)),
        folders=tuple(folders[:MOST_ENTRIES]),
        files=tuple(files[:MOST_ENTRIES]),
        left_out=more,
    )


def spelled(path: str) -> str:
    """A path that begins with ~ as the shell would read it; any other as it is."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") and not exists(path) else path
    except RuntimeError:  # nobody of that name
        return path


def exists(path: str) -> bool:
    """Whether there is something at a path; SpecError where no path can be spelled so."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        return True  # whatever it is, it is not ours
    except (OSError, ValueError):
        raise SpecError("no file or folder can have this name", field="path") from None
    return True


def write_whole(path: Path, text: str) -> None:
    """Write a file at once, so that a reader finds the old one or the new one; a disk that refuses is let be."""
    place = path.resolve()
    fresh = place.with_name(f".{place.name}.{os.getpid()}.new")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(place)
    except OSError:
        fresh.unlink(missing_ok=True)


def _readable(path: Path) -> bool:
    """Whether the name is one of a table."""
    try:
        kind_of(path.name)
    except SfumatoError:
        return False
    return True


async def keep_upload(name: str, stream: AsyncIterator[bytes]) -> Path:
    """The file in a private folder of this process, which goes with it; only its owner may enter."""
    plain = Path(name.replace("\\", "/")).name
    if not plain or plain.startswith(".") or "\0" in plain or len(plain.encode()) > 200:
        raise SpecError("the file has no name that can be kept", field="name")
    kind_of(plain)
    folder = scratch.new_folder("upload")
    try:
        with (folder / plain).open("wb") as out:
            async for piece in stream:
                if shutil.disk_usage(folder).free < SPARE + len(piece):
                    raise DataError("the disk is full; the file was not kept")
                out.write(piece)
    except BaseException:
        scratch.remove(folder)
        raise
    return folder / plain


def forget_upload(source: str) -> None:
    """Remove the copy of an upload."""
    scratch.remove(Path(source).parent)


def proposed_release(source: str, *, upload: bool) -> str:
    """A new folder beside the table; beside nothing of ours where the table is an upload."""
    place = Path.cwd() if upload or "://" in source else Path(source).absolute().parent
    plain = source.partition("?")[0] if "://" in source else source
    stem = Path(plain).name.split(".")[0].rstrip(":") or "table"
    found, number = place / f"{stem}-release", 2
    while found.exists():
        found, number = place / f"{stem}-release-{number}", number + 1
    return str(found)
