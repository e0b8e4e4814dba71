"""The command line: arguments in, rendering out; no arithmetic."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from types import FrameType

from ..engines.undivided import later, undivided

# New objects before Python looks for unreachable ones. Loading code makes some hundred thousand, which all stay:
SHORT, OF_SHORT = ("look", "publish", "plan", "query", "inspect", "verify"), 1_000_000  # ... and little follows
OBJECTS = 50_000  # of commands that may run for long
# Seconds after which a thread that loads code lets another one go on. That one reads, and asks for its turn often and
# for a moment, each time that a library has done a piece of work for it.
INTERVAL = 0.0005
INTERRUPTED = 130  # as shells count an end by Ctrl-C


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    objects, interval, heard = gc.get_threshold(), sys.getswitchinterval(), signal.getsignal(signal.SIGINT)
    try:
        _run(arguments)
    finally:
        if signal.getsignal(signal.SIGINT) is not heard:
            signal.signal(signal.SIGINT, heard)
        gc.set_threshold(*objects)
        sys.setswitchinterval(interval)


def _run(arguments: list[str] | None = None) -> None:
    """The same; the process is left as it suits a command."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would read what every installed package offers
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # after a product its threads would spin for 2^26 cycles
    short = (sys.argv[1:] if arguments is None else arguments)[:1]
    gc.set_threshold(OF_SHORT if short and short[0] in SHORT else OBJECTS, *gc.get_threshold()[1:])
    sys.setswitchinterval(INTERVAL)
    from .application import main as run

    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on the application answers
    run(arguments)


def program() -> None:
    """The process: `main`, what is left to be removed or written out, and the end.

    Python would first give back every object of the libraries, a tenth of a second and more; the process goes anyway.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where somebody has it ignored
        signal.signal(signal.SIGINT, _leave)
    _open_streams()
    code: object = 1
    try:
        from .late_methods import compile_late

        compile_late()
        _run()
    except SystemExit as done:
        deaf()
        code = done.code
    except KeyboardInterrupt:  # between the two who answer it
        deaf()
        code = INTERRUPTED
        sys.stderr.write(f"error: {stopped(sys.argv[1:])}\n")
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = code or 1  # what was said did not arrive; Python itself would leave with 120
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def stopped(arguments: list[str]) -> str:
    """What is said when somebody presses Ctrl-C; commands that publish nothing say nothing about it."""
    return "stopped; nothing was published" if arguments[:1] == ["publish"] else "stopped"


def deaf() -> None:
    """Nothing; Ctrl-C is not heard any more: all that was asked for is done, or it has been heard."""
    if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    """The end at once, by Ctrl-C while code is loaded: an exception would come out of the midst of some library.

    Some of them do not survive one, and others try again. Nothing is written yet but, perhaps, a private folder.
    """
    if undivided(frame):
        later(number)
        return
    with_folder = sys.modules.get("sfumato.engines.scratch")
    clear = vars(with_folder).get("clear") if with_folder is not None else None  # not there: it is being loaded
    try:
        if clear is not None:
            clear()
        os.write(2, f"error: {stopped(sys.argv[1:])}\n".encode())
    finally:
        os._exit(INTERRUPTED)


def _open_streams() -> None:
    """Nothing; streams that the caller has closed lead nowhere, or the next file opened would take their place."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as we run
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - the same
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - the same


__all__ = ["main", "program"]
