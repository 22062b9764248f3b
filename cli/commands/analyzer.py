"""`hubbub analyzer SETTINGS.toml`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.output import Json, failures
from hubbub.cli.readiness import announcer
from hubbub.cli.store_maintenance import AcceptLostLog, CheckStore, CreateStore, Kept, kept_up

if TYPE_CHECKING:
    from hubbub.analyzer.settings import AnalyzerSettings


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

        from hubbub.analyzer.server import serve
        from hubbub.analyzer.settings import load

        found = load(settings)
        if not kept_up(_kept(found), create=create_store, check=check_store, accept=accept_lost_log, as_json=as_json):
            asyncio.run(serve(found, announce=announcer("analyzer", as_json)))


def _kept(found: AnalyzerSettings) -> Kept:
    """The file of the store in `data`: all of it, or the keyring of one in a database."""
    import asyncio

    from hubbub.analyzer.server import check_store
    from hubbub.analyzer.store_factory import create_store, file_of, open_store

    def make(_folder: Path) -> Path:
        return create_store(found)

    def try_out(_folder: Path) -> None:
        with closing(open_store(found)) as store:
            asyncio.run(check_store(store))

    return Kept("analyzer", found.data, *file_of(found), make, try_out)
