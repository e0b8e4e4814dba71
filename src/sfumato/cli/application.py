"""The application: commands are plain functions, options come from groups and from the methods' specifications.

Errors are one line on stderr and an exit code; `--debug` shows the traceback.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Annotated

import typer

from ..engines.undivided import later, undivided
from ..errors import QueryError, SfumatoError, SpecError
from ..reports.text import visible
from ..version import __version__
from . import INTERRUPTED, deaf, stopped
from .method_options import asked_method, method_options
from .option_groups import flattened, typed
from .teaching import START, TaughtCommand, TaughtGroup, option
from .terminal import ReaderGone, complain, say

COMMANDS = {  # and their functions; a command loads its own module, not those of the others
    "demo": "cli.evidence.demo",
    "look": "cli.custodian.look",
    "publish": "cli.custodian.publish",
    "plan": "cli.custodian.plan",
    "query": "cli.analyst.query",
    "fit": "cli.inference.fit",
    "test": "cli.inference.independence",
    "inspect": "cli.analyst.inspect",
    "verify": "cli.analyst.verify",
    "audit": "cli.auditing.audit",
    "compare": "cli.choice.compare",
    "recommend": "cli.choice.recommend",
    "reproduce": "cli.evidence.reproduce",
    "export": "cli.analyst.export",
    "serve": "web.command.serve",
    "studio": "web.studio.studio_command.studio",
    "clean": "cli.custodian.clean",
}
# what a system says of a path that leads nowhere, where no command had words of its own for it
UNREACHABLE = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EACCES}
LONGEST = 60  # letters of a name that cannot be reached
PATIENCE = 1_000  # how often a Ctrl-C that came in a bad moment comes again
READER_GONE = 141  # as a shell reports a command whose reader has closed the pipe
COMPLETE = "_SFUMATO_COMPLETE"  # set by the scripts of --show-completion
# commands that take the options of methods, and the fields whose option they read themselves
WITH_METHOD = {"publish": frozenset[str](), "plan": frozenset({"report"})}
WITH_ROWS = ("publish", "plan", "compare", "recommend", "studio")  # they read a table in clear


def application(command: str | None, method: str | None = None, *, alone: bool = False) -> typer.Typer:
    """The application; the options of methods, or of one, are loaded only for the commands that take them.

    `alone`: of the command only, because the parser makes the options of every command that it is told of.
    """
    app = typer.Typer(
        name="sfumato",
        cls=TaughtGroup,
        help="Publish a table with a stated privacy guarantee; ask it SQL and get every answer with its error.",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    @app.callback()
    def options(
        version: Annotated[bool, option("--version", "print the version", is_eager=True)] = False,
        debug: Annotated[bool, option("--debug", "show the traceback of an error")] = False,
    ) -> None:
        del version, debug  # `main` looks at them before anything is parsed

    for name in COMMANDS:
        if alone and name != command:
            continue
        function = function_of(name)
        asked = name in WITH_METHOD and name == command
        extra = method_options(WITH_METHOD[name], method, typed(function)) if asked else {}
        app.command(name, cls=TaughtCommand)(flattened(function, extra))
    return app


def function_of(command: str) -> Callable[..., None]:
    """The function of a command."""
    module, _, name = COMMANDS[command].rpartition(".")
    found: Callable[..., None] = vars(import_module(f"..{module}", __package__))[name]
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    completed = _completed_words()
    command = next((a for a in (completed or arguments) if not a.startswith("-")), None)
    with _interruptions() as interrupted:
        try:
            if any("\0" in argument for argument in arguments):  # of a program that calls us: no shell hands one over
                raise SpecError("an argument holds a zero byte, which no name and no question has")
            if (not arguments and completed is None) or arguments[:1] == ["--version"]:
                say(f"sfumato {__version__}" if arguments else START)
                raise SystemExit(0)
            code = _run(command, arguments)
            if code == INTERRUPTED:  # so the parser returns Ctrl-C, without a word
                raise KeyboardInterrupt
            if command in WITH_ROWS:
                from .custodian import mention_left_overs

                mention_left_overs()
            raise SystemExit(code)
        except (typer.TyperException, typer.BadParameter) as error:
            _fail(_with_way_out(" ".join(error.format_message().split()), command), 2, debug=debug)
        except typer.Exit as error:
            raise SystemExit(error.exit_code) from None
        except (typer.Abort, KeyboardInterrupt):
            _fail(stopped(arguments), INTERRUPTED, debug=debug)
        except (BrokenPipeError, ReaderGone):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(READER_GONE) from None
        except Exception as error:
            if interrupted:  # the engine answers Ctrl-C with an error of its own
                _fail(stopped(arguments), INTERRUPTED, debug=debug)
            if isinstance(error, QueryError):  # a caret stands under the question
                _fail(str(error), error.exit_code, debug=debug)
            if isinstance(error, SfumatoError):  # names of columns and files may hold anything
                _fail(visible(str(error)), error.exit_code, debug=debug)
            if isinstance(error, OSError) and error.errno in UNREACHABLE and isinstance(error.filename, str):
                name = error.filename.rpartition("/")[2][:LONGEST]
                _fail(visible(f'"{name}" cannot be reached: {error.strerror}; name another path'), 2, debug=debug)
            what = f"sfumato failed ({type(error).__name__}); this is a fault in sfumato, run with --debug"
            _fail(what, 1, debug=debug)


def _with_way_out(message: str, command: str | None) -> str:
    """A complaint of the parser, with where to look, unless it says so itself."""
    if "Did you mean" in message or "Possible options" in message:
        return message
    help_of = f"sfumato {command} --help" if command in COMMANDS else "sfumato --help"
    return f"{message.rstrip('.')}; see {help_of}"


def _completed_words() -> list[str] | None:
    """The words that a shell asks us to complete, without the program's name; None where it does not."""
    if COMPLETE not in os.environ:
        return None
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]


def _run(command: str | None, arguments: list[str]) -> int:
    """The exit code. One method is loaded where its options are all there are; else all, to say whose an option is."""
    method = asked_method(arguments) if arguments and command in WITH_METHOD else None
    alone = command in COMMANDS and arguments[:1] == [command] and COMPLETE not in os.environ
    try:
        return int(
            application(command, method, alone=alone)(args=arguments, standalone_mode=False, prog_name="sfumato") or 0
        )
    except (typer.TyperException, typer.BadParameter):  # found while parsing: nothing has run
        if method is None:
            raise
    return int(application(command)(args=arguments, standalone_mode=False, prog_name="sfumato") or 0)


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """A list that is empty until somebody presses Ctrl-C."""
    seen: list[int] = []
    again: list[Callable[[], object]] = []

    def stop(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) < PATIENCE and _unsafe(frame):
            again.append(later(number))
        else:
            signal.default_int_handler(number, frame)

    def lost(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is KeyboardInterrupt:  # in a moment out of which Python lets none, as when an object goes
            again.append(later(signal.SIGINT))
        else:
            usual(what)

    usual = sys.unraisablehook
    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        sys.unraisablehook = lost
        signal.signal(signal.SIGINT, stop)
    try:
        yield seen
    finally:
        for take_back in again:
            take_back()
        if ours:
            deaf()
            sys.unraisablehook = usual


def _unsafe(frame: FrameType | None) -> bool:
    """Whether a library is being loaded, which may end the process at an exception, or a file made that would stay."""
    within = frame
    while frame is not None and frame.f_code is not main.__code__:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return undivided(within)


def _fail(message: str, code: int, *, debug: bool) -> None:
    deaf()  # one line is said, not two
    if debug:
        import traceback

        traceback.print_exc()
    complain(message)
    raise SystemExit(code) from None
