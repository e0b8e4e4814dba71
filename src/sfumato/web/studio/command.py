"""`sfumato studio`: the command line of the custodian's page."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...errors import SfumatoError, SpecError

HOST = "127.0.0.1"


def studio(
    source: Annotated[str | None, typer.Argument(help="table to begin with", metavar="SOURCE")] = None,
    port: Annotated[
        int, typer.Option("--port", help="port on this machine; 0 takes a free one; e.g. --port 8002", metavar="NUMBER")
    ] = 0,
    choices: Annotated[
        str | None,
        typer.Option(
            "--choices",
            help="file that keeps your choices; read if it exists; e.g. --choices clinic.toml",
            metavar="FILE",
            show_default="not kept",
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="open the page in the browser of this machine")] = False,
) -> None:
    """Publish a table step by step on a page of your own machine; nothing leaves it. For the custodian.

    Example: sfumato studio adult.parquet
    """
    try:
        import jinja2  # noqa: F401 - looked for here, used by the application
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise SfumatoError('the studio needs more packages: pip install "sfumato[web]"') from None
    from ...engines import scratch
    from ...engines.source import check_no_password
    from ..command import bound, run
    from .app import application
    from .choices import Choices, read_choices
    from .session import Studio

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
    listener, token = bound(HOST, port), secrets.token_urlsafe(32)
    number = listener.getsockname()[1]
    config = uvicorn.Config(
        application(Studio(choices=start, file=file), token=token, port=number),
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        lifespan="on",
    )
    address = f"http://{HOST}:{number}/?token={token}"
    typer.echo(f"the studio is at {address} (for you alone: the token opens it; Ctrl-C stops)", err=True)
    if open_page:
        _open(folder / "open.html", address)
    import asyncio  # every command loads this module, one needs it

    asyncio.run(run(uvicorn.Server(config), listener))


def _open(page: Path, address: str) -> None:
    """Open the address through a private file: a command line with the token could be read by others."""
    import webbrowser

    page.write_text(f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">')
    page.chmod(0o600)
    webbrowser.open(page.as_uri())
