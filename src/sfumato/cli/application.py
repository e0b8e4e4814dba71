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

from ..errors import QueryError, SfumatoError, SpecError
from ..reports.text import visible
from ..version import __version__
from . import INTERRUPTED, stopped
from .options import asked_method, method_options, option, option_names, with_single_options
from .terminal import ReaderGone, complain, say

COMMANDS = {  # and their functions; a command loads its own module, not those of the others
    "demo": "cli.demo.demo",
    "look": "cli.custodian.look",
    "publish": "cli.custodian.publish",
    "plan": "cli.custodian.plan",
    "query": "cli.analyst.query",
    "fit": "cli.analyst.fit",
    "test": "cli.analyst.independence",
    "inspect": "cli.analyst.inspect",
    "verify": "cli.analyst.verify",
    "audit": "cli.custodian.audit",
    "compare": "cli.choosing.compare",
    "recommend": "cli.choosing.recommend",
    "reproduce": "cli.demo.reproduce",
    "export": "cli.analyst.export",
    "serve": "web.command.serve",
    "studio": "web.studio.command.studio",
    "clean": "cli.custodian.clean",
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
READER_GONE = 141  # as a shell reports a command whose reader has closed the pipe
COMPLETE = "_SFUMATO_COMPLETE"  # set by the scripts of --show-completion
# commands that take the options of methods, and the fields whose option they read themselves
WITH_METHOD = {"publish": frozenset[str](), "plan": frozenset({"report"})}
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


def application(command: str | None, method: str | None = None, *, alone: bool = False) -> typer.Typer:
    """The application; the options of methods, or of one, are loaded only for the commands that take them.

    `alone`: of the command only, because the parser makes the options of every command that it is told of.
    """
    app = typer.Typer(
        name="sfumato",
        cls=CommandsByTask,
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
        extra = method_options(WITH_METHOD[name], method, option_names(function)) if asked else {}
        app.command(name, cls=GroupedCommand)(with_single_options(function, extra))
    return app


def function_of(command: str) -> Callable[..., None]:
    """The function of a command."""
    module, _, name = COMMANDS[command].rpartition(".")
    found: Callable[..., None] = vars(import_module(f"..{module}", __package__))[name]
    return found


def main(arguments: list[str]) -> None:
    """Run the command line and leave with its exit code."""
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    completed = _completed_words()
    command = next((a for a in (completed or arguments) if not a.startswith("-")), None)
    with _signals_raise() as received:
        try:
            if any("\0" in argument for argument in arguments):  # of a program that calls us: no shell hands one over
                raise SpecError("an argument holds a zero byte, which no name and no question has")
            if (not arguments and completed is None) or arguments[:1] == ["--version"]:
                say(f"sfumato {__version__}" if arguments else START)
                raise SystemExit(0)
            code = _run(command, arguments)
            if code == INTERRUPTED:  # so the parser returns Ctrl-C
                raise KeyboardInterrupt
            if command in WITH_ROWS:
                from .custodian import mention_left_overs

                mention_left_overs()
            raise SystemExit(code)
        except SystemExit as leaving:
            if received and leaving.code == SIGNALLED + received[-1]:
                _stop(received[-1], arguments, debug=debug)
            raise
        except (typer.Abort, KeyboardInterrupt):
            _stop(signal.SIGINT, arguments, debug=debug)
        except Exception as error:
            if received:  # an engine answers a signal with an error of its own
                _stop(received[-1], arguments, debug=debug)
            _answer(error, command, debug=debug)


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


def _stop(number: int, arguments: list[str], *, debug: bool) -> NoReturn:
    """Leave as a signal asks for."""
    _fail(stopped(arguments), INTERRUPTED if number == signal.SIGINT else SIGNALLED + number, debug=debug)


def _fail(message: str, code: int, *, debug: bool) -> NoReturn:
    if debug:
        import traceback

        traceback.print_exc()
    complain(message)
    raise SystemExit(code) from None
