"""`hubbub health SERVICE SETTINGS.toml`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json


class Service(StrEnum):
    """The services that can be asked."""

    SHUFFLER = "shuffler"
    ANALYZER = "analyzer"


def command(
    service: Annotated[Service, typer.Argument(help="Which service the settings are of.")],
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS.toml", help="The settings file it was started with.")],
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds within which it must say that it serves.")] = 5,
    as_json: Json = False,
) -> None:
    """Ask the service on this machine, at every port of its settings, whether it serves; exit 1 where it does not.

    It speaks the standard gRPC health protocol, over TLS with the service's own certificate. Containers and monitors
    call it; with a longer --wait it returns as soon as a service that was just started serves.

    Example: hubbub health shuffler deployment/shuffler/shuffler.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.deploy.health import ask, ports_of
        from hubbub.protos.errors import HubbubError

        ports, tls = ports_of(service.value, settings)
        serving = asyncio.run(ask(ports, tls, wait))
        silent = [f"{name} at {ports[name]}" for name, serves in serving.items() if not serves]
        if silent and not as_json:
            raise HubbubError(f"the {service.value} does not serve {', '.join(silent)}; its log says why")
        if as_json:
            print_json({"service": service.value, "serving": not silent, "ports": serving})
            raise typer.Exit(1 if silent else 0)
        console().print(f"the {service.value} serves {', '.join(ports)}", markup=False, soft_wrap=True)
