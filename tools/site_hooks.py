"""What the pages of `make docs` have besides docs/: README, changelog and others, one page per public name, and links.

Files outside docs/ become pages under the names of OUTSIDE, and links to them lead there. A link to any other file of
the source has no page: its text stays. Lists may follow a line without an empty one between, as most renderers have it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import sfumato

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
WEB = ROOT / "src" / "sfumato" / "web" / "static"
ASSETS = {
    "assets/mark.svg": WEB / "mark.svg",
    "assets/source-sans.woff2": WEB / "vendor" / "source-sans.woff2",
    "assets/source-serif.woff2": WEB / "vendor" / "source-serif.woff2",
}
NAMES = "reference/names"
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
ITEM = re.compile(r"^(?:[-*] |\d+\. )")


def public_names() -> list[str]:
    """The names that have a page of their own."""
    return [name for name in sfumato.__all__ if name != "__version__"]


def where(name: str) -> str:
    """The dotted place of a public name."""
    thing = getattr(sfumato, name)
    return str(thing.__name__) if name in {"datasets", "errors"} else f"{thing.__module__}.{name}"


def on_config(config: Any) -> Any:
    """The navigation with the public names under Reference."""
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    place = next(k for k, part in enumerate(reference) if "Python" in part)
    pages = [{name: f"{NAMES}/{name}.md"} for name in public_names()]
    reference.insert(place + 1, {"Python, name by name": pages})
    return config


def on_files(files: Files, config: Any) -> Files:
    """All files: those of docs/, and what is added."""
    for source, target in OUTSIDE.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text(encoding="utf-8")))
    for target, asset in ASSETS.items():
        files.append(File.generated(config, target, abs_src_path=str(asset)))
    for name in public_names():
        text = f"# `{name}`\n\n`from sfumato import {name}`\n\n::: {where(name)}\n"
        files.append(File.generated(config, f"{NAMES}/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page with links that lead to pages, and lists that are lists."""
    back = {target: source for source, target in OUTSIDE.items()}
    here = page.file.src_uri
    source = ROOT / back[here] if here in back else DOCS / here
    parts = FENCE.split(markdown)
    parts[::2] = [_listed(LINK.sub(lambda link: _link(link, source, here), part)) for part in parts[::2]]
    return "".join(parts)


def _link(link: re.Match[str], source: Path, here: str) -> str:
    """The link as the site has it, or its text alone where there is no page."""
    picture, text, target = link.groups()
    path, _, anchor = target.partition("#")
    if "://" in target or not path:
        return link[0]
    file = (source.parent / path).resolve()
    if file.is_dir() and (file / "index.md").exists():
        file /= "index.md"
    relative = file.relative_to(ROOT).as_posix()
    if relative in OUTSIDE:
        found = OUTSIDE[relative]
    elif file.is_relative_to(DOCS):
        found = file.relative_to(DOCS).as_posix()
    else:
        return text
    led = os.path.relpath(found, Path(here).parent).replace(os.sep, "/")
    return f"{picture}[{text}]({led}{'#' if anchor else ''}{anchor})"


def _listed(text: str) -> str:
    """The text with an empty line before every list that follows a line of prose."""
    return "\n".join(_spaced(text.split("\n")))


def _spaced(lines: list[str]) -> Iterator[str]:
    before, inside = "", False  # inside a list: its items, and their other lines, which are indented
    for line in lines:
        item = ITEM.match(line) is not None
        if item and before.strip() and not inside:
            yield ""
        inside = item or (inside and line.startswith(" "))
        yield line
        before = line
