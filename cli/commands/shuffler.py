"""Runs a shuffler or a front end, or maintains its store: `hubbub shuffler SETTINGS.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.options.store_maintenance import AcceptLostLog, CheckStore, CreateStore, Kept, kept_up
from hubbub.cli.terminal.output import Json, console, failures, print_json
from hubbub.cli.terminal.readiness import announcer
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.shuffler.settings import ShufflerSettings


def command(
    settings: Annotated[
        Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file that `hubbub init` made.")
    ],
    create_store: CreateStore = False,
    check_store: CheckStore = False,
    accept_lost_log: AcceptLostLog = False,
    abandon_round: Annotated[
        str,
        typer.Option("--give-up", metavar="TASK:ROUND", help="Erase a round that cannot be delivered, then exit."),
    ] = "",
    though_whole: Annotated[
        bool, typer.Option("--though-whole", help="With --give-up: erase the round even if nothing of it is damaged.")
    ] = False,
    role: Annotated[
        str,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="Run as both, leader or frontend, instead of `role` in the settings. A front end has its own "
            "settings file. [default: `role` of the settings]",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Run the shuffler until SIGTERM or Ctrl-C; then finish its calls.

    With --json it prints its addresses once it serves. The shuffler refuses to start without a store: a lost store is
    never replaced silently. Create the store once with --create-store, which refuses if there is one. If the store's
    write-ahead log was deleted or cut, the shuffler refuses to start until you run it once with --accept-lost-log.

    If `hubbub status` reports that a round cannot be delivered, stop the shuffler and erase the round with --give-up.
    If nothing of the round is damaged in the store, this also needs --though-whole.

    On PostgreSQL the shuffler can be several processes: one leader keeps the rounds, and front ends answer devices.
    Start them with --role leader, and with --role frontend and a front end's own settings.

    SIGHUP, SIGUSR1 and SIGUSR2 are ignored: settings are read only at the start.

    Examples: hubbub shuffler deployment/shuffler/shuffler.toml --create-store;
    hubbub shuffler deployment/shuffler/shuffler.toml
    """
    with failures(as_json):
        from hubbub.protos.errors import HubbubError
        from hubbub.service.observability import logs
        from hubbub.service.runtime import event_loop
        from hubbub.shuffler.server import serve
        from hubbub.shuffler.settings import is_frontend, load

        if role == "frontend" or (not role and is_frontend(settings)):
            if create_store or check_store or accept_lost_log or abandon_round:
                raise UsageError("a front end has no store; run this with the leader's settings")
            _replicate(settings, role, as_json)
            return
        found = load(settings, role)
        # Also for maintenance: what a store logs must not come on stdout.
        logs.configure(found.log)
        if though_whole and not abandon_round:
            raise HubbubError("--though-whole needs --give-up TASK:ROUND; add it, or leave --though-whole out")
        if abandon_round:
            _give_up(found, abandon_round, though_whole, as_json)
            return
        if not kept_up(_kept(found), create=create_store, check=check_store, accept=accept_lost_log, as_json=as_json):
            event_loop.run(lambda: serve(found, announce=announcer("shuffler", as_json)), found.event_loop)


def _replicate(path: Path, role: str, as_json: bool) -> None:
    """Run a front end."""
    from hubbub.service.runtime import event_loop
    from hubbub.shuffler.cluster.frontend import serve_frontend
    from hubbub.shuffler.settings import load_frontend

    found = load_frontend(path, role)
    event_loop.run(lambda: serve_frontend(found, announce=announcer("frontend", as_json)), found.event_loop)


def _give_up(found: ShufflerSettings, which: str, though_whole: bool, as_json: bool) -> None:
    """Erase a round that cannot be delivered."""
    import asyncio

    from hubbub.shuffler.rounds.abandon import abandon_round
    from hubbub.shuffler.server import own_tasks
    from hubbub.shuffler.stores.factory import open_store

    # A round is compared with its task. With --though-whole nothing is compared, so the tasks need not load.
    tasks = {} if though_whole else own_tasks(found)[1]
    ended = asyncio.run(abandon_round(lambda: open_store(found), which, tasks, though_whole=though_whole))
    report = {"service": "shuffler", "task_id": ended.task_id.hex(), "round": ended.number}
    said = f"round {ended.number} was given up and erased; its privacy cost stays charged"
    print_json(report) if as_json else console().print(said, markup=False, soft_wrap=True)


def _kept(found: ShufflerSettings) -> Kept:
    """Return the store's file in `data`: the whole store, or only the keyring if the store is in a database."""
    from hubbub.deploy.operator.health import shown_database
    from hubbub.shuffler.stores.factory import create_store, file_of, open_store

    def make(_folder: Path) -> Path:
        return create_store(found)

    def try_out(_folder: Path) -> None:
        open_store(found).close()

    database = shown_database(found.store)
    return Kept("shuffler", found.data, *file_of(found), make, try_out, database)
