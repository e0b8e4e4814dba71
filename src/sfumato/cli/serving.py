"""The commands that open pages in a browser: serve, studio."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SfumatoError, SpecError
from .options import NONE, option

HEARD, WORK, LIMITS = "Who may ask", "Work", "Limits"
HOST = "127.0.0.1"
HIGHEST_PORT = 65_535


def serve(
    releases: Annotated[list[str], typer.Argument(help="folders of releases", metavar="RELEASE...")],
    host: Annotated[str, option("--host ADDRESS", "address to listen on", "0.0.0.0", panel=HEARD)] = HOST,  # noqa: S104
    port: Annotated[
        int, option("--port NUMBER", "port; 0 takes a free one", "8080", min=0, max=HIGHEST_PORT, panel=HEARD)
    ] = 8001,
    allow_host: Annotated[
        list[str] | None,
        option("--allow-host NAME", "further host name", "data.example.org", without="this machine's", panel=HEARD),
    ] = None,
    cors: Annotated[
        list[str] | None,
        option("--cors ORIGIN", "origin whose pages may ask", "https://example.org", without=NONE, panel=HEARD),
    ] = None,
    workers: Annotated[
        int | None,
        option("--workers NUMBER", "questions answered at the same time", "4", without="one a core", min=1, panel=WORK),
    ] = None,
    queue: Annotated[
        int, option("--queue NUMBER", "questions that may wait; beyond: 503", "16", min=0, panel=WORK)
    ] = 64,
    time_limit: Annotated[
        float, option("--time-limit SECONDS", "for one question", "5", min=0.01, max=86_400, panel=LIMITS)
    ] = 20.0,
    memory: Annotated[int, option("--memory MIB", "of each worker", "4096", min=512, panel=LIMITS)] = 2048,
    max_rows: Annotated[int, option("--max-rows NUMBER", "of an answer", "1000", min=1, panel=LIMITS)] = 10_000,
    max_sql: Annotated[
        int, option("--max-sql NUMBER", "characters of a question", "2000", min=1, panel=LIMITS)
    ] = 10_000,
    log_sql: Annotated[bool, option("--log-sql", "log questions with their literals")] = False,
) -> None:
    """Serve releases to analysts: pages in the browser and a JSON API.

    Example: sfumato serve demo-release --port 8001
    """
    _check_installed("serving")
    from ..web.analyst import application
    from ..web.catalogue import catalogue
    from ..web.server import Settings, allowed_hosts, cores, listen, run

    for origin in cors or ():
        if origin != "*" and not origin.startswith(("http://", "https://")):
            raise SpecError(f'--cors takes an origin such as https://example.org, got "{origin}"', field="cors")
    settings = Settings(
        workers=cores() if workers is None else workers,
        queue=queue,
        time_limit=time_limit,
        memory_mib=memory,
        max_rows=max_rows,
        max_sql=max_sql,
        hosts=allowed_hosts(host, tuple(allow_host or ())),
        cors=tuple(cors or ()),
        log_sql=log_sql,
    )
    served = catalogue(releases)
    app, listener = application(served, settings), listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"serving {', '.join(served)} at http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C stops)", err=True)
    run(app, listener, patience=int(time_limit) + 5)


def studio(
    source: Annotated[str | None, typer.Argument(help="table to begin with", metavar="SOURCE")] = None,
    port: Annotated[
        int, option("--port NUMBER", "port on this machine; 0 takes a free one", "8002", min=0, max=HIGHEST_PORT)
    ] = 0,
    choices: Annotated[
        str | None,
        option("--choices FILE", "file that keeps your choices; read if it exists", "clinic.toml", without="not kept"),
    ] = None,
    open_page: Annotated[bool, option("--open", "open the page in the browser of this machine")] = False,
) -> None:
    """Publish a table step by step on a page of your own machine; nothing leaves it. For the custodian.

    Example: sfumato studio adult.parquet
    """
    _check_installed("the studio")
    from ..engines import scratch
    from ..engines.source import check_no_password
    from ..web.server import listen, run
    from ..web.studio.app import application
    from ..web.studio.choices import Choices, read_choices
    from ..web.studio.session import Studio

    file = None if choices is None else Path(choices)
    start = Choices()
    if file is not None and file.exists():
        try:
            start = read_choices(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise SpecError(f'the file of choices "{file.name}" cannot be read', field="choices") from None
    if source is not None:
        start = replace(start, source=source, out="" if source != start.source else start.out)
    check_no_password(start.source)
    folder = scratch.run_folder()  # uploads are kept there, and go with this process
    listener, token = listen(HOST, port), secrets.token_urlsafe(32)
    number = listener.getsockname()[1]
    app = application(Studio(choices=start, file=file), token=token, port=number)
    address = f"http://{HOST}:{number}/?token={token}"
    typer.echo(f"the studio is at {address} (for you alone: the token opens it; Ctrl-C stops)", err=True)
    if open_page:
        _open(folder / "open.html", address)
    run(app, listener, patience=5)


def _check_installed(what: str) -> None:
    """Raise SfumatoError unless the packages of servers are installed."""
    try:
        import jinja2
        import starlette
        import uvicorn
    except ImportError:
        raise SfumatoError(f'{what} needs more packages: pip install "sfumato[web]"') from None
    del jinja2, starlette, uvicorn


def _open(page: Path, address: str) -> None:
    """Open the address through a private file: a command line with the token could be read by others."""
    import webbrowser

    page.write_text(f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">')
    page.chmod(0o600)
    webbrowser.open(page.as_uri())
