"""`hubbub enroll FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.protos.keys import Identity
    from hubbub.protos.tickets import Ticket

MOST_TICKETS = 10_000_000
"""Tickets that are made at once; each takes about 50 µs."""


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the ticket; with --names, a folder.")],
    key: Annotated[Path, typer.Option("--key", help="The operator's identity, or with --countersign another's.")],
    shuffler_key: Annotated[
        Path | None, typer.Option("--shuffler-key", metavar="PUB.pem", help="The shuffler that the tickets are for.")
    ] = None,
    devices: Annotated[
        int | None, typer.Option("--devices", min=1, max=MOST_TICKETS, help="So many tickets, one a line.")
    ] = None,
    names: Annotated[
        Path | None, typer.Option("--names", metavar="LIST", help="A ticket for each line of this file.")
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=36_500, help="How long devices take part.")] = 365,
    countersign: Annotated[
        bool, typer.Option("--countersign", help="Sign the tickets in FILE too, as a task's second authority.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Enrol devices: make tickets, each of which one device turns into its credential, by itself.

    Whoever redeems a ticket first has the device's place, so hand it over as you would a password, and to one device.
    What a certificate's number of reports is worth is what your tickets are worth: give each person one.

    Examples: hubbub enroll deployment/client/ticket.json --key deployment/operator/identity.pem --shuffler-key
    deployment/operator/trust/shuffler.pub.pem; hubbub enroll tickets.jsonl --devices 1000 --key identity.pem
    --shuffler-key shuffler.pub.pem
    """
    with failures(as_json):
        from hubbub.deploy.errors import BadUse
        from hubbub.deploy.output import progress_console
        from hubbub.protos.keys import Identity, load_public
        from hubbub.protos.pem import readable_by_others

        if devices is not None and names is not None:
            raise BadUse("--devices and --names both say how many tickets there are; give one of them")
        signer = Identity.load(key)
        exposed = readable_by_others(key)
        if exposed:
            progress_console().print(f"warning: {exposed}", markup=False, soft_wrap=True)
        if countersign:
            _countersign(file, signer, as_json)
            return
        if shuffler_key is None:
            raise BadUse("give --shuffler-key, the public key of the shuffler that the tickets are for")
        expires, tickets = _made(signer, load_public(shuffler_key), devices, names, days)
        _write(file, tickets, names)
        if as_json:
            ids = [ticket.device.hex() for ticket in tickets]
            print_json({"file": str(file), "tickets": len(tickets), "expires": expires, "devices": ids})
            return
        many = "1 ticket" if len(tickets) == 1 else f"{len(tickets)} tickets"
        console().print(f"{many} in {file}, good until {expires}", markup=False, soft_wrap=True)


def _made(
    signer: Identity, shuffler: bytes, devices: int | None, names: Path | None, days: int
) -> tuple[str, list[Ticket]]:
    import time

    from hubbub.deploy.ticketing import names_in
    from hubbub.protos.tickets import new_tickets
    from hubbub.protos.times import DAY, at

    count = len(names_in(names)) if names is not None else devices or 1
    expires = int(time.time()) + days * DAY
    return at(expires), new_tickets(count, shuffler, expires, [signer])


def _write(file: Path, tickets: list[Ticket], names: Path | None) -> None:
    from hubbub.deploy.ticketing import ENDING, names_in, write_tickets

    if names is None:
        write_tickets(file, tickets)
        return
    from hubbub.deploy.folders import new_folder

    with new_folder(file):
        for name, ticket in zip(names_in(names), tickets, strict=True):
            write_tickets(file / f"{name}{ENDING}", [ticket])


def _countersign(file: Path, signer: Identity, as_json: bool) -> None:
    from hubbub.deploy.ticketing import countersign

    count = countersign(file, signer)
    if as_json:
        print_json({"file": str(file), "tickets": count})
    else:
        console().print(f"countersigned {count} in {file}", markup=False, soft_wrap=True)
