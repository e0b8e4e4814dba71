"""Run a command while every core is kept busy: python -m tools.keep_busy COMMAND ..."""

from __future__ import annotations

import os
import subprocess
import sys

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"  # ends with its parent


def main(command: list[str]) -> int:
    """The exit status of the command; the busy processes are ended whatever happens."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]  # noqa: S603 - our own
    try:
        return subprocess.run(command, check=False).returncode  # noqa: S603 - what the caller typed
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
