"""Run a command while every core is kept busy: `python -m tools.busy_cores COMMAND ...`; its exit code is kept."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys


def spin() -> None:
    """Keep one core busy."""
    while True:
        pass


def main() -> int:
    """Run the command beside one busy process for each core."""
    spinning = [multiprocessing.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in spinning:
        process.start()
    try:
        return subprocess.run(sys.argv[1:], check=False).returncode  # noqa: S603 - what make says
    finally:
        for process in spinning:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
