"""`python -m sfumato.web RELEASE...` is `sfumato serve RELEASE...`."""

from __future__ import annotations

import typer

from ..errors import SfumatoError
from .command import serve

if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(serve)
    try:
        app(standalone_mode=False)
    except SfumatoError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(error.exit_code) from None
