"""`hubbub credentials status|prepare|activate|forget|revoke OPERATOR.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.protos.messages import CredentialStatus

app = typer.Typer(
    no_args_is_help=True,
    help="""What enrolled devices are admitted with: turning the shuffler's master key over, and revoking devices.

    Turn it over in three steps, with any time between them: prepare, activate, forget. No device is refused meanwhile.

    Example: hubbub credentials status deployment/operator/operator.toml
    """,
)

Settings = Annotated[Path, typer.Argument(metavar="OPERATOR.toml", help="The operator's settings file.")]


@app.command("status")
def status(settings: Settings, as_json: Json = False) -> None:
    """Show the master keys with their states, and how many tickets were spent and devices revoked.

    Example: hubbub credentials status deployment/operator/operator.toml
    """
    _step(settings, "status", [], as_json)


@app.command("prepare")
def prepare(settings: Settings, as_json: Json = False) -> None:
    """Make a pending master key, unless there is one.

    Example: hubbub credentials prepare deployment/operator/operator.toml
    """
    _step(settings, "prepare", [], as_json)


@app.command("activate")
def activate(settings: Settings, as_json: Json = False) -> None:
    """Make the pending key the active one; the key before it is retired, and still checks what it checked.

    Example: hubbub credentials activate deployment/operator/operator.toml
    """
    _step(settings, "activate", [], as_json)


@app.command("forget")
def forget(settings: Settings, as_json: Json = False) -> None:
    """Destroy the retired keys. Devices that still use one redeem their tickets again, by themselves.

    Example: hubbub credentials forget deployment/operator/operator.toml
    """
    _step(settings, "forget", [], as_json)


@app.command("revoke")
def revoke(
    settings: Settings,
    device: Annotated[list[str] | None, typer.Argument(metavar="DEVICE...", help="Ids of devices (hex).")] = None,
    tickets: Annotated[
        Path | None, typer.Option("--tickets", metavar="FILE", help="A file of tickets: revoke all their devices.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Admit devices no more, from now on and for good. What they have sent already stays.

    Example: hubbub credentials revoke deployment/operator/operator.toml --tickets lost.json
    """
    with failures(as_json):
        from hubbub.deploy.errors import BadUse
        from hubbub.deploy.ticketing import read_tickets
        from hubbub.protos.errors import SignatureError
        from hubbub.protos.signed import from_hex
        from hubbub.protos.tickets import DEVICE_BYTES

        try:
            devices = [from_hex(each, DEVICE_BYTES, "a device") for each in device or ()]
        except SignatureError as error:
            raise BadUse(f"{error}; `hubbub enroll --json` printed it") from error
        devices += [ticket.device for ticket in read_tickets(tickets)] if tickets is not None else []
        if not devices:
            raise BadUse("name devices to revoke, or give their tickets with --tickets")
    _step(settings, "revoke", devices, as_json)


def _step(settings: Path, step: str, devices: list[bytes], as_json: bool) -> None:
    with failures(as_json):
        import asyncio

        from hubbub.deploy.calls import manage_credentials
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.protos.messages import Step
        from hubbub.service.settings import load

        operator = load(settings, OperatorSettings, "operator")
        found = asyncio.run(manage_credentials(operator, Step(step), devices))
        if as_json:
            keys = [{"generation": number, "state": state.value} for number, state in found.keys.items()]
            print_json({"keys": keys, "tickets_spent": found.spent, "devices_revoked": found.revoked})
        else:
            _show(found)


def _show(found: CredentialStatus) -> None:
    for number, state in found.keys.items():
        console().print(f"master key {number}: {state.value}", markup=False)
    console().print(f"tickets spent {found.spent}, devices revoked {found.revoked}", markup=False)
