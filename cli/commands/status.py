"""Shows the state of every round at both services: `hubbub status OPERATOR.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, write_json

if TYPE_CHECKING:
    from hubbub.deploy.operator.client import Overview
    from hubbub.deploy.settings import OperatorSettings
    from hubbub.protos.transport.tls_files import TlsCertificate


def command(
    settings: Annotated[Path, typer.Argument(metavar="OPERATOR.toml", help="The operator's settings file.")],
    task: Annotated[
        str | None,
        typer.Option("--task", help="Show only the rounds of this task (name, or 8 digits of its id or more)."),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Repeat every 2 seconds until Ctrl-C; with --json, print one line each time."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the state of every round at both services.

    It shows counts, refusals by reason, and what each round waits for. It also lists TLS certificates that expire
    within 30 days: the operator's, the authority's and the services'. Of the hops in the settings it only shows whether
    they work. A hop's own party can see more with `hubbub health hop HOP.toml` on the hop's machine.

    If one service does not answer, the others are still shown, and the exit status is 1. With --watch the command
    repeats, and exits with status 0 after Ctrl-C or SIGTERM.

    Example: hubbub status deployment/operator/operator.toml --task usage --watch
    """
    with failures(as_json):
        import asyncio

        from hubbub.cli.terminal.output import fail
        from hubbub.cli.terminal.watch import watched
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.service.settings import load

        operator = load(settings, OperatorSettings, "operator")

        known: dict[frozenset[str], list[TlsCertificate]] = {}
        ids: set[str] = set()

        async def look() -> _StatusSnapshot:
            return await _look(operator, task, known, ids)

        if watch:
            asyncio.run(watched(look, (lambda seen: write_json(seen.document())) if as_json else _redraw))
            return
        seen = asyncio.run(look())
        if as_json:
            print_json(seen.document())
        else:
            seen.show()
        if seen.overview.errors:
            fail("; ".join(seen.overview.errors.values()))


@dataclass(frozen=True)
class _StatusSnapshot:
    """Both services' rounds, and when certificates expire, as seen at `now` (seconds since 1970)."""

    overview: Overview
    certificates: list[TlsCertificate]
    now: float

    def document(self) -> dict[str, Any]:
        from hubbub.cli.tables.status import overview_document
        from hubbub.deploy.pki.expiry import expiry_document

        return {**overview_document(self.overview), "certificates": expiry_document(self.certificates, self.now)}

    def show(self) -> None:
        from hubbub.cli.tables.status import print_overview
        from hubbub.deploy.pki.expiry import print_expiries

        print_overview(console(), self.overview)
        print_expiries(console(), self.certificates, self.now)


async def _look(
    operator: OperatorSettings, task: str | None, known: dict[frozenset[str], list[TlsCertificate]], ids: set[str]
) -> _StatusSnapshot:
    """Ask both services, but not for certificates that are `known` from an earlier look at the same services.

    `ids` keeps the ids of the named task from one look to the next, because services may not answer the next time.
    """
    import asyncio
    import time

    from hubbub.deploy.operator.client import fetch_overview, hops_of
    from hubbub.deploy.pki.expiry import expiries

    overview = await fetch_overview(operator)
    services = {"shuffler": operator.shuffler_control, "analyzer": operator.analyzer_results, **hops_of(operator)}
    answered = {name: address for name, address in services.items() if name not in overview.errors}
    now = time.time()
    if frozenset(answered) not in known:
        known[frozenset(answered)] = await asyncio.to_thread(expiries, operator.tls.paths(), answered, now)
    shown = overview.of_task(task, ids)
    if task is not None:
        ids.update(each.id.task_id.hex() for each in shown.analyzer or ())
        ids.update(each.task_id.hex() for each in shown.shuffler or ())
    return _StatusSnapshot(shown, known[frozenset(answered)], now)


def _redraw(seen: _StatusSnapshot) -> None:
    """Show it in place of the last look; below it if stdout is not a terminal."""
    from datetime import datetime

    console().clear()
    console().print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}; Ctrl-C to stop", soft_wrap=True)
    seen.show()
    for error in seen.overview.errors.values():
        console().print(f"error: {error}", soft_wrap=True)
