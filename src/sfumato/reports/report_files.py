"""Where reports may be written: never onto a source, never into a release, over other people's files only when told."""

from __future__ import annotations

import glob as globbing
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from errno import EEXIST, ENOTDIR
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..version import __version__

GENERATOR = "sfumato"
MARK = f'<meta name="generator" content="{GENERATOR}">'  # in the head of every page we write
CHARTS = ("errors", "frontier", "foreseen", "scatter", "retention")
_HEAD = 4096  # bytes in which a report says that it is one
_NEEDED = ("jinja2", "altair", "vl_convert")


def check_places(
    reports: Mapping[str, str | None],
    *,
    charts: str | None = None,
    source: str | None = None,
    force: bool = False,
    twins: bool = True,
) -> None:
    """Refuse, before anything is worked out, what could not or must not be written. `reports`: option -> HTML file."""
    files = [(option, file) for option, target in reports.items() if target for file in _files(option, target, twins)]
    if not files and charts is None:
        return
    if any(find_spec(name) is None for name in _NEEDED):
        raise SpecError('reports need more packages: pip install "sfumato[report]"', field="report")
    seen: set[Path] = set()
    for option, file in files:
        _check_place(option, file.parent, source)
        if file.resolve() in seen:
            raise SpecError(f'{option}: "{file.name}" would be written twice', field="report")
        seen.add(file.resolve())
        if _is_source(file, source):
            raise SpecError(f'{option}: "{file.name}" is the source', field="report")
        _check_free(option, file, force=force)
    if charts is not None:
        _check_charts(Path(charts), source, force=force)


def charts_folder(folder: Path, *, force: bool) -> Path:
    """The folder, which is there now, for charts that may be written into it."""
    check_places({}, charts=str(folder), force=force)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecError(f'--charts: "{folder.name}" is no folder: {error.strerror}', field="charts") from None
    return folder


def write_html(target: str, text: str, *, force: bool = False) -> Path:
    """A page in its place, whole or not at all."""
    return _write("--report", Path(target), text, force=force)


def write_twin(target: str, document: Mapping[str, Any], *, force: bool = False) -> Path:
    """The same as JSON, beside the page."""
    text = json.dumps(
        {"generator": GENERATOR, "version": __version__, **document}, ensure_ascii=False, default=str, indent=1
    )
    return _write("--report", Path(target).with_suffix(".json"), text, force=force)


def _files(option: str, target: str, twins: bool) -> Sequence[Path]:
    path = Path(target)
    if path.suffix.lower() not in {".html", ".htm"}:
        raise SpecError(f'{option} is an HTML file; "{path.name}" does not end in .html', field="report")
    return (path, path.with_suffix(".json")) if twins else (path,)


def _check_place(option: str, folder: Path, source: str | None) -> None:
    if not folder.is_dir():
        raise SpecError(f'{option}: there is no folder "{folder.name}"', field="report")
    if (folder / "release.json").exists():
        raise SpecError(f"{option}: reports do not go into the folder of a release", field="report")
    if source is not None and Path(source).is_dir():
        read = Path(source).resolve()
        if read == folder.resolve() or read in folder.resolve().parents:
            raise SpecError(f"{option}: reports do not go into the folder that is the source", field="report")


def _is_source(file: Path, source: str | None) -> bool:
    if source is None or not file.exists():
        return False
    named = [source] if Path(source).exists() else globbing.glob(source, recursive=True)  # noqa: PTH207 - absolute too
    return any(Path(name).samefile(file) for name in named)


def _check_free(option: str, file: Path, *, force: bool) -> None:
    if (file.exists() or file.is_symlink()) and not _is_report(file):
        if file.is_dir():
            raise SpecError(f'{option}: "{file.name}" is a folder', field="report")
        if not force:
            raise SpecError(
                f'{option}: "{file.name}" exists and is not a report of sfumato; choose another name, or say --force',
                field="report",
            )


def _is_report(file: Path) -> bool:
    """Whether we wrote the file: pages and their twins say so at their beginning."""
    try:
        if file.is_symlink() or not file.is_file():
            return False
        with file.open("rb") as handle:
            head = handle.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        return False
    return MARK in head or head.lstrip("{ \n").startswith(f'"generator": "{GENERATOR}"')


def _check_charts(folder: Path, source: str | None, *, force: bool) -> None:
    """The folder need not be there yet: then one above it is looked at, and none is made."""
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        reason = os.strerror(EEXIST if there == folder else ENOTDIR)
        raise SpecError(f'--charts: "{folder.name}" is no folder: {reason}', field="charts")
    _check_place("--charts", there, source)
    for file in (folder / f"{name}.{kind}" for name in CHARTS for kind in ("svg", "png")):
        if (file.exists() or file.is_symlink()) and not force:
            raise SpecError(f'--charts: "{file.name}" exists; choose another folder, or say --force', field="charts")


def _write(option: str, file: Path, text: str, *, force: bool) -> Path:
    _check_place(option, file.parent, None)
    _check_free(option, file, force=force)
    try:
        handle, made = tempfile.mkstemp(dir=file.parent, prefix=".sfumato-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
            Path(made).chmod(0o600)  # a report may hold true counts
            Path(made).replace(file)
        finally:
            Path(made).unlink(missing_ok=True)
    except OSError as error:
        raise SpecError(f'the report "{file.name}" cannot be written: {error.strerror}', field="report") from None
    return file
