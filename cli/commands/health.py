"""Asks a service on this machine whether it works: `hubbub health SERVICE SETTINGS.toml`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hubbub.protos.errors import HubbubError
    from hubbub.protos.transport.channels import TLS


class ServiceKind(StrEnum):
    """The services that answer health checks."""

    SHUFFLER = "shuffler"
    HOP = "hop"
    ANALYZER = "analyzer"


def command(
    service: Annotated[ServiceKind, typer.Argument(help="The service to ask.")],
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file it was started with.")],
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            min=0,
            help="Seconds to wait until it serves, with a standby or leader. An answer has 2 in any case.",
        ),
    ] = 5,
    live: Annotated[
        bool, typer.Option("--live", help="Ask only whether its ports serve; use it if a failure means a restart.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Ask a service on this machine whether it serves and works.

    It asks the ports for devices, for the operator and for the other services, but not the metrics port, nor a
    proxy in front: `HubbubProxyCutOff` watches that one. The exit status is 1 if a port does not serve, if the
    store cannot be used (a full disk, for example), if a step of a round fails, or if no ticket is redeemed because a
    standby or the leader is missing. If the log cannot be written, or another service does not answer, it only
    reports that: this service still works. With --live only a port that does not serve counts, and a service that
    is well and waits, such as a front end for its first task, is no failure.

    It uses the standard gRPC health protocol, over TLS with the service's own certificate. Use it in containers and
    monitors. With a longer --wait, it returns as soon as a service that was just started serves.

    Example: hubbub health shuffler deployment/shuffler/shuffler.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.deploy.operator.health import ask, ask_why, ports_of
        from hubbub.protos.errors import HubbubError

        ports, tls = ports_of(service.value, settings)
        serving = asyncio.run(ask(ports, tls, wait))
        silent = {name: ports[name] for name, serves in serving.items() if not serves}
        reasons = asyncio.run(ask_why(silent, tls, WHY_SECONDS))
        down = dict(silent) if not live else {name: at for name, at in silent.items() if not _waits(reasons.get(name))}
        if down and not as_json:
            raise HubbubError(f"the {service.value} does not serve {_silent(down, reasons)}")
        parts = frozenset() if silent or live else asyncio.run(_parts(ports, tls, wait))
        failing = sorted(parts & STOPPING.keys())
        if as_json:
            said = {name: str(why) for name, why in reasons.items()}
            document = {"serving": not silent, "ports": serving, "reasons": said, "with_incidents": sorted(parts)}
            print_json({"service": service.value, **document})
            raise typer.Exit(1 if down or failing else 0)
        for part in sorted(parts - STOPPING.keys()):
            console().print(f"the {service.value} works, but {_said(part)}", markup=False, soft_wrap=True)
        if failing:
            raise HubbubError(f"the {service.value} serves, but {_what(service, settings, failing)}")
        words = (
            f"is well, and does not serve yet {_silent(silent, reasons)}" if silent else f"serves {', '.join(ports)}"
        )
        console().print(f"the {service.value} {words}", markup=False, soft_wrap=True)


def _waits(why: HubbubError | None) -> bool:
    from hubbub.service.transport.health import Waits

    return isinstance(why, Waits)


WHY_SECONDS = 2.0
"""How long to ask a port that does not serve for the reason."""

PASSING = frozenset({"standbys", "tickets"})
"""Parts that others have yet to join when a service has just started."""


async def _parts(ports: Mapping[str, str], tls: TLS, wait: float) -> frozenset[str]:
    """Return the parts with incidents, after up to `wait` seconds for those that others have yet to join."""
    import asyncio
    import time

    from hubbub.deploy.operator.health import PAUSE_SECONDS, ask_parts

    deadline = time.monotonic() + wait
    while True:
        parts = await ask_parts(ports, tls, wait)
        if not parts & PASSING or parts & (STOPPING.keys() - PASSING) or time.monotonic() + PAUSE_SECONDS > deadline:
            return parts
        await asyncio.sleep(PAUSE_SECONDS)


def _silent(silent: Mapping[str, str], reasons: Mapping[str, HubbubError]) -> str:
    from hubbub.protos.errors import Distrusted

    at = {name: f"{name} at {address}" for name, address in silent.items()}
    causes = {str(each) for each in reasons.values()}
    if len(causes) > 1:
        told = "; ".join(f"{port}: {reasons[name]}" if name in reasons else port for name, port in at.items())
    else:
        told = f"{', '.join(at.values())}: {''.join(causes)}"
    # A service that presents a wrong certificate runs, and its log does not mention it; one that waits says it all.
    known = all(isinstance(each, Distrusted) or _waits(each) for each in reasons.values())
    log = "" if known else "; its log may have the cause"
    return f"{told}{log}"


def _what(service: ServiceKind, settings: Path, failing: list[str]) -> str:
    said = (words if isinstance(words := STOPPING[part], str) else words(service, settings) for part in failing)
    return f"{'; '.join(said)}; see its log and `hubbub status`"


def _said(part: str) -> str:
    # A service that is newer than this command may have parts that this one does not know.
    return f"{WORKING.get(part, f'its {part} has an incident')}; see `hubbub status`"


def _store(service: ServiceKind, settings: Path) -> str:
    from hubbub.deploy.operator.health import store_of

    store = store_of(service.value, settings)
    why = "its server may not answer" if store.startswith("postgres") else "its disk may be full"
    return f"its store in {store} cannot be used ({why})"


def _standbys(_service: ServiceKind, settings: Path) -> str:
    from hubbub.shuffler.settings import load

    asked = load(settings).standbys
    one = "1 standby is asked for, and none follows"
    which = one if asked == 1 else f"{asked} standbys are asked for, and fewer follow"
    return f"{which}, so no round begins and no device enrolls"


STOPPING: Mapping[str, str | Callable[[ServiceKind, Path], str]] = {
    "store": _store,
    "rounds": "a step of a round fails",
    "standbys": _standbys,
    "tickets": "it redeems no tickets, because no leader answers or the leader redeems none",
}
"""Parts whose incidents stop the service's work, with the words for them."""

WORKING: Mapping[str, str] = {
    "feed": "the feed of tasks is not followed",
    "log": "lines of its log are lost",
    "peer": "another party does not answer, or one of the two refuses the other",
    "ports": "calls are refused, because a port reached a limit",
}
"""All other parts: the service works."""
