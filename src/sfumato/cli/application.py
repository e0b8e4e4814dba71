"""The application: commands are plain functions, options come from groups and from the methods' specifications.

Help teaches: commands and options stand grouped by task, and a bare `sfumato` shows a first page.

Errors are one line on stderr and an exit code; `--debug` shows the traceback. Ctrl-C and a request to end (SIGTERM,
SIGHUP) become exceptions, so that `finally` removes what is half done.
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
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from ..errors import QueryError, SfumatoError
from ..reports.text import visible
from ..version import __version__
from .options import method_options, option, option_names, with_single_options
from .terminal import ReaderGone, complain, say

COMMANDS = {  # and their functions
    "demo": "demo.demo",
    "look": "custodian.look",
    "publish": "custodian.publish",
    "plan": "custodian.plan",
    "query": "analyst.query",
    "fit": "analyst.fit",
    "test": "analyst.independence",
    "inspect": "analyst.inspect",
    "verify": "analyst.verify",
    "audit": "custodian.audit",
    "compare": "choosing.compare",
    "recommend": "choosing.recommend",
    "reproduce": "demo.reproduce",
    "export": "analyst.export",
    "serve": "serving.serve",
    "studio": "serving.studio",
    "clean": "custodian.clean",
}
START = f"""\
sfumato {__version__}: publish a table of people with a stated guarantee;
ask it SQL, get every answer with its error.

You hold a table
  sfumato look TABLE --sa COLUMN     its columns, and how far they tell people apart
  sfumato publish TABLE OUT --sa COLUMN --rest quasi --rho1 1/5 --rho2 1/2
                                     a release in the folder OUT
  sfumato studio TABLE               the same, step by step, in your browser

You got a release
  sfumato inspect RELEASE            what it promises, and to whom
  sfumato query RELEASE "SELECT COUNT(*) FROM release WHERE ..."
                                     an answer with its error
  sfumato serve RELEASE              ask it in the browser

You want to see it work
  sfumato demo

All commands: sfumato --help. One, with all its options: sfumato publish --help."""

TASKS = {
    "Before publishing": ("look", "plan", "recommend", "compare"),
    "Publishing": ("publish", "studio", "audit", "clean"),
    "Asking a release": ("query", "fit", "test", "inspect", "verify", "export", "serve"),
    "Seeing it work": ("demo", "reproduce"),
}
OTHERS = "Other options"
LAST = ("Engine", "Output", OTHERS)  # what most people never need stands at the end
# what a system says of a path that leads nowhere, where no command had words of its own for it
UNREACHABLE = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EACCES}
LONGEST = 60  # letters of a name that cannot be reached
SIGNALLED = 128  # added to the number of a signal, as shells report an end by one
INTERRUPTED = SIGNALLED + signal.SIGINT
READER_GONE = 141  # as a shell reports a command whose reader has closed the pipe
COMPLETE = "_SFUMATO_COMPLETE"  # set by the scripts of --show-completion
WITH_METHOD = ("publish", "plan")  # they take the options of methods
WITH_ROWS = ("publish", "plan", "compare", "recommend", "studio")  # they read a table in clear


class GroupedCommand(TyperCommand):
    """A command whose options stand under the headings of their tasks."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments first, then the groups in the order of their first option."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(heading(parameter), []).append(record)
        last = {title: sections.pop(title) for title in LAST if title in sections}
        for title, records in (sections | last).items():
            with formatter.section(title):
                formatter.write_dl(records)


def heading(parameter: Any) -> str:
    """The heading under which a parameter stands."""
    if parameter.param_type_name == "argument":
        return "Arguments"
    return str(parameter.rich_help_panel or OTHERS)


class CommandsByTask(TyperGroup):
    """All commands, by task, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for every task."""
        del ctx
        for task, names in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name, sentence(self.commands[name])) for name in names])


def sentence(command: Any) -> str:
    """The first sentence of a command's help."""
    return " ".join((command.help or "").split("\n\n", maxsplit=1)[0].split())


def application(command: str | None) -> typer.Typer:
    """The application; methods are loaded for their options only where `command` is one that takes them."""
    app = typer.Typer(
        name="sfumato",
        cls=CommandsByTask,
        help="Publish a table with a stated privacy guarantee; ask it SQL and get every answer with its error.",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    @app.callback(invoke_without_command=True)
    def options(
        context: typer.Context,
        version: Annotated[bool, option("--version", "print the version")] = False,
        debug: Annotated[bool, option("--debug", "show the traceback of an error")] = False,
    ) -> None:
        del debug  # `main` looks at it before anything is parsed
        if version:
            say(f"sfumato {__version__}")
            raise typer.Exit
        if context.invoked_subcommand is None:
            say(START)

    for name, place in COMMANDS.items():
        module, function_name = place.split(".")
        function: Callable[..., None] = vars(import_module(f".{module}", __package__))[function_name]
        extra = method_options(option_names(function)) if name == command and name in WITH_METHOD else {}
        app.command(name, cls=GroupedCommand)(with_single_options(function, extra))
    return app


def program() -> None:
    """Run the command line as the process `sfumato`.

    Streams that the caller has closed lead nowhere; else the next file opened would take their place.
    """
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as we run
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - the same
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - the same
    main()


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    command = _named_command(arguments)
    with _signals_raise() as received:
        try:
            code = application(command)(args=arguments, standalone_mode=False, prog_name="sfumato") or 0
            if code == INTERRUPTED:  # so the parser returns Ctrl-C
                raise KeyboardInterrupt
            if command in WITH_ROWS:
                from .custodian import mention_left_overs

                mention_left_overs()
            raise SystemExit(code)
        except SystemExit as leaving:
            if received and leaving.code == SIGNALLED + received[-1]:
                _stop(received[-1], command, debug=debug)
            raise
        except (typer.Abort, KeyboardInterrupt):
            _stop(signal.SIGINT, command, debug=debug)
        except Exception as error:
            if received:  # an engine answers a signal with an error of its own
                _stop(received[-1], command, debug=debug)
            _answer(error, command, debug=debug)


def _named_command(arguments: list[str]) -> str | None:
    """The command that the arguments name, or the words that a shell asks us to complete."""
    if COMPLETE in os.environ:
        arguments = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]
    return next((word for word in arguments if not word.startswith("-")), None)


def _answer(error: Exception, command: str | None, *, debug: bool) -> NoReturn:
    """Leave with the exit code of an error, and one line on stderr that says what was wrong."""
    if isinstance(error, typer.Exit):
        raise SystemExit(error.exit_code) from None
    if isinstance(error, (typer.TyperException, typer.BadParameter)):
        _fail(_with_way_out(" ".join(error.format_message().split()), command), 2, debug=debug)
    if isinstance(error, (BrokenPipeError, ReaderGone)):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(READER_GONE) from None
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


@contextmanager
def _signals_raise() -> Iterator[list[int]]:
    """The signals that came in the block, of which each raises: KeyboardInterrupt for Ctrl-C, else SystemExit.

    Signals that somebody ignores or handles already, as a server and the studio do, are left alone.
    """
    received: list[int] = []

    def stop(number: int, _: object) -> NoReturn:
        received.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(SIGNALLED + number)

    usual = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = vars(signal).get(name)
            if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                usual[number] = signal.signal(number, stop)
    try:
        yield received
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _stop(number: int, command: str | None, *, debug: bool) -> NoReturn:
    """Leave as a signal asks for. A release takes its place as a whole, at the end: until then there is none."""
    _fail("stopped; nothing was published" if command == "publish" else "stopped", SIGNALLED + number, debug=debug)


def _fail(message: str, code: int, *, debug: bool) -> NoReturn:
    if debug:
        import traceback

        traceback.print_exc()
    complain(message)
    raise SystemExit(code) from None
