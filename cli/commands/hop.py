"""Runs a hop, or maintains its store: `hubbub hop SETTINGS.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.cli.options.store_maintenance import AcceptLostLog, CheckStore, CreateStore, Kept, kept_up
from hubbub.cli.terminal.output import Json, failures
from hubbub.cli.terminal.readiness import announcer


def command(
    settings: Annotated[
        Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file that `hubbub init` made.")
    ],
    create_store: CreateStore = False,
    check_store: CheckStore = False,
    accept_lost_log: AcceptLostLog = False,
    as_json: Json = False,
) -> None:
    """Run a hop, a further shuffler, until SIGTERM or Ctrl-C.

    A hop is a shuffler behind the first one. It finishes its calls before it ends. With --json it prints its addresses
    once it serves. The hop refuses to start without a store: a lost store is never replaced silently. Create the store
    once with --create-store, which refuses if there is one. If the store's write-ahead log was deleted or cut, the hop
    refuses to start until you run it once with --accept-lost-log.

    SIGHUP, SIGUSR1 and SIGUSR2 are ignored: settings are read only at the start.

    Examples: hubbub hop deployment/hop-2/hop.toml --create-store; hubbub hop deployment/hop-2/hop.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.service.observability import logs
        from hubbub.shuffler.hop.server import serve
        from hubbub.shuffler.hop.settings import load
        from hubbub.shuffler.hop.sqlite import FILE_NAME, LAYOUT, HopSqliteStore

        found = load(settings)
        # Also for maintenance: what a store logs must not come on stdout.
        logs.configure(found.log)
        kept = Kept(
            "hop", found.data, FILE_NAME, LAYOUT, HopSqliteStore.create, lambda folder: HopSqliteStore(folder).close()
        )
        if not kept_up(kept, create=create_store, check=check_store, accept=accept_lost_log, as_json=as_json):
            asyncio.run(serve(found, announce=announcer("hop", as_json)))
