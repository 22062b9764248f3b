"""Ticketing: enrolment tickets in files: one in a file, many with one a line, or a file for each name of a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hubbub.deploy.errors import BadUse
from hubbub.deploy.files import naming, save, writing
from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.keys import Identity, write_private
from hubbub.protos.signed import from_hex
from hubbub.protos.tickets import DEVICE_BYTES, Ticket

ENDING = ".ticket"
"""What the name of a device's ticket file ends in, in a folder of them."""


def write_tickets(path: Path, tickets: Sequence[Ticket]) -> None:
    """Write tickets, one a line, into a new file that only its owner can read.

    Raises:
        HubbubError: where there is a file already.
        NotWritten: where it cannot be written.
    """
    content = b"\n".join(ticket.encode() for ticket in tickets) + b"\n"
    with writing(path):
        try:
            write_private(path, content)
        except FileExistsError as error:
            raise HubbubError(f"{path} exists; a ticket is handed over once, name a new file") from error


def read_tickets(path: Path) -> list[Ticket]:
    """Return the tickets in a file, one a line.

    Raises:
        HubbubError: where a line holds none, naming the file.
        OSError: where it cannot be read.
    """
    with naming(path):
        return [Ticket.decode(line) for line in path.read_bytes().splitlines() if line]


def names_in(path: Path) -> list[str]:
    """Return the names in a list, one a line, that can be names of files.

    Raises:
        BadUse: where one cannot, or comes twice, or there is none.
    """
    names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for name in names:
        if name != Path(name).name or name.startswith(".") or not name.isprintable():
            raise BadUse(f"--names {path}: {name!r:.80} cannot be the name of a file; give names without / and .")
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice or not names:
        raise BadUse(f"--names {path}: {f'{twice!r:.80} comes twice' if twice else 'no name'}; give each device once")
    return names


def countersign(path: Path, signer: Identity) -> int:
    """Add a signature to every ticket in a file; return how many there are.

    Raises:
        HubbubError: where a line holds no ticket, or two others signed it already.
    """
    tickets = [ticket.signed_by(signer) for ticket in read_tickets(path)]
    # An earlier file keeps its mode, so tickets that only their owner could read stay so.
    save(path, b"\n".join(ticket.encode() for ticket in tickets) + b"\n")
    return len(tickets)


def devices_given(ids: Iterable[str], tickets: Path | None) -> list[bytes]:
    """Return the devices (16 bytes each) of ids in hex, and of the tickets in a file.

    Raises:
        BadUse: where an id is not one, or there is none at all.
        HubbubError: where the tickets cannot be read.
    """
    try:
        devices = [from_hex(each, DEVICE_BYTES, "a device") for each in ids]
    except SignatureError as error:
        raise BadUse(f"{error}; `hubbub enroll --json` printed it") from error
    devices += [ticket.device for ticket in read_tickets(tickets)] if tickets is not None else []
    if not devices:
        raise BadUse("name devices to revoke, or give their tickets with --tickets")
    return devices
