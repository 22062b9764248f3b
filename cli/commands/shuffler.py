"""`hubbub shuffler SETTINGS.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.output import Json, console, failures, print_json
from hubbub.cli.readiness import announcer
from hubbub.cli.store_maintenance import AcceptLostLog, CheckStore, CreateStore, Kept, kept_up
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.shuffler.settings import ShufflerSettings


def command(
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file `hubbub init` made.")],
    create_store: CreateStore = False,
    check_store: CheckStore = False,
    accept_lost_log: AcceptLostLog = False,
    abandon_round: Annotated[
        str,
        typer.Option("--give-up", metavar="TASK:ROUND", help="Erase a round that cannot be delivered; then exit."),
    ] = "",
    though_whole: Annotated[
        bool, typer.Option("--though-whole", help="With --give-up: also a round of which nothing here is damaged.")
    ] = False,
    role: Annotated[
        str,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="both, leader or `frontend`; it goes before `role` in the settings. A front end has "
            "settings of its own.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Run the shuffler until SIGTERM or Ctrl-C, then drain. With --json it prints its addresses once it serves.

    It starts only on a store that is there: one that went missing is never replaced in silence. The first one is made
    by --create-store, which serves nothing and refuses where there is a store. One whose write-ahead log was deleted or
    cut is refused, until --accept-lost-log is given once. A round that status says cannot be delivered is ended by
    --give-up, while the shuffler is stopped; one of which nothing in the store is damaged only with --though-whole.

    On PostgreSQL, front ends may answer devices, and one leader has the rounds: --role frontend, with settings of its
    own, and --role leader.

    SIGHUP, SIGUSR1 and SIGUSR2 are ignored: settings are read at the start.

    Examples: hubbub shuffler deployment/shuffler/shuffler.toml --create-store;
    hubbub shuffler deployment/shuffler/shuffler.toml
    """
    with failures(as_json):
        from hubbub.protos.errors import HubbubError
        from hubbub.service.runtime import event_loop
        from hubbub.shuffler.server import serve
        from hubbub.shuffler.settings import is_frontend, load

        if role == "frontend" or (not role and is_frontend(settings)):
            if create_store or check_store or accept_lost_log or abandon_round:
                raise UsageError("a front end has no store of its own: do that where its leader is")
            _replicate(settings, role, as_json)
            return
        found = load(settings, role)
        if though_whole and not abandon_round:
            raise HubbubError("--though-whole is for --give-up alone: say which round")
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

    # Tasks are what a round is compared with; they need not load where nothing is.
    tasks = {} if though_whole else own_tasks(found)[1]
    ended = asyncio.run(abandon_round(lambda: open_store(found), which, tasks, though_whole=though_whole))
    report = {"service": "shuffler", "task_id": ended.task_id.hex(), "round": ended.number}
    said = f"round {ended.number} was given up and erased; what it was charged stays charged"
    print_json(report) if as_json else console().print(said, markup=False, soft_wrap=True)


def _kept(found: ShufflerSettings) -> Kept:
    """The file of the store in `data`: all of it, or the keyring of one in a database."""
    from hubbub.shuffler.stores.factory import create_store, file_of, open_store

    def make(_folder: Path) -> Path:
        return create_store(found)

    def try_out(_folder: Path) -> None:
        open_store(found).close()

    return Kept("shuffler", found.data, *file_of(found), make, try_out)
