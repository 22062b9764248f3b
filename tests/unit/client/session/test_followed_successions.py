"""A device follows a signed succession of identities, holds to it, and follows nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.client import Device
from hubbub.client.state.enrollment import find_enrollments, keep_credentials, keep_successions, take_tickets
from hubbub.client.state.store import State
from hubbub.protos.enrollment.credentials import CREDENTIAL_BYTES, Credential
from hubbub.protos.enrollment.tickets import new_tickets
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.protos.task.schedule import prepared_from
from hubbub.protos.task.task import Task
from support.fake_shuffler import Clock, FakeShuffler
from support.messages import NOT_SIGNED_BY
from support.samples import Parties
from support.store_contents import within

ANSWERS = {"carrier": "AA", "delay": 5}
SECOND, THIRD = Identity.generate(), Identity.generate()


def succession(task: Task, parties: Parties, new: Identity = SECOND, role: Role = Role.SHUFFLER) -> Succession:
    """One that begins with round 1, and is signed by its three."""
    old = parties.of(role)
    begins = prepared_from(task.schedule, 1)
    made = Succession(role, old.public, new.public, parties.operator.public, begins)
    return made.signed_by(old).signed_by(new).signed_by(parties.operator)


def serve(shuffler: FakeShuffler, round_number: int, signer: Identity, *successions: Succession) -> None:
    """Have the shuffler's key of a round signed by that identity, and these successions shown beside it."""
    before = shuffler.keys(round_number)[2]
    known = KeyRecord.read(before.shuffler, shuffler.parties.shuffler.public)
    documents = tuple(each.encode() for each in successions)
    shuffler.serve_keys(round_number, KeySet(known.signed_by(signer), before.analyzer, documents))


@pytest.fixture
def late(clock: Clock, task: Task) -> Clock:
    """A clock in round 1."""
    clock.now = task.schedule.opens(1) + 100.0
    return clock


async def test_a_device_follows_a_succession_and_sends_to_the_round_s_new_signer(
    device: Callable[..., Device], shuffler: FakeShuffler, clock: Clock, task: Task, parties: Parties
) -> None:
    follow = succession(task, parties)
    one = device()
    serve(shuffler, 0, parties.shuffler, follow)
    assert (await one.submit(ANSWERS)).round == 0
    clock.now = task.schedule.opens(1) + 100.0
    serve(shuffler, 1, SECOND, follow)
    assert (await one.submit(ANSWERS)).round == 1
    assert len(shuffler.held) == 2


@pytest.mark.usefixtures("late")
async def test_a_succession_that_was_followed_is_not_undone(
    device: Callable[..., Device], shuffler: FakeShuffler, clock: Clock, task: Task, parties: Parties
) -> None:
    serve(shuffler, 1, SECOND, succession(task, parties))
    assert (await device().submit(ANSWERS)).round == 1
    clock.now = task.schedule.opens(2) + 100.0
    # The state file remembers, whatever program opens it next: hidden by a thief of the old key, or another one shown.
    with pytest.raises(SignatureError, match=f"the key record's {NOT_SIGNED_BY}"):
        await device().submit(ANSWERS)
    serve(shuffler, 2, THIRD, succession(task, parties, THIRD))
    with pytest.raises(SuccessionError, match="is a fork"):
        await device().submit(ANSWERS)
    shuffler.rotate(2)
    serve(shuffler, 2, SECOND)
    assert (await device().submit(ANSWERS)).round == 2


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("missing", ["old", "new", "witness"])
async def test_what_is_not_signed_by_all_three_is_refused_and_nothing_is_sent(
    device: Callable[..., Device], shuffler: FakeShuffler, task: Task, parties: Parties, missing: str
) -> None:
    follow = succession(task, parties)
    unsigned = [pair for pair in follow.signatures if pair[0] != getattr(follow, missing)]
    serve(shuffler, 1, SECOND, replace(follow, signatures=tuple(unsigned)))
    with pytest.raises(SuccessionError, match="is not signed by"):
        await device().submit(ANSWERS)
    assert shuffler.held == {}
    # What was refused is not remembered.
    shuffler.rotate(1)
    assert (await device().resend())[0].round == 1


@pytest.mark.usefixtures("late")
async def test_a_new_signer_without_a_succession_is_refused(
    device: Callable[..., Device], shuffler: FakeShuffler
) -> None:
    serve(shuffler, 1, SECOND)
    with pytest.raises(SignatureError, match=f"the key record's {NOT_SIGNED_BY}"):
        await device().submit(ANSWERS)
    assert shuffler.held == {}


@pytest.mark.usefixtures("late")
async def test_a_stolen_key_signs_no_round_that_its_successor_signs(
    device: Callable[..., Device], shuffler: FakeShuffler, task: Task, parties: Parties
) -> None:
    serve(shuffler, 1, parties.shuffler, succession(task, parties))
    with pytest.raises(SignatureError, match=f"the key record's {NOT_SIGNED_BY}"):
        await device().submit(ANSWERS)


@pytest.mark.usefixtures("late")
async def test_successions_of_other_deployments_do_not_matter(
    device: Callable[..., Device], shuffler: FakeShuffler, task: Task
) -> None:
    serve(shuffler, 1, shuffler.parties.shuffler, succession(task, Parties.generate()))
    assert (await device().submit(ANSWERS)).round == 1


def test_an_enrollment_lasts_when_the_shuffler_s_identity_changes(task: Task, parties: Parties, tmp_path: Path) -> None:
    state = State(tmp_path / "state.db")
    (ticket,) = new_tickets(1, parties.shuffler.public, 2_000_000_000, [parties.operator])
    before, after = parties.shuffler.public, SECOND.public
    within(state, lambda connection: take_tickets(connection, before, {"kiosk": ticket}, os.urandom))
    assert within(state, lambda connection: find_enrollments(connection, after, ["kiosk"])) == {}
    within(state, lambda connection: keep_successions(connection, [succession(task, parties)]))
    held = within(state, lambda connection: find_enrollments(connection, after, ["kiosk"]))
    assert held == within(state, lambda connection: find_enrollments(connection, before, ["kiosk"]))
    credential = Credential(bytes(CREDENTIAL_BYTES), bytes(32))
    kept = {"kiosk": (ticket.encode(), credential)}
    within(state, lambda connection: keep_credentials(connection, after, held, kept))
    found = within(state, lambda connection: find_enrollments(connection, before, ["kiosk"]))
    assert found["kiosk"].credential == credential
    state.close()
