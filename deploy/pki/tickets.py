"""Reads and writes enrollment tickets: one or many in a file, or a file for each name of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from hubbub.deploy.files import changing, naming, save, writing
from hubbub.deploy.new_folder import new_folder
from hubbub.deploy.option_values import moment_given
from hubbub.protos.enrollment.tickets import DEVICE_BYTES, Ticket, TreeHead, countersigned, signed
from hubbub.protos.errors import HubbubError, SignatureError, UsageError
from hubbub.protos.identity.documents import from_hex
from hubbub.protos.identity.keys import Identity, write_private
from hubbub.protos.strict_json import NotJson, read_json
from hubbub.protos.task.schedule import at

ENDING = ".ticket"
"""The end of the name of a device's ticket file, in a folder of tickets."""


COMMENT = b"#"
"""What follows it on a line of a file of ids or tickets is not read."""


def write_tickets(path: Path, tickets: Sequence[Ticket]) -> None:
    """Write tickets, one a line, into a new file that only its owner can read.

    Raises:
        HubbubError: if the file exists already.
        NotWritten: if it cannot be written.
    """
    with writing(path):
        try:
            write_private(path, _written(tickets))
        except FileExistsError as error:
            raise HubbubError(f"{path} exists, and a ticket is never overwritten; name a new file") from error


def write_folder(folder: Path, tickets: Mapping[str, Sequence[Ticket]]) -> None:
    """Write tickets into a new folder, by the names of their files; after a failure the folder is removed.

    Raises:
        HubbubError: if the folder is not empty.
        NotWritten: if a file cannot be written.
    """
    with new_folder(folder):
        for name, each in tickets.items():
            write_tickets(folder / name, each)


def read_tickets(path: Path) -> list[Ticket]:
    """Return the tickets in a file, one a line.

    Raises:
        HubbubError: if a line is not a ticket, naming the file.
        OSError: if it cannot be read.
    """
    with naming(path):
        return [Ticket.decode(line) for line in path.read_bytes().splitlines() if line]


def names_in(path: Path) -> list[str]:
    """Return the names in a list, one a line; each can be the name of a file.

    Raises:
        UsageError: if one cannot, if one occurs twice, or if there is none.
    """
    names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for name in names:
        _check_name(name, f"--names {path}")
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice or not names:
        raise UsageError(
            f"--names {path}: {f'{twice!r:.80} occurs twice' if twice else 'no name'}; give each device once"
        )
    return names


def _check_name(name: str, where: str) -> None:
    if not name or name != Path(name).name or name.startswith(".") or not name.isprintable():
        raise UsageError(f"{where}: {name!r:.80} cannot be the name of a file; give names without / and .")


def countersign(path: Path, signer: Identity, now: float) -> int:
    """Add a signature to every ticket in a file, or in the files of a folder; return how many there are.

    Raises:
        HubbubError: if a line is not a ticket, was made by this signer, or has two signatures of others already; if
            tickets that were made together are missing; or if one has expired `now` (seconds since 1970).
    """
    # Two authorities may sign at once: neither signature is lost.
    with changing(path):
        found = {each: read_tickets(each) for each in _files(path)}
        with naming(path):
            over = [ticket for tickets in found.values() for ticket in tickets if ticket.expires <= now]
            if over:
                many = "1 ticket" if len(over) == 1 else f"{len(over)} tickets"
                raise HubbubError(
                    f"{many} expired, one at {at(over[0].expires)}; have the operator renew them (--renew)"
                )
            made = iter(countersigned(list(chain(*found.values())), signer))
        for each, tickets in found.items():
            # An earlier file keeps its mode, so tickets that only their owner could read stay so.
            save(each, _written(list(islice(made, len(tickets)))))
    return sum(map(len, found.values()))


def _written(tickets: Sequence[Ticket]) -> bytes:
    return b"\n".join(ticket.encode() for ticket in tickets) + b"\n"


def _files(path: Path) -> list[Path]:
    """Return the files of tickets in a folder, or the path itself if it is no folder."""
    return sorted(path.glob(f"*{ENDING}")) if path.is_dir() else [path]


@dataclass(frozen=True)
class EnrolledDevices:
    """A device that was enrolled before (16 bytes; like a ticket, never printed), and what is known of its ticket."""

    device: bytes = field(repr=False)
    ticket: Ticket | None = None
    until: int | None = None
    """When its ticket ends (seconds since 1970), if only that is known of it."""


def enrolled_in(old: Path) -> dict[str, list[EnrolledDevices]]:
    """Return the enrolled devices in files of tickets or ids (hex), one a line, by the name of the file.

    `old` is one such file, the document that `enroll --json` printed, or a folder with some. If the document names its
    devices, each has the file of its name. What follows a `#` on a line is ignored.

    Raises:
        UsageError: if there is none, or one occurs twice.
        HubbubError: if a line is neither a ticket nor an id, or a name cannot be that of a file, naming the file.
        OSError: if a file cannot be read.
    """
    found = _by_file(old)
    counts = Counter(each.device for devices in found.values() for each in devices)
    if not counts:
        raise UsageError(
            f"--renew {old} has neither tickets nor ids of devices; give a file, or a folder with NAME{ENDING}"
        )
    device, times = counts.most_common(1)[0]
    if times > 1:
        raise UsageError(f"--renew {old}: device {device.hex()} occurs {times} times; give each device once")
    return found


def _by_file(path: Path) -> dict[str, list[EnrolledDevices]]:
    """Return the devices of a file, or of the tickets in a folder, by the name of the file."""
    found: dict[str, list[EnrolledDevices]] = {}
    for each in _files(path):
        with naming(each):
            found |= _devices_in(each)
    return found


def _devices_in(path: Path) -> dict[str, list[EnrolledDevices]]:
    content = path.read_bytes()
    document = _printed(content)
    if document is None:
        # A person adds to such a list whose device it was, or why it was revoked.
        lines = (line.partition(COMMENT)[0] for line in content.split(b"\n"))
        return {path.name: _enrolled_in(lines, "line")}
    ids, names, until = [str(each) for each in document["devices"]], document.get("names"), _until(document)
    # If only some have a name, a folder of the names would leave the others out.
    if not isinstance(names, dict) or sorted(map(str, names.values())) != sorted(ids):
        return {path.name: _enrolled_in((each.encode() for each in ids), "id", until)}
    for name in names:
        _check_name(name, "names")
    return {f"{name}{ENDING}": _enrolled_in([str(device).encode()], "id", until) for name, device in names.items()}


def _until(document: Mapping[str, Any]) -> int | None:
    """Return when the tickets of the document end, if it says so."""
    try:
        return moment_given(str(document["expires"]))
    except (KeyError, UsageError):
        return None


def _printed(content: bytes) -> dict[str, Any] | None:
    """Return the document that `enroll --json` printed; None if the content is something else."""
    try:
        document = read_json(content)
    except NotJson:
        return None
    return document if isinstance(document, dict) and isinstance(document.get("devices"), list) else None


def _enrolled_in(lines: Iterable[bytes], what: str, until: int | None = None) -> list[EnrolledDevices]:
    return [_enrolled(line.strip(), f"{what} {number}", until) for number, line in enumerate(lines, 1) if line.strip()]


def _enrolled(line: bytes, where: str, until: int | None) -> EnrolledDevices:
    if not line.startswith(b"{"):
        try:
            return EnrolledDevices(_device(line.decode("ascii", "replace")), until=until)
        except SignatureError as error:
            raise HubbubError(
                f"{where} is neither a ticket nor the {2 * DEVICE_BYTES} hex digits of a device's id; write anything "
                "else behind a #"
            ) from error
    try:
        ticket = Ticket.decode(line)
    except SignatureError as error:
        raise HubbubError(f"{where}: {error}") from error
    return EnrolledDevices(ticket.device, ticket)


def _device(text: str) -> bytes:
    """Return a device (16 bytes) by its id in hex, of which other programs may have made upper case."""
    return from_hex(text.lower(), DEVICE_BYTES, "a device")


def renewed(
    found: Mapping[str, Sequence[EnrolledDevices]], signer: Identity, shuffler: bytes | None, expires: int
) -> dict[str, list[Ticket]]:
    """Return new tickets, valid until `expires`, for enrolled devices by file; the devices keep their pseudonyms.

    `shuffler` (32 bytes) is the shuffler that the tickets are for; None for those of the old tickets.

    Raises:
        UsageError: if the shuffler is not known, or an old ticket is valid for as long.
        HubbubError: if `signer` did not make an old ticket, but countersigned it at most.
    """

    @cache
    def check(head: TreeHead) -> None:
        # Without this check, anybody could be enrolled by a ticket that they made themselves.
        head.check(signer.public)

    def following(device: EnrolledDevices) -> Ticket:
        before = device.ticket
        if before is None:
            if shuffler is None:
                raise UsageError("an id of a device does not name the shuffler; give --shuffler-key too")
            _check_longer(device.device, device.until, expires)
            return Ticket(device.device, shuffler, expires)
        try:
            check(before.head)
        except SignatureError as error:
            remedy = "sign with the key that made it, or give the device's id in its place, if it is one of yours"
            raise HubbubError(f"device {before.device.hex()} is not renewed: {error}; {remedy}") from error
        _check_longer(before.device, before.expires, expires)
        return Ticket(before.device, shuffler or before.shuffler, expires)

    made = iter(signed([following(each) for each in chain(*found.values())], [signer]))
    return {name: list(islice(made, len(devices))) for name, devices in found.items()}


def _check_longer(device: bytes, before: int | None, expires: int) -> None:
    """Refuse a new ticket that ends no later than the one before: the device would stay with that one, in silence."""
    if before is not None and before >= expires:
        last = f"the ticket of device {device.hex()} is valid until {at(before)}"
        raise UsageError(f"{last}, and the new one would end {at(expires)}; give more --days, or leave the device out")


def devices_given(ids: Iterable[str], tickets: Path | None) -> list[bytes]:
    """Return the devices (16 bytes each) with these ids in hex, and those of the tickets or ids in a file or folder.

    Raises:
        UsageError: if a text is not an id, or no device is given.
        HubbubError: if the tickets cannot be read.
    """
    try:
        devices = [_device(each) for each in ids]
    except SignatureError as error:
        raise UsageError(f"{error}; `hubbub enroll --json` printed the id") from error
    if tickets is not None:
        devices += [each.device for found in _by_file(tickets).values() for each in found]
    if not devices and tickets is not None:
        raise UsageError(
            f"{tickets} has neither tickets nor ids of devices, and nothing was revoked; give a file with one a line"
        )
    if not devices:
        raise UsageError("no device is named; name devices to revoke, or give their tickets with --tickets")
    return devices
