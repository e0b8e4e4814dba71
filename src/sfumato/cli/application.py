"""The application: commands are plain functions, options come from groups and from the methods' specifications.

Errors are one line on stderr and an exit code; `--debug` shows the traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from ..errors import SfumatoError
from ..version import __version__
from . import analyst, choice, custodian, evidence
from .method_options import method_options
from .options import flattened
from .terminal import say

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": evidence.demo,
    "publish": custodian.publish,
    "plan": custodian.plan,
    "query": analyst.query,
    "inspect": analyst.inspect,
    "verify": analyst.verify,
    "compare": choice.compare,
    "recommend": choice.recommend,
    "reproduce": evidence.reproduce,
}
# commands that take the options of methods, and the fields whose option they read themselves
WITH_METHOD = {"publish": frozenset[str](), "plan": frozenset({"report"})}


def application(command: str | None) -> typer.Typer:
    """The application; the options of methods are loaded only for the commands that take them."""
    app = typer.Typer(
        name="sfumato",
        help="Publish a table with a stated privacy guarantee; ask it SQL and get every answer with its error.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    @app.callback()
    def options(
        version: Annotated[bool, typer.Option("--version", help="print the version", is_eager=True)] = False,
        debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error")] = False,
    ) -> None:
        del version, debug  # `main` looks at them before anything is parsed

    for name, function in COMMANDS.items():
        extra = method_options(WITH_METHOD[name]) if name in WITH_METHOD and name == command else {}
        app.command(name)(flattened(function, extra))
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if arguments and arguments[0] == "--version":
        say(f"sfumato {__version__}")
        raise SystemExit(0)
    command = next((a for a in arguments if not a.startswith("-")), None)
    try:
        app = application(command)
        raise SystemExit(app(args=arguments, standalone_mode=False, prog_name="sfumato") or 0)
    except SfumatoError as error:
        _fail(str(error), error.exit_code, debug=debug)
    except (typer.TyperException, typer.BadParameter) as error:
        _fail(" ".join(error.format_message().split()), 2, debug=debug)
    except typer.Exit as error:
        raise SystemExit(error.exit_code) from None
    except (typer.Abort, KeyboardInterrupt):
        _fail("stopped; nothing was published", 130, debug=debug)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None
    except Exception as error:
        _fail(f"sfumato failed ({type(error).__name__}); this is a fault in sfumato, run with --debug", 1, debug=debug)


def _fail(message: str, code: int, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    typer.echo(f"error: {message}", err=True)
    raise SystemExit(code) from None
