"""`hubbub hop SETTINGS.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.deploy.announcing import announcer
from hubbub.deploy.output import Json, console, failures, print_json


def command(
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file `hubbub init` made.")],
    create_store: Annotated[
        bool, typer.Option("--create-store", help="Make the store, once, before the first start; then exit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a hop, a shuffler behind the first one, until SIGTERM or Ctrl-C, then drain.

    With --json it prints its addresses once it serves.

    It starts only on a store that is there: one that went missing is never replaced in silence. The first one is made
    by --create-store, which serves nothing and refuses where there is a store.

    SIGHUP, SIGUSR1 and SIGUSR2 are ignored: settings are read at the start.

    Examples: hubbub hop deployment/hop-2/hop.toml --create-store;
    hubbub hop deployment/hop-2/hop.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.shuffler.hop.server import serve
        from hubbub.shuffler.hop.settings import load
        from hubbub.shuffler.hop.sqlite import SqliteStore

        found = load(settings)
        if create_store:
            made = SqliteStore.create(found.data)
            if as_json:
                print_json({"service": "hop", "store": str(made)})
            else:
                console().print(f"made {made}, empty; now start the hop", markup=False, soft_wrap=True)
            return

        asyncio.run(serve(found, announce=announcer("hop", as_json)))
