"""A device redeems its ticket once, by itself, and proves each submission."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import Device, Fleet, UsageError
from hubbub.protos.enrollment.tickets import Ticket, new_tickets
from hubbub.protos.identity.keys import Identity
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.admission import ENROLLED
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from support.fake_shuffler import FakeShuffler
from support.samples import START, Parties, sample_task, signed
from support.store_contents import within
from support.tickets import alone

ANSWERS = {"carrier": "AA", "delay": 12.0}
Make = Callable[..., Device]
MakeFleet = Callable[..., Fleet]


@pytest.fixture(scope="session")
def task(parties: Parties) -> Task:
    return sample_task(parties, admission=ENROLLED)


# Overridden too: the other tests' document, which lives as long as the session, must not be made of this task.
@pytest.fixture(scope="session")
def document(task: Task, parties: Parties) -> SignedTask:
    return signed(task, parties)


def tickets(parties: Parties, count: int = 1) -> list[Ticket]:
    return new_tickets(count, parties.shuffler.public, START + 10_000_000, [parties.operator])


def ticket(parties: Parties) -> bytes:
    return tickets(parties)[0].encode()


async def test_a_device_redeems_its_ticket_once_and_proves_every_submission(
    device: Make, shuffler: FakeShuffler, parties: Parties, clock: Any
) -> None:
    one = device(ticket=ticket(parties))
    await one.submit(ANSWERS)
    clock.now += 3600
    await one.submit(ANSWERS)
    assert len(shuffler.redeemed) == 1
    assert {each.credential for each in shuffler.seen} == {shuffler.seen[0].credential}
    assert len({each.proof for each in shuffler.seen}) == 2
    # Another run of the program needs the ticket no more.
    clock.now += 3600
    await device().submit(ANSWERS)
    assert len(shuffler.redeemed) == 1


async def test_a_ticket_may_come_later_as_a_file(
    device: Make, shuffler: FakeShuffler, parties: Parties, tmp_path: Path
) -> None:
    place = tmp_path / "ticket.json"
    one = device(ticket=place)
    missing = rf"no ticket: {re.escape(str(place))} does not exist; .*; the answers .* are kept"
    with pytest.raises(Refusal, match=missing) as caught:
        await one.submit(ANSWERS)
    assert caught.value.reason is Reason.NOT_ENROLLED
    assert shuffler.seen == []
    place.write_bytes(ticket(parties) + b"\n")
    assert len(await one.resend()) == 1


async def test_a_redemption_whose_answer_was_lost_is_made_again_with_the_same_secret(
    device: Make, shuffler: FakeShuffler, parties: Parties
) -> None:
    shuffler.failures.append("lost")
    await device(ticket=ticket(parties)).submit(ANSWERS)
    first, second = shuffler.redeemed
    assert first == second


async def test_a_forgotten_master_key_costs_one_call_more_and_the_same_bytes_are_sent(
    device: Make, shuffler: FakeShuffler, parties: Parties, clock: Any
) -> None:
    one = device(ticket=ticket(parties))
    await one.submit(ANSWERS)
    shuffler.generation = 2
    clock.now += 3600
    await one.submit(ANSWERS)
    assert len(shuffler.redeemed) == 2
    refused, taken = shuffler.seen[1:]
    assert (refused.id, refused.envelope) == (taken.id, taken.envelope)
    assert refused.credential != taken.credential


async def test_a_shuffler_that_takes_no_proof_is_asked_twice_and_not_for_ever(
    device: Make, shuffler: FakeShuffler, parties: Parties
) -> None:
    one = device(ticket=ticket(parties))
    shuffler.refuse = {place: Refusal(Reason.NOT_ENROLLED, "never") for place in range(9)}
    with pytest.raises(Refusal, match="never"):
        await one.submit(ANSWERS)
    assert len(shuffler.seen) == 2


async def test_a_ticket_that_was_redeemed_by_another_device_is_told(
    device: Make, shuffler: FakeShuffler, parties: Parties, tmp_path: Path
) -> None:
    shared = ticket(parties)
    await device(ticket=shared).submit(ANSWERS)
    with pytest.raises(Refusal) as caught:
        await device(ticket=shared, state=tmp_path / "other.sqlite").submit(ANSWERS)
    assert caught.value.reason is Reason.TICKET_REDEEMED
    fresh = device(ticket=ticket(parties), state=tmp_path / "other.sqlite")
    assert len(await fresh.resend()) == 1


async def test_a_later_ticket_of_the_same_device_is_redeemed_by_the_same_secret(
    device: Make, shuffler: FakeShuffler, parties: Parties, clock: Any
) -> None:
    (first,) = tickets(parties)
    await device(ticket=first.encode()).submit(ANSWERS)
    longer = alone(Ticket(first.device, first.shuffler, first.expires + 5), parties.operator)
    clock.now += 3600
    await device(ticket=longer.encode()).submit(ANSWERS)
    assert len({each.device_key for each in shuffler.redeemed}) == 1
    assert len({each.credential for each in shuffler.seen}) == 2


async def test_a_ticket_that_was_put_back_takes_nothing_from_the_one_that_followed_it(
    device: Make, shuffler: FakeShuffler, parties: Parties, clock: Any, tmp_path: Path
) -> None:
    place, (first,) = tmp_path / "ticket.json", tickets(parties)
    longer = alone(Ticket(first.device, first.shuffler, first.expires + 5), parties.operator)
    one = device(ticket=place)
    for given in (first, longer, first):
        place.write_bytes(given.encode())
        await one.submit(ANSWERS)
        clock.now += 3600
    assert [each.ticket for each in shuffler.redeemed] == [first.encode(), longer.encode()]
    assert len({each.credential for each in shuffler.seen}) == 2


async def test_a_ticket_that_somebody_else_has_signed_too_is_taken_whatever_its_end(
    device: Make, shuffler: FakeShuffler, parties: Parties, clock: Any
) -> None:
    (first,) = tickets(parties)
    await device(ticket=first.encode()).submit(ANSWERS)
    both = alone(Ticket(first.device, first.shuffler, first.expires - 5), parties.operator, Identity.generate())
    clock.now += 3600
    await device(ticket=both.encode()).submit(ANSWERS)
    assert [each.ticket for each in shuffler.redeemed] == [first.encode(), both.encode()]


@pytest.mark.parametrize("content", [b"no ticket", b"[]", b"{}"])
async def test_what_is_no_ticket_is_told_without_asking_anybody(
    device: Make, shuffler: FakeShuffler, content: bytes
) -> None:
    with pytest.raises(Refusal, match=r"the ticket is not valid: .*; ask the operator for a ticket") as caught:
        await device(ticket=content).submit(ANSWERS)
    assert caught.value.reason is Reason.BAD_TICKET
    assert shuffler.redeemed == []


async def test_wiping_leaves_the_credential(device: Make, shuffler: FakeShuffler, parties: Parties, clock: Any) -> None:
    one = device(ticket=ticket(parties))
    await one.submit(ANSWERS)
    one.wipe()
    clock.now += 3600
    await one.submit(ANSWERS)
    assert len(shuffler.redeemed) == 1


async def test_a_fleet_carries_each_devices_own_proof(
    fleet: MakeFleet, shuffler: FakeShuffler, parties: Parties
) -> None:
    held = {f"device {number}": each.encode() for number, each in enumerate(tickets(parties, 20))}
    many = [(name, ANSWERS) for name in (*held, "without a ticket")]
    summary = await fleet(tickets=held).submit_many(many, per_call=7)
    assert (summary.accepted, dict(summary.refused)) == (20, {"not_enrolled": 1})
    assert "has no ticket" in summary.messages["not_enrolled"]
    assert len({each.credential for each in shuffler.seen}) == len(shuffler.seen) == 20
    assert len(shuffler.redeemed) == 20
    late = fleet(tickets=lambda _name: ticket(parties))
    assert (await late.submit_many([("without a ticket", ANSWERS)])).accepted == 1


async def test_what_is_no_ticket_of_one_device_of_a_fleet_is_named_when_it_is_made(
    fleet: Callable[..., Fleet], parties: Parties
) -> None:
    with pytest.raises(UsageError, match="the ticket of 'b' in tickets is of type str; give a Path to name a file, or"):
        fleet(tickets={"a": ticket(parties), "b": ticket(parties).decode()})


@pytest.mark.parametrize("later", [True, False])
async def test_what_is_no_ticket_stops_no_other_device_of_a_fleet(
    fleet: Callable[..., Fleet], shuffler: FakeShuffler, parties: Parties, tmp_path: Path, later: bool
) -> None:
    """A mapping may change after it was checked, and a function may return anything."""
    (file := tmp_path / "c.ticket").write_bytes(ticket(parties))
    given: dict[str, Any] = {"a": ticket(parties), "c": file}
    one = fleet(tickets=given if later else given.get)
    given["b"] = ticket(parties).decode()
    summary = await one.submit_many([(name, ANSWERS) for name in "abc"])
    assert (summary.accepted, summary.refused) == (2, {"bad_ticket": 1})
    assert "is of type str; give a Path to name a file, or bytes" in summary.messages["bad_ticket"]


async def test_a_fleet_redeems_the_tickets_of_many_calls_together(
    fleet: MakeFleet, shuffler: FakeShuffler, parties: Parties
) -> None:
    held = {str(number): each.encode() for number, each in enumerate(tickets(parties, 45))}
    await fleet(tickets=held).submit_many([(name, ANSWERS) for name in held], per_call=3)
    assert sorted(shuffler.redeemed_together) == [15, 30]
    assert shuffler.sizes == [3] * 15


async def test_a_fleet_renews_what_a_forgotten_master_key_made(
    fleet: MakeFleet, shuffler: FakeShuffler, parties: Parties, clock: Any
) -> None:
    held = {str(number): each.encode() for number, each in enumerate(tickets(parties, 5))}
    many = [(name, ANSWERS) for name in held]
    carrier = fleet(tickets=held)
    await carrier.submit_many(many)
    shuffler.generation = 2
    clock.now += 3600
    assert (await carrier.submit_many(many)).accepted == 5
    assert len(shuffler.redeemed) == 10


def test_what_is_no_ticket_at_all_fails_where_the_device_is_made(device: Make, fleet: MakeFleet) -> None:
    with pytest.raises(
        UsageError, match=r"ticket is of type int; give a Path to name a file, or bytes for .*, or None"
    ):
        device(ticket=7)
    with pytest.raises(UsageError, match="tickets is of type int; give a mapping by device"):
        fleet(tickets=7)


async def test_credentials_belong_to_their_shuffler(device: Make, shuffler: FakeShuffler, parties: Parties) -> None:
    one = device(ticket=ticket(parties))
    await one.submit(ANSWERS)
    rows = within(one._state, lambda each: each.execute("SELECT shuffler, device FROM enrollment").fetchall())
    assert rows == [(parties.shuffler.public, "")]
    assert Identity.generate().public != parties.shuffler.public
