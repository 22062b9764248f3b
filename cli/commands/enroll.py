"""Makes, renews and countersigns enrollment tickets: `hubbub enroll FILE`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hubbub.protos.enrollment.tickets import Ticket
    from hubbub.protos.identity.keys import Identity

MOST_TICKETS = 10_000_000
"""The most tickets that one command makes; each takes about 12 µs."""


def command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A new file for the tickets; for named devices, a new folder.")
    ],
    key: Annotated[
        Path, typer.Option("--key", help="PEM file of the operator's identity; with --countersign, of the other's.")
    ],
    shuffler_key: Annotated[
        Path | None,
        typer.Option("--shuffler-key", metavar="PUB.pem", help="Public key of the shuffler that the tickets are for."),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option("--devices", min=1, max=MOST_TICKETS, help="How many tickets to make, one per line. [default: 1]"),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option("--names", metavar="LIST", help="Make a ticket file for each name in LIST, one per line."),
    ] = None,
    renew: Annotated[
        Path | None,
        typer.Option(
            "--renew",
            metavar="OLD",
            help="Make new tickets for enrolled devices; OLD is a file of their tickets or ids, or a folder.",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, max=36_500, help="Days from now until the tickets expire.")
    ] = 365,
    countersign: Annotated[
        bool,
        typer.Option(
            "--countersign",
            help="Add a signature to the tickets in FILE, or in a folder, as the second authority. It is for all "
            "tickets that were made together, so none of them may be missing.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Enroll devices: make one ticket for each device.

    The device redeems its ticket for a credential, without further help. Only the first device that redeems a ticket
    can use it, so hand it over like a password, to one device. A certificate counts reports, and trusts that each
    comes from another person: give each person one ticket.

    With --renew, the tickets are for devices that are enrolled already, and expire later. OLD is a file with their
    tickets or their ids, one per line, or with the document that --json printed. OLD can also be a folder as --names
    makes it. If OLD is a folder, or its document names the devices, FILE is a new folder with a file for each. The
    device redeems its new ticket by itself and keeps its id, so it still has one submission a round.

    Examples: hubbub enroll deployment/client/ticket.json --key deployment/operator/identity.pem --shuffler-key
    deployment/operator/trust/shuffler.pub.pem; hubbub enroll tickets.jsonl --devices 1000 --key identity.pem
    --shuffler-key shuffler.pub.pem; hubbub enroll next.jsonl --renew tickets.jsonl --days 365 --key identity.pem
    """
    with failures(as_json):
        from hubbub.protos.errors import UsageError
        from hubbub.protos.identity.keys import load_public

        if sum(each is not None for each in (devices, names, renew)) > 1:
            raise UsageError("--devices, --names and --renew exclude each other; give one of them")
        if countersign and renew is not None:
            raise UsageError(
                "--countersign signs existing tickets, and --renew makes new ones; run --renew, then --countersign"
            )
        signer = _signer(key)
        if shuffler_key is not None and load_public(shuffler_key) == signer.public:
            raise UsageError(
                f"{key} and {shuffler_key} are keys of one identity; --key is that of the operator, who signs tickets, "
                "and --shuffler-key that of the shuffler"
            )
        if countersign:
            _countersign(file, signer, as_json)
            return
        expires = _in_days(days)
        if renew is not None:
            made = _renewed(signer, shuffler_key, renew, expires)
            in_folder = renew.is_dir() or set(made) != {renew.name}
        else:
            made, in_folder = _made(signer, shuffler_key, devices, names, expires), names is not None
        _write(file, made, in_folder)
        _tell(file, made, expires, as_json)


def _signer(key: Path) -> Identity:
    from hubbub.cli.terminal.output import progress_console
    from hubbub.protos.identity.keys import Identity
    from hubbub.protos.identity.pem import readable_by_others

    signer = Identity.load(key)
    exposed = readable_by_others(key)
    if exposed:
        progress_console().print(f"warning: {exposed}", markup=False, soft_wrap=True)
    return signer


def _made(
    signer: Identity, shuffler_key: Path | None, devices: int | None, names: Path | None, expires: int
) -> dict[str, list[Ticket]]:
    """Return new tickets by file name."""
    from hubbub.deploy.pki.tickets import ENDING, names_in
    from hubbub.protos.enrollment.tickets import new_tickets
    from hubbub.protos.errors import UsageError
    from hubbub.protos.identity.keys import load_public

    if shuffler_key is None:
        raise UsageError("--shuffler-key is missing; give the public key of the shuffler that the tickets are for")
    shuffler = load_public(shuffler_key)
    if names is None:
        return {"": new_tickets(devices or 1, shuffler, expires, [signer])}
    named = names_in(names)
    tickets = new_tickets(len(named), shuffler, expires, [signer])
    return {f"{name}{ENDING}": [ticket] for name, ticket in zip(named, tickets, strict=True)}


def _renewed(signer: Identity, shuffler_key: Path | None, old: Path, expires: int) -> dict[str, list[Ticket]]:
    """Return new tickets for enrolled devices, by file name."""
    from hubbub.cli.terminal.output import progress_console
    from hubbub.deploy.pki.tickets import enrolled_in, renewed
    from hubbub.protos.identity.keys import load_public

    shuffler = None if shuffler_key is None else load_public(shuffler_key)
    found = enrolled_in(old)
    made = renewed(found, signer, shuffler, expires)
    twice = sum(each.ticket is not None and len(each.ticket.signatures) > 1 for each in chain(*found.values()))
    if twice:
        text = (
            f"note: a second authority signed {twice} of the old tickets; have it sign the new ones with --countersign"
        )
        progress_console().print(text, markup=False, soft_wrap=True)
    return made


def _in_days(days: int) -> int:
    import time

    from hubbub.protos.task.schedule import DAY

    return int(time.time()) + days * DAY


def _write(file: Path, made: Mapping[str, Sequence[Ticket]], in_folder: bool) -> None:
    from hubbub.deploy.pki.tickets import write_folder, write_tickets

    if in_folder:
        write_folder(file, made)
        return
    (tickets,) = made.values()
    write_tickets(file, tickets)


def _tell(file: Path, made: Mapping[str, Sequence[Ticket]], expires: int, as_json: bool) -> None:
    from hubbub.deploy.pki.tickets import ENDING
    from hubbub.protos.identity.documents import fingerprint
    from hubbub.protos.task.schedule import at

    tickets = [ticket for each in made.values() for ticket in each]
    if as_json:
        ids = [ticket.device.hex() for ticket in tickets]
        # By name too, where names are known: whoever revokes a device later knows it by its name.
        single = {name: each[0] for name, each in made.items() if name.endswith(ENDING) and len(each) == 1}
        named = {name.removesuffix(ENDING): ticket.device.hex() for name, ticket in single.items()}
        names = {"names": named} if named else {}
        print_json({"file": str(file), "tickets": len(tickets), "expires": at(expires), "devices": ids, **names})
        return
    many = "1 ticket" if len(tickets) == 1 else f"{len(tickets)} tickets"
    console().print(f"{many} in {file}, valid until {at(expires)}", markup=False, soft_wrap=True)
    # Of all tickets of a command; renewed ones keep the shuffler of the old ones, which may differ.
    first = tickets[0]
    signers = " and ".join(fingerprint(signer) for signer, _ in first.signatures)
    shufflers = " and ".join(sorted({fingerprint(ticket.shuffler) for ticket in tickets}))
    console().print(f"for shuffler {shufflers}", markup=False, soft_wrap=True)
    console().print(f"signed by {signers}", markup=False, soft_wrap=True)


def _countersign(file: Path, signer: Identity, as_json: bool) -> None:
    import time

    from hubbub.deploy.pki.tickets import countersign

    count = countersign(file, signer, time.time())
    if as_json:
        print_json({"file": str(file), "tickets": count})
    else:
        console().print(f"countersigned {count} in {file}", markup=False, soft_wrap=True)
