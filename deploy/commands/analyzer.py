"""`hubbub analyzer SETTINGS.toml`."""

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
    """Run the analyzer until SIGTERM or Ctrl-C, then drain. With --json it prints its addresses once it serves.

    It starts only on a store that is there: one that went missing is never replaced in silence. The first one is made
    by --create-store, which serves nothing and refuses where there is a store.

    SIGHUP, SIGUSR1 and SIGUSR2 are ignored: settings are read at the start.

    Examples: hubbub analyzer deployment/analyzer/analyzer.toml --create-store;
    hubbub analyzer deployment/analyzer/analyzer.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.analyzer.server import serve
        from hubbub.analyzer.settings import load
        from hubbub.analyzer.sqlite import SqliteStore

        found = load(settings)
        if create_store:
            made = SqliteStore.create(found.data)
            if as_json:
                print_json({"service": "analyzer", "store": str(made)})
            else:
                console().print(f"made {made}, empty; now start the analyzer", markup=False, soft_wrap=True)
            return

        asyncio.run(serve(found, announce=announcer("analyzer", as_json)))
