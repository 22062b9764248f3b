"""`hubbub shuffler SETTINGS.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.deploy.output import Json, failures, print_json


def command(
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file `hubbub init` made.")],
    as_json: Json = False,
) -> None:
    """Run the shuffler until SIGTERM or Ctrl-C, then drain. With --json it prints its addresses once it serves.

    Example: hubbub shuffler deployment/shuffler/shuffler.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.shuffler.server import serve
        from hubbub.shuffler.settings import load

        def announce(addresses: dict[str, str]) -> None:
            if as_json:
                print_json({"service": "shuffler", "addresses": addresses})

        asyncio.run(serve(load(settings), announce=announce))
