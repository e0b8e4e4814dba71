"""Repeat a paper's tables and figures: published numbers beside ours, one line on every difference.

    python -m papers pp|splu|distribution|rr|channels [--json] [--page]

Run from the repository. Adult is in the package; larger tables are read from the folder SFUMATO_DATA. `--page` writes
docs/reproduce/PAPER.md and its figure instead of printing.
"""

from __future__ import annotations

import argparse
import json
import sys

from papers.findings import PAPERS, render, reproduce, write_page


def main(arguments: list[str] | None = None) -> None:
    """Print the findings of one paper, or write its page."""
    parser = argparse.ArgumentParser(prog="python -m papers", description="Published numbers beside ours.")
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--page", action="store_true", help="write docs/reproduce/PAPER.md and its figure")
    asked = parser.parse_args(arguments)
    document = reproduce(asked.paper, _progress if sys.stderr.isatty() else None)
    if asked.page:
        print(f"written: {write_page(document)}", file=sys.stderr)
    elif asked.json:
        print(json.dumps(document, ensure_ascii=False))
    else:
        print(render(document))


def _progress(item: str) -> None:
    print(f"  {item}", file=sys.stderr)


if __name__ == "__main__":
    main()
