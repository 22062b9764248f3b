"""A device that holds a credential goes on with it until it ends, whatever becomes of the ticket it is given next."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from unit.client.session.test_followed_successions import SECOND, succession

from hubbub.client import Device, Fleet
from hubbub.client.enrollment.renew import objection
from hubbub.client.state.enrollment import (
    StoredEnrollment,
    find_enrollments,
    keep_credentials,
    keep_successions,
    take_tickets,
)
from hubbub.client.state.store import State
from hubbub.protos.enrollment.credentials import KEY_BYTES, Credential, CredentialId, authority_tag
from hubbub.protos.enrollment.tickets import Ticket, new_tickets
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Identity
from hubbub.protos.messages import Redemption
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.admission import ENROLLED
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from support.fake_shuffler import Clock, FakeShuffler
from support.messages import ANSWERS_KEPT
from support.samples import START, Parties, sample_task, signed
from support.store_contents import within
from support.tickets import alone, also_by

ANSWERS = {"carrier": "AA", "delay": 12.0}
ROUND = 3600
ENDS = START + 5 * ROUND
AUTHORITY = Identity.generate()
NO_TICKETS = [b"no ticket", b"[]", b"\xff", b"x" * 2000]
Make = Callable[..., Device]
MakeFleet = Callable[..., Fleet]


@pytest.fixture(autouse=True)
def warnings_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever level a service that ran in this process before has set."""
    caplog.set_level("WARNING", logger="hubbub.client.tickets")


@pytest.fixture(scope="session")
def task(parties: Parties) -> Task:
    made = sample_task(parties, admission=ENROLLED)
    return replace(made, schedule=replace(made.schedule, rounds=8))


# Overridden too: the other tests' document, which lives as long as the session, must not be made of this task.
@pytest.fixture(scope="session")
def document(task: Task, parties: Parties) -> SignedTask:
    return signed(task, parties)


@pytest.fixture
def first(parties: Parties) -> Ticket:
    (made,) = new_tickets(1, parties.shuffler.public, ENDS, [parties.operator])
    return made


def longer(ticket: Ticket, *signers: Identity, shuffler: bytes | None = None, seconds: int = 10_000_000) -> Ticket:
    return alone(Ticket(ticket.device, shuffler or ticket.shuffler, ticket.expires + seconds), *signers)


class Held:
    """A device with a credential, the file of its ticket, and what was logged of it."""

    def __init__(self, device: Make, place: Path, clock: Clock, log: pytest.LogCaptureFixture) -> None:
        self.device = device(ticket=place)
        self.place = place
        self._clock = clock
        self._log = log

    async def given(self, content: bytes) -> None:
        """Submit in the next round, with this ticket."""
        self.place.write_bytes(content)
        await self.goes_on()

    async def goes_on(self) -> None:
        """Submit in the next round."""
        self._clock.now += ROUND
        await self.device.submit(ANSWERS)

    def enrollment(self) -> StoredEnrollment:
        """Return what its state file holds."""
        shuffler = self.device.task.identities.shuffler
        return within(self.device._state, lambda connection: find_enrollments(connection, shuffler, [""]))[""]

    def warnings(self) -> list[str]:
        return [each.getMessage() for each in self._log.records if each.name == "hubbub.client.tickets"]


@pytest.fixture
async def held(
    device: Make,
    shuffler: FakeShuffler,
    first: Ticket,
    tmp_path: Path,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> Held:
    """A device that has answered round 0 with the credential of its first ticket."""
    made = Held(device, tmp_path / "kiosk.ticket", clock, caplog)
    made.place.write_bytes(first.encode())
    await made.device.submit(ANSWERS)
    assert len(shuffler.held) == 1
    return made


def credentials(shuffler: FakeShuffler) -> list[bytes]:
    return [each.credential for each in shuffler.seen]


@pytest.mark.parametrize(
    "failure",
    [
        *(
            Refusal(reason, "not this one")
            for reason in (
                *(Reason.OVERLOADED, Reason.NOT_READY, Reason.BAD_TICKET),
                *(Reason.TICKET_EXPIRED, Reason.TICKET_REDEEMED, Reason.REVOKED),
            )
        ),
        RuntimeError("no answer"),
    ],
    ids=lambda failure: failure.reason.value if isinstance(failure, Refusal) else "unreachable",
)
async def test_a_new_ticket_that_is_not_taken_costs_nothing_and_is_tried_again(
    held: Held, shuffler: FakeShuffler, parties: Parties, first: Ticket, failure: Refusal | Exception
) -> None:
    before, after = held.enrollment(), longer(first, parties.operator)
    shuffler.untaken[after.encode()] = failure
    await held.given(after.encode())
    await held.goes_on()
    assert len(set(credentials(shuffler))) == 1
    assert len(shuffler.held) == 3
    # Asked for once a submission: a shuffler that is asked without end would leave no time to submit.
    assert [each.ticket for each in shuffler.redeemed] == [first.encode(), after.encode(), after.encode()]
    assert held.enrollment() == before
    (warning,) = held.warnings()
    assert "new ticket not taken" in warning
    assert "kiosk" not in warning
    assert first.device.hex() not in warning
    del shuffler.untaken[after.encode()]
    await held.goes_on()
    assert len(set(credentials(shuffler))) == 2
    assert (held.enrollment().ticket, held.enrollment().secret) == (after.encode(), before.secret)
    assert len(held.warnings()) == 1


async def test_a_shuffler_that_is_away_takes_nothing(
    held: Held, device: Make, shuffler: FakeShuffler, parties: Parties, first: Ticket, clock: Clock
) -> None:
    before, after = held.enrollment(), longer(first, parties.operator)
    clock.now += ROUND
    with pytest.raises(Unreachable, match=ANSWERS_KEPT):
        await device(ticket=after.encode(), shuffler="127.0.0.1:1").submit(ANSWERS)
    assert held.enrollment() == before
    assert len(await held.device.resend()) == 1
    assert len(set(credentials(shuffler))) == 1


async def test_another_shufflers_ticket_is_not_shown_to_this_one(
    held: Held, shuffler: FakeShuffler, parties: Parties, first: Ticket
) -> None:
    wrong = longer(first, parties.operator, shuffler=SECOND.public)
    await held.given(wrong.encode())
    await held.goes_on()
    assert [each.ticket for each in shuffler.redeemed] == [first.encode()]
    (warning,) = held.warnings()
    assert "bad_ticket (1): the ticket is for another shuffler" in warning
    # The next wrong one is told of too.
    await held.given(alone(replace(wrong, device=os.urandom(16)), parties.operator).encode())
    assert len(held.warnings()) == 2
    assert len(shuffler.held) == 4


async def test_a_ticket_for_the_identity_that_follows_is_taken(
    held: Held, shuffler: FakeShuffler, parties: Parties, first: Ticket, task: Task
) -> None:
    follow = succession(task, parties)
    within(held.device._state, lambda connection: keep_successions(connection, [follow]))
    after = longer(first, parties.operator, shuffler=SECOND.public)
    await held.given(after.encode())
    assert [each.ticket for each in shuffler.redeemed] == [first.encode(), after.encode()]
    assert held.enrollment().ticket == after.encode()
    assert held.warnings() == []


async def test_a_ticket_that_lacks_the_countersignature_of_the_one_before_is_not_taken(
    held: Held, shuffler: FakeShuffler, parties: Parties, first: Ticket
) -> None:
    both = longer(first, parties.operator, AUTHORITY)
    await held.given(both.encode())
    await held.given(longer(both, parties.operator).encode())
    assert len(shuffler.redeemed) == 2
    assert held.enrollment().ticket == both.encode()
    (warning,) = held.warnings()
    assert "not_countersigned (1)" in warning
    assert "get it countersigned" in warning
    await held.given(longer(both, parties.operator, AUTHORITY).encode())
    assert len(shuffler.redeemed) == 3
    assert len(shuffler.held) == 4


@pytest.mark.parametrize(
    ("signed_before", "signed_now", "same_device", "needed", "objects"),
    [
        (True, False, True, True, True),
        (True, False, False, True, True),
        (True, False, True, False, True),
        # Another device, in a task that needs no second authority: the one before may have been revoked.
        (True, False, False, False, False),
        (True, True, True, True, False),
        (False, False, True, True, False),
        (False, True, True, True, False),
    ],
)
def test_what_a_countersignature_is_worth(
    parties: Parties,
    first: Ticket,
    tmp_path: Path,
    signed_before: bool,
    signed_now: bool,
    same_device: bool,
    needed: bool,
    objects: bool,
) -> None:
    before = also_by(first, AUTHORITY) if signed_before else first
    new = longer(first, *([parties.operator, AUTHORITY] if signed_now else [parties.operator]))
    new = new if same_device else replace(new, device=os.urandom(16))
    found = Credential(
        CredentialId(1, ENDS, authority_tag(AUTHORITY.public if signed_before else None), bytes(16)).encode(), b""
    )
    enrollment = StoredEnrollment(before.encode(), bytes(KEY_BYTES), found)
    state = State(tmp_path / "state.db")
    got = within(state, lambda connection: objection(connection, new, enrollment, AUTHORITY.public if needed else None))
    state.close()
    assert (got is not None and got.reason is Reason.NOT_COUNTERSIGNED) is objects


@pytest.mark.parametrize("content", NO_TICKETS, ids=["text", "another document", "no text", "long"])
async def test_what_is_no_ticket_shuts_nobody_out_who_has_a_credential(
    held: Held, shuffler: FakeShuffler, clock: Clock, content: bytes
) -> None:
    await held.given(content)
    await held.goes_on()
    assert len(shuffler.held) == 3
    assert len(shuffler.redeemed) == 1
    (warning,) = held.warnings()
    assert "bad_ticket (1)" in warning
    # It does from the moment on at which the credential ends.
    clock.now = ENDS
    with pytest.raises(Refusal, match=r"ask the operator for a ticket; the answers .* are kept") as caught:
        await held.device.submit(ANSWERS)
    assert caught.value.reason is Reason.BAD_TICKET
    assert len(shuffler.held) == 3


async def test_a_file_that_cannot_be_read_is_told_of_without_its_name(
    held: Held, device: Make, shuffler: FakeShuffler, tmp_path: Path
) -> None:
    held.place.unlink()
    held.place.mkdir()
    await held.goes_on()
    assert len(shuffler.held) == 2
    (warning,) = held.warnings()
    assert "cannot be read (Is a directory)" in warning
    assert "kiosk" not in warning
    with pytest.raises(Refusal, match="cannot be read") as caught:
        await device(ticket=held.place, state=tmp_path / "other.sqlite").submit(ANSWERS)
    assert caught.value.reason is Reason.BAD_TICKET


async def test_after_a_credentials_end_a_new_ticket_is_needed_and_waited_for(
    held: Held, shuffler: FakeShuffler, parties: Parties, first: Ticket, clock: Clock
) -> None:
    before, after = held.enrollment(), longer(first, parties.operator)
    shuffler.untaken[after.encode()] = Refusal(Reason.OVERLOADED, "come again")
    held.place.write_bytes(after.encode())
    clock.now = ENDS
    with pytest.raises(Refusal, match="come again") as caught:
        await held.device.submit(ANSWERS)
    assert caught.value.reason is Reason.OVERLOADED
    assert len(shuffler.redeemed) > 2
    assert len(shuffler.held) == 1
    assert held.enrollment() == before
    assert held.warnings() == []
    shuffler.untaken.clear()
    assert len(await held.device.resend()) == 1
    assert held.enrollment().ticket == after.encode()


async def test_two_programs_that_share_a_state_file_take_one_new_ticket(
    held: Held, device: Make, shuffler: FakeShuffler, parties: Parties, first: Ticket, clock: Clock
) -> None:
    after = longer(first, parties.operator)
    held.place.write_bytes(after.encode())
    clock.now += ROUND
    one, other = await asyncio.gather(held.device.submit(ANSWERS), device(ticket=held.place).submit(ANSWERS))
    assert one.submission_id == other.submission_id
    assert len({each.device_key for each in shuffler.redeemed}) == 1
    assert held.enrollment().ticket == after.encode()
    assert held.warnings() == []
    asked = len(shuffler.redeemed)
    await held.goes_on()
    assert len(shuffler.redeemed) == asked


async def test_a_ticket_read_before_another_program_redeemed_a_longer_one_is_left(
    fleet: MakeFleet, shuffler: FakeShuffler, parties: Parties, first: Ticket, tmp_path: Path
) -> None:
    after, at = longer(first, parties.operator), parties.shuffler.public

    def read(device: str) -> bytes:
        # Meanwhile the other program goes through all of its steps.
        other = State(tmp_path / "device.sqlite")
        within(other, lambda connection: take_tickets(connection, at, {device: after}, os.urandom))
        before = within(other, lambda connection: find_enrollments(connection, at, [device]))
        got = shuffler.redeem(Redemption(after.encode(), before[device].secret))
        assert isinstance(got, Credential)
        kept = {device: (after.encode(), got)}
        within(other, lambda connection: keep_credentials(connection, at, before, kept))
        other.close()
        return first.encode()

    assert (await fleet(tickets=read).submit_many([("kiosk", ANSWERS)])).accepted == 1
    assert shuffler.redeemed == []
    assert CredentialId.decode(shuffler.seen[0].credential).expires == after.expires


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    made = State(tmp_path / "state.db")
    yield made
    made.close()


def test_what_another_program_got_meanwhile_stays(state: State, parties: Parties, first: Ticket) -> None:
    shuffler, after = parties.shuffler.public, longer(first, parties.operator)
    old, new = (Credential(bytes([each]) * 44, bytes(32)) for each in (1, 2))

    def found() -> dict[str, StoredEnrollment]:
        return within(state, lambda connection: find_enrollments(connection, shuffler, ["kiosk"]))

    def keep(before: dict[str, StoredEnrollment], ticket: Ticket, credential: Credential) -> None:
        got = {"kiosk": (ticket.encode(), credential)}
        within(state, lambda connection: keep_credentials(connection, shuffler, before, got))

    def take(ticket: Ticket) -> None:
        within(state, lambda connection: take_tickets(connection, shuffler, {"kiosk": ticket}, os.urandom))

    take(first)
    begun = found()
    take(after)
    assert found()["kiosk"].secret == begun["kiosk"].secret
    # What was got for the first ticket comes when the second is there already.
    keep(begun, first, old)
    assert found()["kiosk"] == replace(begun["kiosk"], ticket=after.encode())
    keep(found(), after, new)
    # A program that looked before there was a credential takes nothing from it.
    take(first)
    keep(begun, first, old)
    assert found()["kiosk"] == StoredEnrollment(after.encode(), begun["kiosk"].secret, new)


async def test_a_fleet_warns_once_for_all_its_devices_and_carries_what_each_holds(
    fleet: MakeFleet, shuffler: FakeShuffler, parties: Parties, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"kiosk {number}" for number in range(5)]
    given = dict(zip(names, new_tickets(5, parties.shuffler.public, ENDS, [parties.operator]), strict=True))
    held = {name: each.encode() for name, each in given.items()}
    many = [(name, ANSWERS) for name in names]
    carrier = fleet(tickets=held)
    await carrier.submit_many(many)
    for name in names[:3]:
        held[name] = longer(given[name], parties.operator).encode()
    for name in names[:2]:
        shuffler.untaken[held[name]] = Refusal(Reason.TICKET_REDEEMED, "another device has it")
    held[names[4]] = b"no ticket"
    clock.now += ROUND
    assert (await carrier.submit_many([*many, ("unknown", ANSWERS)])).accepted == 5
    lines = sorted(each.getMessage() for each in caplog.records if each.name == "hubbub.client.tickets")
    assert ["ticket_redeemed (2)" in lines[1], "bad_ticket (1)" in lines[0], len(lines)] == [True, True, 2]
    assert "kiosk" not in "".join(lines)
    before, after = shuffler.seen[:5], shuffler.seen[5:]
    assert len({each.credential for each in after} - {each.credential for each in before}) == 1
