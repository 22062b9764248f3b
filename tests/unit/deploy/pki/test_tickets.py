"""Tickets are renewed for the devices that have them, and for nobody else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hubbub.deploy.pki.tickets import EnrolledDevices, countersign, devices_given, enrolled_in, renewed, write_folder
from hubbub.protos.enrollment.tickets import Ticket, new_tickets
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.identity.keys import Identity
from hubbub.protos.task.schedule import at
from support.tickets import alone

OPERATOR, SHUFFLER, SECOND = Identity.generate(), Identity.generate(), Identity.generate()
ENDS = 1_800_000_000
TICKETS = new_tickets(3, SHUFFLER.public, ENDS, [OPERATOR])


def lines(path: Path, *content: bytes) -> Path:
    path.write_bytes(b"\n".join(content) + b"\n\n")
    return path


def anew(devices: Sequence[EnrolledDevices], shuffler: bytes | None, expires: int) -> list[Ticket]:
    """The operator's new tickets for devices of one file."""
    (made,) = renewed({"old": devices}, OPERATOR, shuffler, expires).values()
    return made


def test_a_renewed_ticket_is_for_the_same_device_and_shuffler_and_signed_anew(tmp_path: Path) -> None:
    old = lines(tmp_path / "tickets", *(each.encode() for each in TICKETS))
    (found,) = enrolled_in(old).values()
    for before, each in zip(TICKETS, anew(found, None, ENDS + 1), strict=True):
        each.check(OPERATOR.public)
        assert (each.device, each.shuffler, each.expires) == (before.device, SHUFFLER.public, ENDS + 1)
        assert each.salt != before.salt
    assert {each.shuffler for each in anew(found, SECOND.public, ENDS + 1)} == {SECOND.public}


def test_tickets_that_have_expired_are_not_countersigned(tmp_path: Path) -> None:
    file = lines(tmp_path / "tickets", *(each.encode() for each in TICKETS))
    before = file.read_bytes()
    with pytest.raises(HubbubError, match=f"3 tickets expired, one at {at(ENDS)}; have the operator renew them"):
        countersign(file, SECOND, ENDS)
    assert file.read_bytes() == before
    assert countersign(file, SECOND, ENDS - 1) == 3


def test_devices_are_named_by_ids_too(tmp_path: Path) -> None:
    ids = lines(tmp_path / "ids", *(each.device.hex().encode() for each in TICKETS))
    (found,) = enrolled_in(ids).values()
    assert [each.device for each in found] == [each.device for each in TICKETS]
    assert [each.device for each in anew(found, SHUFFLER.public, 5)] == [each.device for each in TICKETS]
    with pytest.raises(UsageError, match="does not name the shuffler; give --shuffler-key"):
        anew(found, None, 5)


def test_devices_are_named_by_the_document_that_enroll_prints(tmp_path: Path) -> None:
    ids = [each.device.hex() for each in TICKETS]
    document = tmp_path / "ids.json"
    document.write_text(json.dumps({"file": "tickets", "tickets": 3, "expires": "", "devices": ids}, indent=2))
    (found,) = enrolled_in(document).values()
    assert [each.device.hex() for each in found] == ids
    assert [each.hex() for each in devices_given((), document)] == ids


def test_a_list_of_ids_may_have_comments_and_upper_case(tmp_path: Path) -> None:
    first, second, third = (each.device.hex() for each in TICKETS)
    content = f"# revoked in March\n{first}  # kiosk 7\n\n{second.upper()}\n{third}#"
    listed = lines(tmp_path / "revoked.txt", content.encode())
    assert devices_given((), listed) == [each.device for each in TICKETS]
    assert devices_given([first.upper()], None) == [TICKETS[0].device]


def test_a_document_with_names_keeps_them_if_it_names_every_device(tmp_path: Path) -> None:
    ids = [each.device.hex() for each in TICKETS]
    document, names = tmp_path / "ids.json", [f"device {number}" for number in range(len(ids))]
    document.write_text(json.dumps({"devices": ids, "names": dict(zip(names, ids, strict=True))}))
    found = enrolled_in(document)
    assert {name: [each.device.hex() for each in devices] for name, devices in found.items()} == {
        f"{name}.ticket": [device] for name, device in zip(names, ids, strict=True)
    }
    assert [each.hex() for each in devices_given((), document)] == ids
    document.write_text(json.dumps({"devices": ids, "names": {"one": ids[0]}}))
    assert {name: len(devices) for name, devices in enrolled_in(document).items()} == {"ids.json": len(ids)}


@pytest.mark.parametrize("name", ["../evil", ".hidden", "", "a/b", "a\nb"])
def test_a_name_of_a_document_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    (document := tmp_path / "ids.json").write_text(json.dumps({"devices": ["00" * 16], "names": {name: "00" * 16}}))
    with pytest.raises(HubbubError, match=r"ids\.json: names: .* cannot be the name of a file"):
        enrolled_in(document)


def test_a_file_of_one_ticket_is_no_document_of_ids(tmp_path: Path) -> None:
    one = lines(tmp_path / "ticket.json", TICKETS[0].encode())
    assert enrolled_in(one) == {"ticket.json": [EnrolledDevices(TICKETS[0].device, TICKETS[0])]}
    assert devices_given((), one) == [TICKETS[0].device]


def test_a_folder_of_tickets_keeps_its_names(tmp_path: Path) -> None:
    write_folder(tmp_path / "old", {"olga.ticket": TICKETS[:1], "petra h.ticket": TICKETS[1:]})
    (tmp_path / "old" / "note.txt").write_text("no ticket")
    found = enrolled_in(tmp_path / "old")
    assert {name: [each.ticket for each in devices] for name, devices in found.items()} == {
        "olga.ticket": TICKETS[:1],
        "petra h.ticket": TICKETS[1:],
    }


def test_a_ticket_that_this_operator_did_not_sign_is_not_renewed() -> None:
    body = Ticket(TICKETS[0].device, SHUFFLER.public, ENDS)
    forged = Ticket(body.device, body.shuffler, ENDS, ((OPERATOR.public, bytes(64)),))
    # The last one countersigned it only.
    for ticket in (body, alone(body, SECOND), forged, alone(body, SECOND, OPERATOR)):
        with pytest.raises(HubbubError, match=r"is not renewed: .*; sign with the key that made it"):
            anew([EnrolledDevices(ticket.device, ticket)], None, ENDS + 1)


def test_a_ticket_that_would_not_last_longer_is_not_made() -> None:
    with pytest.raises(UsageError, match=r"is valid until 2027-01-15T08:00:00Z, and the new one would end 2027-01-15"):
        anew([EnrolledDevices(TICKETS[0].device, TICKETS[0])], None, ENDS)


def test_a_document_says_until_when_its_tickets_are_valid(tmp_path: Path) -> None:
    """A device keeps the longer ticket, so one that does not last longer would never be used."""
    document = tmp_path / "ids.json"
    printed = {"expires": at(ENDS), "devices": [TICKETS[0].device.hex()]}
    for members in (printed, printed | {"names": {"kiosk": TICKETS[0].device.hex()}}):
        document.write_text(json.dumps(members))
        (found,) = enrolled_in(document).values()
        with pytest.raises(UsageError, match=r"is valid until 2027-01-15T08:00:00Z, and the new one would end 2027-01"):
            anew(found, SHUFFLER.public, ENDS)
        assert [each.expires for each in anew(found, SHUFFLER.public, ENDS + 1)] == [ENDS + 1]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "neither tickets nor ids of devices"),
        ([b"0123"], "old: line 1 is neither a ticket nor the 32 hex digits of a device"),
        ([TICKETS[0].encode(), b"", b"G" * 32], "line 3 is neither a ticket nor the 32 hex digits of a device"),
        ([TICKETS[0].device.hex().encode() + b" olga"], "line 1 is neither .*; write anything else behind a #"),
        ([b"# all", b'{"body":{}}'], "line 2: .*; this version of hubbub reads hubbub-ticket/1"),
        ([TICKETS[0].encode(), TICKETS[0].device.hex().encode()], "occurs 2 times; give each device once"),
    ],
    ids=["nothing", "short", "no hex", "name beside", "no ticket", "twice"],
)
def test_what_names_no_devices_is_refused(tmp_path: Path, content: list[bytes], says: str) -> None:
    with pytest.raises(HubbubError, match=says):
        enrolled_in(lines(tmp_path / "old", *content))


def test_an_empty_folder_names_no_devices(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"give a file, or a folder with NAME\.ticket"):
        enrolled_in(tmp_path)


def test_a_device_is_not_printed() -> None:
    assert TICKETS[0].device.hex() not in repr(EnrolledDevices(TICKETS[0].device, TICKETS[0]))
    assert repr(TICKETS[0].device) not in repr(EnrolledDevices(TICKETS[0].device, TICKETS[0]))
