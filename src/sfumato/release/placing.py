"""Where a release may be written, and which folders it may replace: releases, with nothing in them of others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import ReleaseError, SpecError
from .manifest import MAX_MANIFEST, PARTS

OWN_FILES = frozenset(
    {"release.json", "datapackage.json", "release.sig", "README.md"}
)  # besides those that release.json lists


def check_place(out: Path) -> None:
    """Refuse a place that cannot be written, and one inside another release, which would no longer verify."""
    try:
        str(out).encode()
        os.lstat(out)
    except FileNotFoundError:
        pass
    except UnicodeEncodeError:
        raise ReleaseError(f'"{out.name}" is not a name in UTF-8; choose another place') from None
    except NotADirectoryError:
        raise ReleaseError(f'cannot write "{out.name}": it would lie inside a file') from None
    except (OSError, ValueError):  # too long, or with a zero byte
        raise ReleaseError(f'"{out.name[:40]}" is not a name that a folder can have; choose another place') from None
    around = next((f for f in Path(os.path.realpath(out.parent), out.name).parents if _declared(f) is not None), None)
    if around is not None:
        raise ReleaseError(f'"{out.name}" would lie inside the release "{around.name}"; choose another place')


def check_apart(out: Path, sources: Iterable[Path]) -> None:
    """Refuse an output that would replace a source, or lie in the folder that is read."""
    check_place(out)
    for path in sources:
        read, written = (Path(os.path.realpath(p)) for p in (path, out))  # a loop of links is no error here
        if written == read or read in written.parents or written in read.parents:
            raise SpecError(f'"{out.name or out}" and the source lie in each other; choose another place', field="out")


def check_replaceable(out: Path, name: str = "") -> None:
    """Refuse to replace anything but a release, and a folder that holds more than the release."""
    name = name or out.name
    if out.is_symlink() or not out.is_dir():
        raise ReleaseError(f'"{name}" exists and is not a folder; it is not replaced')
    declared = _declared(out)
    if declared is None:
        raise ReleaseError(f'"{name}" exists and is not a release; it is not replaced')
    parts = out / PARTS if any(name.startswith(f"{PARTS}/") for name in declared) else None
    inside = [f for f in out.iterdir() if f != parts]
    if parts is not None and parts.is_dir() and not parts.is_symlink():
        inside += parts.iterdir()
    names = ((str(f.relative_to(out)), f) for f in inside)
    foreign = sorted(name for name, f in names if name not in declared or f.is_symlink() or not f.is_file())
    if foreign:
        raise ReleaseError(f'"{name}" holds "{foreign[0]}", which is no part of the release; it is not replaced')


def _declared(folder: Path) -> set[str] | None:
    """Names of the files that belong to the release in the folder; None where there is no release."""
    try:
        path = folder / "release.json"
        if path.is_symlink() or path.stat().st_size > MAX_MANIFEST:
            return None
        stated: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(stated, dict) or stated.get("format") != "sfumato-release":
        return None
    files = stated.get("files")
    return {*OWN_FILES, *(files if isinstance(files, dict) else ())}
