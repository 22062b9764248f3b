"""Reads and writes enrollment tickets in files: one or many in a file, or a file for each name of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hubbub.deploy.files import naming, save, writing
from hubbub.deploy.new_folder import new_folder
from hubbub.protos.enrollment.tickets import DEVICE_BYTES, Ticket
from hubbub.protos.errors import HubbubError, SignatureError, UsageError
from hubbub.protos.identity.documents import from_hex
from hubbub.protos.identity.keys import Identity, write_private
from hubbub.protos.task.schedule import at

ENDING = ".ticket"
"""What the name of a device's ticket file ends in, in a folder of them."""


def write_tickets(path: Path, tickets: Sequence[Ticket]) -> None:
    """Write tickets, one a line, into a new file that only its owner can read.

    Raises:
        HubbubError: if there is a file already.
        NotWritten: if it cannot be written.
    """
    content = b"\n".join(ticket.encode() for ticket in tickets) + b"\n"
    with writing(path):
        try:
            write_private(path, content)
        except FileExistsError as error:
            raise HubbubError(f"{path} exists; a ticket is handed over once, name a new file") from error


def write_folder(folder: Path, tickets: Mapping[str, Sequence[Ticket]]) -> None:
    """Write tickets into a new folder, by the names of their files; a folder that cannot be filled is not left behind.

    Raises:
        HubbubError: if there is something in it already.
        NotWritten: if a file cannot be written.
    """
    with new_folder(folder):
        for name, each in tickets.items():
            write_tickets(folder / name, each)


def read_tickets(path: Path) -> list[Ticket]:
    """Return the tickets in a file, one a line.

    Raises:
        HubbubError: if a line holds none, naming the file.
        OSError: if it cannot be read.
    """
    with naming(path):
        return [Ticket.decode(line) for line in path.read_bytes().splitlines() if line]


def names_in(path: Path) -> list[str]:
    """Return the names in a list, one a line, that can be names of files.

    Raises:
        UsageError: if one cannot, or comes twice, or there is none.
    """
    names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for name in names:
        if name != Path(name).name or name.startswith(".") or not name.isprintable():
            raise UsageError(f"--names {path}: {name!r:.80} cannot be the name of a file; give names without / and .")
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice or not names:
        raise UsageError(
            f"--names {path}: {f'{twice!r:.80} comes twice' if twice else 'no name'}; give each device once"
        )
    return names


def countersign(path: Path, signer: Identity) -> int:
    """Add a signature to every ticket in a file; return how many there are.

    Raises:
        HubbubError: if a line holds no ticket, or two others signed it already.
    """
    tickets = [ticket.signed_by(signer) for ticket in read_tickets(path)]
    # An earlier file keeps its mode, so tickets that only their owner could read stay so.
    save(path, b"\n".join(ticket.encode() for ticket in tickets) + b"\n")
    return len(tickets)


@dataclass(frozen=True)
class EnrolledDevices:
    """A device that was enrolled before (16 bytes, never printed as a ticket is not), and its ticket, where known."""

    device: bytes = field(repr=False)
    ticket: Ticket | None = None


def enrolled_in(old: Path) -> dict[str, list[EnrolledDevices]]:
    """Return the devices of tickets or of ids (hex), one a line, by the names of the files that they are in.

    `old` is one such file, or a folder with some.

    Raises:
        UsageError: if there is none, or one comes twice.
        HubbubError: if a line holds neither ticket nor id, naming the file.
        OSError: if a file cannot be read.
    """
    found = {}
    for path in sorted(old.glob(f"*{ENDING}")) if old.is_dir() else [old]:
        with naming(path):
            found[path.name] = [_enrolled(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    counts = Counter(each.device for devices in found.values() for each in devices)
    if not counts:
        raise UsageError(
            f"--renew {old}: neither tickets nor ids of devices; give a file, or a folder with NAME{ENDING}"
        )
    device, times = counts.most_common(1)[0]
    if times > 1:
        raise UsageError(f"--renew {old}: device {device.hex()} comes {times} times; give each device once")
    return found


def _enrolled(line: bytes) -> EnrolledDevices:
    line = line.strip()
    if len(line) == 2 * DEVICE_BYTES:
        return EnrolledDevices(from_hex(line.decode("ascii", "replace"), DEVICE_BYTES, "a device"))
    ticket = Ticket.decode(line)
    return EnrolledDevices(ticket.device, ticket)


def renewed(device: EnrolledDevices, signer: Identity, shuffler: bytes | None, expires: int) -> Ticket:
    """Return a ticket until `expires` for a device that has one already, so that it keeps its pseudonyms.

    `shuffler` (32 bytes) is whom it is for; None for the one that the ticket before is for.

    Raises:
        UsageError: if nothing says for which shuffler, or the ticket before lasts as long.
        HubbubError: if `signer` has not signed the ticket before.
    """
    before = device.ticket
    if before is None:
        if shuffler is None:
            raise UsageError("ids of devices do not say for which shuffler; give --shuffler-key too")
        return Ticket(device.device, shuffler, expires).signed_by(signer)
    try:
        # Otherwise whoever hands in a ticket of their own making would be enrolled.
        before.check(signer.public)
    except SignatureError as error:
        remedy = "sign with the key that made it, or give the device's id in its place, if it is one of yours"
        raise HubbubError(f"device {before.device.hex()} is not renewed: {error}; {remedy}") from error
    if before.expires >= expires:
        last = f"the ticket of device {before.device.hex()} lasts until {at(before.expires)}"
        raise UsageError(
            f"{last}, and the new one would until {at(expires)}; give more --days, or leave the device out"
        )
    return Ticket(before.device, shuffler or before.shuffler, expires).signed_by(signer)


def devices_given(ids: Iterable[str], tickets: Path | None) -> list[bytes]:
    """Return the devices (16 bytes each) of ids in hex, and of the tickets in a file.

    Raises:
        UsageError: if an id is not one, or there is none at all.
        HubbubError: if the tickets cannot be read.
    """
    try:
        devices = [from_hex(each, DEVICE_BYTES, "a device") for each in ids]
    except SignatureError as error:
        raise UsageError(f"{error}; `hubbub enroll --json` printed it") from error
    devices += [ticket.device for ticket in read_tickets(tickets)] if tickets is not None else []
    if not devices:
        raise UsageError("name devices to revoke, or give their tickets with --tickets")
    return devices
