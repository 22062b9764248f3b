"""`hubbub analyzer SETTINGS.toml`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from hubbub.deploy.announcing import announcer
from hubbub.deploy.output import Json, failures
from hubbub.deploy.stores import AcceptLostLog, CheckStore, CreateStore, Kept, kept_up


def command(
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file `hubbub init` made.")],
    create_store: CreateStore = False,
    check_store: CheckStore = False,
    accept_lost_log: AcceptLostLog = False,
    as_json: Json = False,
) -> None:
    """Run the analyzer until SIGTERM or Ctrl-C, then drain. With --json it prints its addresses once it serves.

    It starts only on a store that is there: one that went missing is never replaced in silence. The first one is made
    by --create-store, which serves nothing and refuses where there is a store. One whose write-ahead log was deleted or
    cut is refused, until --accept-lost-log is given once.

    SIGHUP, SIGUSR1 and SIGUSR2 are ignored: settings are read at the start.

    Examples: hubbub analyzer deployment/analyzer/analyzer.toml --create-store;
    hubbub analyzer deployment/analyzer/analyzer.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.analyzer import server
        from hubbub.analyzer.settings import load
        from hubbub.analyzer.sqlite import SqliteStore
        from hubbub.analyzer.sqlite.schema import FILE_NAME, LAYOUT

        found = load(settings)

        def try_out(folder: Path) -> None:
            with closing(SqliteStore(folder)) as store:
                asyncio.run(server.check_store(store))

        kept = Kept("analyzer", found.data, FILE_NAME, LAYOUT, SqliteStore.create, try_out)
        if not kept_up(kept, create=create_store, check=check_store, accept=accept_lost_log, as_json=as_json):
            asyncio.run(server.serve(found, announce=announcer("analyzer", as_json)))
