"""Runs an analyzer, or maintains its store: `hubbub analyzer SETTINGS.toml`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.options.store_maintenance import AcceptLostLog, CheckStore, CreateStore, Kept, kept_up
from hubbub.cli.terminal.output import Json, failures
from hubbub.cli.terminal.readiness import announcer

if TYPE_CHECKING:
    from hubbub.analyzer.settings import AnalyzerSettings


def command(
    settings: Annotated[
        Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file that `hubbub init` made.")
    ],
    create_store: CreateStore = False,
    check_store: CheckStore = False,
    accept_lost_log: AcceptLostLog = False,
    as_json: Json = False,
) -> None:
    """Run the analyzer until SIGTERM or Ctrl-C; then finish its calls.

    With --json it prints its addresses once it serves. The analyzer refuses to start without a store: a lost store is
    never replaced silently. Create the store once with --create-store, which refuses if there is one. If the store's
    write-ahead log was deleted or cut, the analyzer refuses to start until you run it once with --accept-lost-log.

    SIGHUP, SIGUSR1 and SIGUSR2 are ignored: settings are read only at the start.

    Examples: hubbub analyzer deployment/analyzer/analyzer.toml --create-store;
    hubbub analyzer deployment/analyzer/analyzer.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.analyzer.server import serve
        from hubbub.analyzer.settings import load
        from hubbub.service.observability import logs

        found = load(settings)
        # Also for maintenance: what a store logs must not come on stdout.
        logs.configure(found.log)
        if not kept_up(_kept(found), create=create_store, check=check_store, accept=accept_lost_log, as_json=as_json):
            asyncio.run(serve(found, announce=announcer("analyzer", as_json)))


def _kept(found: AnalyzerSettings) -> Kept:
    """Return the store's file in `data`: the whole store, or only the keyring if the store is in a database."""
    import asyncio

    from hubbub.analyzer.server import check_store
    from hubbub.analyzer.stores.factory import create_store, file_of, open_store
    from hubbub.deploy.operator.health import shown_database

    def make(_folder: Path) -> Path:
        return create_store(found)

    def try_out(_folder: Path) -> None:
        with closing(open_store(found)) as store:
            asyncio.run(check_store(store))

    database = shown_database(found.store)
    return Kept("analyzer", found.data, *file_of(found), make, try_out, database)
