"""Builds the documentation as pages: `python -m tools.build_site site`; any warning ends it.

Complete without a network: no page asks another host for anything (tests/browser/test_site_in_browser.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parents[1]


def build_site(folder: Path) -> None:
    """Write the pages into a folder; SystemExit at the end where there was a warning."""
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder.resolve()))
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    config.plugins.on_shutdown()


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    build_site(Path(sys.argv[1]))
