"""`sfumato serve`: the command line of the analysts' server."""

from __future__ import annotations

import contextlib
import signal
import socket
from typing import Annotated, Any

import typer

from ..errors import SfumatoError, SpecError

HEARD, WORK, LIMITS = "Who may ask", "Work", "Limits"


def serve(
    releases: Annotated[list[str], typer.Argument(help="folders of releases", metavar="RELEASE...")],
    host: Annotated[
        str,
        typer.Option(
            "--host", help="address to listen on; e.g. --host 0.0.0.0", metavar="ADDRESS", rich_help_panel=HEARD
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", help="port; 0 takes a free one; e.g. --port 8080", metavar="NUMBER", rich_help_panel=HEARD
        ),
    ] = 8001,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            help="further host name; e.g. --allow-host data.example.org",
            metavar="NAME",
            show_default="this machine's",
            rich_help_panel=HEARD,
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            "--cors",
            help="origin whose pages may ask; e.g. --cors https://example.org",
            metavar="ORIGIN",
            show_default="none",
            rich_help_panel=HEARD,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            help="questions answered at the same time; e.g. --workers 4",
            metavar="NUMBER",
            show_default="one a core",
            rich_help_panel=WORK,
        ),
    ] = None,
    queue: Annotated[
        int,
        typer.Option(
            "--queue",
            help="questions that may wait; beyond: 503; e.g. --queue 16",
            metavar="NUMBER",
            rich_help_panel=WORK,
        ),
    ] = 64,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit", help="for one question; e.g. --time-limit 5", metavar="SECONDS", rich_help_panel=LIMITS
        ),
    ] = 20.0,
    memory: Annotated[
        int,
        typer.Option("--memory", help="of each worker; e.g. --memory 4096", metavar="MIB", rich_help_panel=LIMITS),
    ] = 2048,
    max_rows: Annotated[
        int,
        typer.Option("--max-rows", help="of an answer; e.g. --max-rows 1000", metavar="NUMBER", rich_help_panel=LIMITS),
    ] = 10_000,
    max_sql: Annotated[
        int,
        typer.Option(
            "--max-sql",
            help="characters of a question; e.g. --max-sql 2000",
            metavar="NUMBER",
            rich_help_panel=LIMITS,
        ),
    ] = 10_000,
    cache: Annotated[
        int,
        typer.Option("--cache", help="finished answers to keep; e.g. --cache 256", metavar="MIB", rich_help_panel=WORK),
    ] = 64,
    log_sql: Annotated[bool, typer.Option("--log-sql", help="log questions with their literals")] = False,
) -> None:
    """Serve releases to analysts: pages in the browser and a JSON API.

    Example: sfumato serve demo-release --port 8001
    """
    try:
        import jinja2  # noqa: F401 - looked for here, used by the application
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise SfumatoError('serving needs more packages: pip install "sfumato[web]"') from None
    from .app import application, patient
    from .catalogue import catalogue
    from .security import Settings, allowed_hosts, cores

    settings = Settings(
        workers=cores() if workers is None else workers,
        queue=queue,
        time_limit=time_limit,
        memory_mib=memory,
        max_rows=max_rows,
        max_sql=max_sql,
        cache_mib=cache,
        hosts=allowed_hosts(host, tuple(allow_host or ())),
        cors=tuple(cors or ()),
        log_sql=log_sql,
    )
    served = catalogue(releases)
    listener = bound(host, port)
    config = uvicorn.Config(
        application(served, settings),
        http=patient(),
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(time_limit) + 5,
        timeout_keep_alive=15,
        lifespan="on",
    )
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"serving {', '.join(served)} at http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C stops)", err=True)
    import asyncio  # every command loads this module, few serve

    asyncio.run(run(uvicorn.Server(config), listener))


def bound(host: str, port: int) -> socket.socket:
    """A listening socket, or one line that says why there is none."""
    if not 0 <= port < 65_536:
        raise SpecError(f"port must lie between 0 and 65535, got {port}", field="port")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol named, asyncio turns Nagle's algorithm off; else a small answer waits 40 ms for its body.
        listener = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
        return listener
    except OSError as error:
        raise SfumatoError(f"cannot listen on {host}, port {port}: {error.strerror}") from None


async def run(server: Any, listener: socket.socket) -> None:
    """Serve until told to stop; the first signal lets running answers finish, the second does not."""
    import asyncio

    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    server.capture_signals = contextlib.nullcontext  # uvicorn would end this process by the signal itself
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the process at once
            loop.add_signal_handler(number, stop)
    await server.serve(sockets=[listener])
    if not server.started:
        raise SfumatoError("the server could not start; see the lines above")
