"""`hubbub analyzer SETTINGS.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.deploy.output import Json, failures
from hubbub.deploy.streams import announcer, fill_closed


def command(
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file `hubbub init` made.")],
    as_json: Json = False,
) -> None:
    """Run the analyzer until SIGTERM or Ctrl-C, then drain. With --json it prints its addresses once it serves.

    SIGHUP, SIGUSR1 and SIGUSR2 are ignored: settings are read at the start.

    Example: hubbub analyzer deployment/analyzer/analyzer.toml
    """
    fill_closed()
    with failures(as_json):
        import asyncio

        from hubbub.analyzer.server import serve
        from hubbub.analyzer.settings import load

        asyncio.run(serve(load(settings), announce=announcer("analyzer", as_json)))
