"""Lists and rotates a party's keys, and revokes devices and readers: `hubbub keys list|add|activate|remove|revoke`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, fail, failures, print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from hubbub.deploy.pki.rotation.key import Key, KeyLocation, KeyRotation

app = typer.Typer(
    no_args_is_help=True,
    help="""List a party's keys, rotate them, and revoke devices and readers.

    A key is pending (made, and known to the parties that check with it), active (used for everything new), or retired
    (it still checks what was made with it). Rotate a key in three steps, while the services run: add, activate,
    remove. Any time may pass between the steps, and each step may be repeated.

    Example: hubbub keys list deployment/operator/operator.toml
    """,
)


class Name(StrEnum):
    """The kinds of keys that are rotated."""

    IDENTITY = "identity"
    CERTIFICATE = "certificate"
    AUTHORITY = "authority"
    MASTER = "master"


Settings = Annotated[
    Path, typer.Argument(metavar="SETTINGS.toml", help="The party's settings: of the operator or of a service.")
]
KindName = Annotated[
    Name,
    typer.Argument(
        metavar="KIND",
        help="Of any party: identity (signs documents) or certificate (TLS). Of the operator: authority (signs TLS "
        "certificates) or master (makes devices' credentials).",
    ),
]


@app.command("list")
def list_(settings: Settings, as_json: Json = False) -> None:
    """Show every key of a party with its state.

    These are its identities and TLS certificates, and for the operator also the TLS authority and the master keys. If
    a key cannot be read, the others are shown and the exit status is 1.

    `since` and `until` of a TLS certificate are its validity. It begins an hour before the certificate was made, since
    a caller's clock may be behind. One that has ended is shown as expired.

    Example: hubbub keys list deployment/shuffler/shuffler.toml
    """
    with failures(as_json):
        from hubbub.deploy.pki.rotation.key import location_of
        from hubbub.deploy.pki.rotation.registry import ROTATIONS
        from hubbub.protos.errors import HubbubError

        location, keys, errors = location_of(settings), list["Key"](), dict[str, str]()
        for kind in ROTATIONS.values():
            try:
                keys += kind.held(location)
            except (HubbubError, OSError) as error:
                errors[kind.name] = str(error)
        if as_json:
            print_json({"party": location.name, "keys": [key.as_json() for key in keys], "errors": errors})
        else:
            _show(keys)
    if errors:
        fail("; ".join(f"{name}: {error}" for name, error in errors.items()))


@app.command("add")
def add(
    kind: KindName,
    settings: Settings,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--authority", metavar="DIR", help="For a certificate: the operator's folder, with authority.key."
        ),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="For a service's certificate: name or address of the service; repeatable. [default: the old hosts]",
        ),
    ] = None,
    begins: Annotated[
        str | None,
        typer.Option(
            "--begins", metavar="TIME", help="For an identity: when it starts to sign. [default: two days from now]"
        ),
    ] = None,
    witness: Annotated[
        Path | None,
        typer.Option(
            "--witness",
            metavar="PUB.pem",
            help="For the operator's identity: public key of the shuffler, which signs the succession too.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a pending key, unless there is one.

    Write times in UTC, as 2026-12-01T00:00:00Z.

    Examples: hubbub keys add master deployment/operator/operator.toml; hubbub keys add certificate
    deployment/shuffler/shuffler.toml --authority deployment/operator
    """
    with failures(as_json):
        from hubbub.deploy.option_values import moment_given
        from hubbub.deploy.pki.rotation.key import KeyRequest
        from hubbub.protos.errors import UsageError

        if kind is not Name.CERTIFICATE and (authority or host):
            raise UsageError(f"--authority and --host are for a certificate; leave them out for {kind.value}")
        if kind is not Name.IDENTITY and (begins or witness):
            raise UsageError(f"--begins and --witness are for an identity; leave them out for {kind.value}")
        wanted = KeyRequest(authority, host, _to_come(moment_given(begins)), witness)
    _change(kind, settings, as_json, lambda turned, location: turned.add(location, wanted))


def _to_come(begins: int | None) -> int | None:
    """Return a time at which an identity may begin to sign.

    Raises:
        UsageError: if it is past: rounds that were prepared since would have records of one that no longer signs them.
    """
    import time

    from hubbub.protos.errors import UsageError
    from hubbub.protos.task.schedule import at

    if begins is not None and begins <= time.time():
        raise UsageError(f"--begins is {at(begins)}, which is past; give a later time")
    return begins


@app.command("activate")
def activate(kind: KindName, settings: Settings, as_json: Json = False) -> None:
    """Use the pending key for everything new.

    The key before it is retired: it still checks what was made with it.

    Example: hubbub keys activate certificate deployment/shuffler/shuffler.toml
    """
    _change(kind, settings, as_json, lambda turned, location: turned.activate(location))


@app.command("remove")
def remove(
    kind: KindName,
    settings: Settings,
    force: Annotated[
        bool, typer.Option("--force", help="For an authority: remove it although certificates of it are in use.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Destroy the retired keys, or stop trusting them.

    An authority is not removed while somebody shows a certificate of it: a service at a port of the operator's
    settings, or a party whose folder is beside the operator's. The command names them. It does not see certificates
    elsewhere.

    Example: hubbub keys remove master deployment/operator/operator.toml
    """
    with failures(as_json):
        from hubbub.protos.errors import UsageError

        if force and kind is not Name.AUTHORITY:
            raise UsageError(f"--force is for an authority; leave it out for {kind.value}")
    _change(kind, settings, as_json, lambda turned, location: turned.remove(location, forced=force))


@app.command("revoke")
def revoke(
    settings: Annotated[Path, typer.Argument(metavar="OPERATOR.toml", help="The operator's settings file.")],
    device: Annotated[list[str] | None, typer.Argument(metavar="DEVICE...", help="Ids of devices, in hex.")] = None,
    tickets: Annotated[
        Path | None,
        typer.Option(
            "--tickets",
            metavar="FILE",
            help="Revoke all devices of the tickets or ids in this file, or in the tickets of this folder.",
        ),
    ] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option(
            "--reader", metavar="NAME", help="Name of a reader to revoke, empty for the one without a name; repeatable."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Revoke devices, which are never admitted again, or readers, who may no longer look.

    Submissions that devices have already sent stay. It cannot be undone, and every device of the file is revoked: first
    look how many it has.

    Readers are added to revoked-readers.txt beside OPERATOR.toml. Give this file to the shuffler and to the analyzer:
    they take it without a restart. Certificates that a reader got until now are revoked; a new one of the same name may
    look again.

    Examples: hubbub keys revoke deployment/operator/operator.toml --tickets lost.json; hubbub keys revoke
    deployment/operator/operator.toml --reader ana
    """
    if reader is not None:
        _revoke_readers(settings, reader, bool(device or tickets), as_json)
        return
    with failures(as_json):
        import asyncio

        from hubbub.deploy.operator.client import manage_credentials
        from hubbub.deploy.pki.rotation.key import location_of, of_operator
        from hubbub.deploy.pki.tickets import devices_given
        from hubbub.protos.messages import CredentialAction

        devices = devices_given(device or (), tickets)
        operator = of_operator(location_of(settings), "who is admitted")
        found = asyncio.run(manage_credentials(operator, CredentialAction.REVOKE, devices))
        if as_json:
            document = {"tickets_redeemed": found.redeemed, "devices_revoked": found.revoked}
            print_json({"devices_given": len(set(devices)), **document})
            return
        many = "1 device" if len(set(devices)) == 1 else f"{len(set(devices))} devices"
        told = f"revoked {many}; {found.revoked:,} in all are revoked, and the shuffler takes nothing more of them"
        console().print(told, markup=False, soft_wrap=True)


def _revoke_readers(settings: Path, names: list[str], devices_too: bool, as_json: bool) -> None:
    with failures(as_json):
        import time

        from hubbub.deploy.pki.readers import revoke_readers, told
        from hubbub.deploy.pki.rotation.key import location_of, of_operator
        from hubbub.protos.errors import UsageError
        from hubbub.protos.task.schedule import at

        if devices_too:
            raise UsageError("--reader revokes readers; leave out devices and --tickets, and revoke them by themselves")
        of_operator(location_of(settings), "who may look")
        path, revoked = revoke_readers(settings, names, time.time())
        if as_json:
            print_json({"file": str(path), "readers": {name: at(moment) for name, moment in revoked.items()}})
            return
        console().print(told(path, names), markup=False, soft_wrap=True)


def _change(kind: Name, settings: Path, as_json: bool, change: Callable[[KeyRotation, KeyLocation], str]) -> None:
    with failures(as_json):
        from hubbub.deploy.files import changing
        from hubbub.deploy.pki.rotation.key import location_of
        from hubbub.deploy.pki.rotation.registry import ROTATIONS

        # Two at once would make two pending keys, or destroy one that the other has just made active.
        with changing(settings):
            turned, location = ROTATIONS[kind.value], location_of(settings)
            following = change(turned, location)
            keys = turned.held(location)
        if as_json:
            print_json({"party": location.name, "keys": [key.as_json() for key in keys], "next": following})
            return
        _show(keys)
        if following:
            console().print(following, markup=False, soft_wrap=True)


def _show(keys: list[Key]) -> None:
    from rich.table import Table

    from hubbub.cli.tables.printing import print_records

    # Times and fingerprints are wider than most terminals: lines look the same in all.
    table = Table("kind", "name", "state", "since", "until", "fingerprint", title="keys")
    for key in keys:
        shown = {**key.as_json(), "state": key.shown_state}
        table.add_row(*(shown[name] or "" for name in ("kind", "name", "state", "since", "until", "fingerprint")))
    print_records(console(), table)
