"""A ticket gives one credential, a credential one pseudonym a round, and nobody without one any."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pytest
from unit.shuffler.world import MINIMUM, World, reason

from hubbub.protos.enrollment.credentials import Credential
from hubbub.protos.enrollment.tickets import LONGEST_LIST, Ticket, TreeHead, new_tickets
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.messages import Answer, CredentialAction, KeyState, Receipt, Redemption, RoundState, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy, Mode
from hubbub.protos.task.schedule import prepared_from
from hubbub.protos.task.task import followed
from hubbub.shuffler.admit.enrollment import IN_THREAD, KNOWN_LISTS, EnrollmentControl, Rate
from hubbub.shuffler.records import ANY_ROUND
from hubbub.shuffler.stores.sqlite.enrollment import KEPT_SECONDS
from support.samples import START, Parties
from support.store_contents import known_in
from support.tickets import alone, also_by, also_made_by

LATER = START + 10_000_000
SECOND = Identity.generate()


@dataclass
class Kiosk:
    """A device with a ticket and a secret of its own."""

    world: World
    ticket: Ticket
    secret: bytes
    credential: Credential | None = None

    @property
    def redemption(self) -> Redemption:
        return Redemption(self.ticket.encode(), self.secret)

    async def enroll(self) -> Credential:
        (answer,) = await self.world.enrollment.enroll([self.redemption])
        assert isinstance(answer, Credential)
        self.credential = answer
        return answer

    async def refused(self) -> Reason:
        (answer,) = await self.world.enrollment.enroll([self.redemption])
        assert isinstance(answer, Refusal)
        return answer.reason

    async def seal(self, round_number: int = 0) -> Submission:
        (submission,) = await self.world.seal([(0, 0)], round_number)
        return await self.prove(submission, round_number)

    async def prove(self, submission: Submission, round_number: int = 0) -> Submission:
        assert self.credential is not None
        return self.credential.proven(await self.world.destination(round_number), submission)

    async def send(self) -> Answer:
        (answer,) = await self.world.send([await self.seal()])
        return answer


def kiosk(world: World, expires: int = LATER, signers: Sequence[Identity] = ()) -> Kiosk:
    signers = signers or [world.parties.operator]
    (ticket,) = new_tickets(1, world.parties.shuffler.public, expires, signers)
    return Kiosk(world, ticket, os.urandom(32))


async def enrolled(world: World, count: int = 1, expires: int = LATER) -> list[Kiosk]:
    kiosks = [kiosk(world, expires) for _ in range(count)]
    for each in kiosks:
        await each.enroll()
    return kiosks


@asynccontextmanager
async def running(folder: Path, stated: AdmissionPolicy) -> AsyncIterator[World]:
    world = World(folder, admission=stated)
    await world.start()
    try:
        yield world
    finally:
        await world.stop()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running(tmp_path, ENROLLED) as found:
        yield found


# Many tickets in one call


async def test_many_tickets_are_answered_in_their_order(world: World) -> None:
    kiosks = [kiosk(world) for _ in range(2 * IN_THREAD)]
    forged = kiosk(world, signers=[SECOND])
    answers = await world.enrollment.enroll([each.redemption for each in (*kiosks[:IN_THREAD], forged, *kiosks)])
    assert [reason(answer) for answer in answers if isinstance(answer, Refusal)] == [Reason.BAD_TICKET]
    credentials = [answer.id for answer in answers if isinstance(answer, Credential)]
    # Those that came twice got the same credential both times.
    assert credentials[:IN_THREAD] == credentials[IN_THREAD : 2 * IN_THREAD]
    assert len(set(credentials)) == len(kiosks)


async def test_who_is_revoked_while_tickets_are_checked_is_admitted_no_more(world: World) -> None:
    kiosks = [kiosk(world) for _ in range(2 * IN_THREAD)]
    enrolling = asyncio.create_task(world.enrollment.enroll([each.redemption for each in kiosks]))
    # The check has begun: it is in a thread.
    await asyncio.sleep(0)
    await world.enrollment.manage(CredentialAction.REVOKE, [each.ticket.device for each in kiosks])
    for each, answer in zip(kiosks, await enrolling, strict=True):
        if isinstance(answer, Credential):
            each.credential = answer
            assert reason(await each.send()) is Reason.REVOKED
        else:
            assert reason(answer) is Reason.REVOKED


# Submissions


async def test_a_flood_of_anonymous_submissions_takes_nothing_and_is_counted(world: World) -> None:
    (device,) = await enrolled(world)
    good = await device.seal()
    flood = await world.seal([(1, 1)] * 9)
    forged = [
        replace(flood[0], credential=good.credential, proof=good.proof),
        replace(flood[1], credential=good.credential, proof=os.urandom(16)),
        replace(flood[2], credential=good.credential[:-1], proof=good.proof),
        replace(flood[3], credential=b"\0\0\0\x63" + good.credential[4:], proof=good.proof),
        replace(flood[4], credential=os.urandom(44), proof=os.urandom(16)),
        *flood[5:],
    ]
    answers = await world.send([*forged, good])
    assert [reason(answer) for answer in answers[:-1]] == [Reason.NOT_ENROLLED] * 9
    assert answers[-1] == Receipt(good.id, 0)
    status = await world.status()
    assert (status.submissions, dict(status.refusals)) == (1, {"not_enrolled": 9})


async def test_a_device_has_one_submission_a_round(world: World) -> None:
    (device,) = await enrolled(world)
    first = await device.seal()
    assert await world.send([first, first]) == [Receipt(first.id, 0)] * 2
    again = await device.send()
    assert reason(again) is Reason.ID_CONFLICT
    assert "each device submits once" in str(again)
    one, two = await device.seal(), await device.seal()
    assert [reason(answer) for answer in await world.send([one, two])] == [Reason.ID_CONFLICT] * 2
    assert (await world.status()).submissions == 1


async def test_two_of_one_device_in_one_call_are_one(world: World) -> None:
    (device,) = await enrolled(world)
    one, two = await device.seal(), await device.seal()
    first, second = await world.send([one, two])
    assert first == Receipt(one.id, 0)
    assert reason(second) is Reason.ID_CONFLICT


async def test_a_proof_is_for_one_round_and_these_bytes(world: World) -> None:
    (device,) = await enrolled(world)
    good, other = await device.seal(), await device.seal()
    swapped = replace(good, envelope=other.envelope)
    assert [reason(answer) for answer in await world.send([swapped])] == [Reason.NOT_ENROLLED]
    elsewhere = replace(await world.destination(), key_set_hash=bytes(32))
    assert [reason(answer) for answer in await world.send([good], elsewhere)] == [Reason.NOT_ENROLLED]


async def test_a_whole_round_of_enrolled_devices_is_released_and_says_so(world: World) -> None:
    for device in await enrolled(world, MINIMUM):
        assert isinstance(await device.send(), Receipt)
    await world.cut()
    await world.over()
    assert {record.admission for record in world.analyzer.records.values()} == {"enrolled"}
    assert [record.reports for record in world.analyzer.records.values()] == [MINIMUM] * 2


async def test_an_open_task_takes_whoever_comes_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, OPEN) as world:
        await world.fill()
        await world.cut()
        await world.over()
        assert {record.admission for record in world.analyzer.records.values()} == {"open"}


# What is stored


async def test_beside_reports_is_nothing_that_names_a_device_and_nothing_at_all_once_erased(world: World) -> None:
    kiosks = await enrolled(world, MINIMUM)
    submissions = [await each.seal() for each in kiosks]
    await world.send(submissions)
    round_ = world.found()
    assert round_ is not None
    assert round_.keys is not None
    pseudonyms = {pseudonym for pseudonym, _digest in known_in(world.store, round_)}
    assert len(pseudonyms) == MINIMUM
    disk = world.bytes_on_disk()
    for submission in submissions:
        assert submission.credential not in disk
        assert submission.proof not in disk
        assert submission.id not in disk
        assert submission.credential[-16:] not in pseudonyms
    for each in kiosks:
        assert each.secret not in disk
        assert each.credential is not None
        assert each.credential.key not in disk
    assert round_.keys.pseudonym_key in disk
    await world.cut()
    await world.over()
    after = world.bytes_on_disk()
    assert round_.keys.pseudonym_key not in after
    assert not any(pseudonym in after for pseudonym in pseudonyms)


async def test_a_killed_shuffler_knows_tickets_keys_pseudonyms_and_revocations_again(world: World) -> None:
    one, two, three = await enrolled(world, 3)
    sent = await one.seal()
    await world.send([sent])
    before = await two.enroll()
    await world.enrollment.manage(CredentialAction.REVOKE, [three.ticket.device])
    await world.kill()
    await world.start()
    assert await world.send([sent]) == [Receipt(sent.id, 0)]
    assert reason(await one.send()) is Reason.ID_CONFLICT
    assert await two.enroll() == before
    assert isinstance(await two.send(), Receipt)
    assert reason(await three.send()) is Reason.REVOKED


# Tickets


async def test_a_ticket_gives_one_credential_to_one_device(world: World) -> None:
    device = kiosk(world)
    credential = await device.enroll()
    assert await device.enroll() == credential
    copy = replace(device, secret=os.urandom(32))
    assert await copy.refused() is Reason.TICKET_REDEEMED
    together = await world.enrollment.enroll([copy.redemption, device.redemption])
    assert reason(together[0]) is Reason.TICKET_REDEEMED  # type: ignore[arg-type] - a credential is no answer of a round
    assert together[1] == credential
    assert (await world.store.tally(b"", ANY_ROUND))["ticket_redeemed"] == 2


async def test_two_devices_with_one_ticket_in_one_call_are_one(world: World) -> None:
    device = kiosk(world)
    copy = replace(device, secret=os.urandom(32))
    first, second = await world.enrollment.enroll([device.redemption, copy.redemption])
    assert isinstance(first, Credential)
    assert isinstance(second, Refusal)
    assert second.reason is Reason.TICKET_REDEEMED


async def test_tickets_that_do_not_hold_are_refused(world: World) -> None:
    good = kiosk(world)
    stranger = kiosk(world, signers=[SECOND])
    (elsewhere,) = new_tickets(1, SECOND.public, LATER, [world.parties.operator])
    forged = replace(good.ticket, device=os.urandom(16))
    bad_second = kiosk(world, signers=[world.parties.operator, SECOND])
    signatures = tuple(
        (signer, bytes(64) if signer == SECOND.public else by) for signer, by in bad_second.ticket.signatures
    )
    # A second authority countersigns; it does not make tickets, nor does the operator countersign.
    made = also_made_by(good.ticket, SECOND)
    countersigned = also_by(replace(good.ticket, signatures=()), world.parties.operator)
    bad = (stranger.ticket, elsewhere, forged, replace(bad_second.ticket, signatures=signatures), made, countersigned)
    for ticket in bad:
        assert await replace(good, ticket=ticket).refused() is Reason.BAD_TICKET
    (garbage,) = await world.enrollment.enroll([Redemption(b"no ticket", bytes(32))])
    assert isinstance(garbage, Refusal)
    assert garbage.reason is Reason.BAD_TICKET
    assert await kiosk(world, expires=int(world.clock.now)).refused() is Reason.TICKET_EXPIRED
    assert await world.store.redeemed() == 0


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """How often the signatures of each list are checked, by its root."""
    counted: Counter[bytes] = Counter()
    check = TreeHead.check

    def counting(head: TreeHead, signer: bytes) -> None:
        counted[head.root] += 1
        check(head, signer)

    monkeypatch.setattr(TreeHead, "check", counting)
    return counted


def listed(world: World, count: int, *others: Identity) -> list[Kiosk]:
    """Devices whose tickets were made together."""
    made = new_tickets(count, world.parties.shuffler.public, LATER, [world.parties.operator, *others])
    return [Kiosk(world, ticket, os.urandom(32)) for ticket in made]


async def test_the_signatures_of_a_list_are_checked_once(world: World, checks: Counter[bytes]) -> None:
    world.enrollment._rate._left = 2.0 * LONGEST_LIST
    devices = listed(world, LONGEST_LIST + 1)
    answers = await world.enrollment.enroll([each.redemption for each in devices[:-1]])
    assert all(isinstance(answer, Credential) for answer in answers)
    await devices[-1].enroll()
    assert checks == {each.ticket.head.root: 1 for each in devices}
    # A list of one is not remembered: nobody else comes with it.
    (single,) = (each for each in devices if each.ticket.inclusion.size == 1)
    await single.enroll()
    assert checks[single.ticket.head.root] == 2


async def test_a_list_that_is_known_admits_none_but_its_own_tickets(world: World, checks: Counter[bytes]) -> None:
    """And what was refused is checked again, since nothing of it is remembered."""
    one, other, third = listed(world, 3, SECOND)
    await one.enroll()
    ticket = other.ticket
    wrong = tuple((signer, bytes(64)) for signer, _signature in ticket.signatures)
    half = tuple((signer, bytes(64) if signer == SECOND.public else by) for signer, by in ticket.signatures)
    for forged in (
        replace(ticket, device=os.urandom(16)),
        replace(ticket, expires=LATER + 1),
        replace(ticket, salt=os.urandom(16)),
        replace(ticket, inclusion=third.ticket.inclusion),
        replace(ticket, signatures=wrong),
        replace(ticket, signatures=half),
        replace(ticket, signatures=()),
        replace(ticket, signatures=tuple(each for each in ticket.signatures if each[0] == SECOND.public)),
    ):
        for _ in range(2):
            assert await replace(other, ticket=forged).refused() is Reason.BAD_TICKET
    assert await world.store.redeemed() == 1
    # Without the countersignature it is a valid ticket of the operator, and gives another credential.
    plain = tuple(each for each in ticket.signatures if each[0] != SECOND.public)
    credential = await replace(other, ticket=replace(ticket, signatures=plain)).enroll()
    assert await other.enroll() != credential


async def test_only_so_many_lists_are_remembered(
    world: World, checks: Counter[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.enrollment._check_known.cache_info().maxsize == KNOWN_LISTS
    monkeypatch.setattr(world.enrollment, "_check_known", lru_cache(2)(world.enrollment._check_head))
    lists = [listed(world, 2) for _ in range(3)]
    for place in range(2):
        for devices in lists:
            await devices[place].enroll()
    assert set(checks.values()) == {2}


async def test_more_tickets_than_the_rate_allows_come_again_later(world: World) -> None:
    world.enrollment._rate._left = 2.0
    answers = await world.enrollment.enroll([kiosk(world).redemption for _ in range(5)])
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert [answer.reason for answer in refused] == [Reason.OVERLOADED] * 3
    assert all(answer.retry_after for answer in refused)
    world.clock.now += 1.0
    assert isinstance((await world.enrollment.enroll([kiosk(world).redemption]))[0], Credential)


# Expiry, revocation, a second authority


async def test_an_expired_credential_is_refused_and_a_later_ticket_keeps_the_pseudonym(world: World) -> None:
    (device,) = await enrolled(world, expires=int(world.clock.now) + 5)
    sent = await device.seal()
    await world.send([sent])
    late = await device.seal()
    world.clock.now += 5.0
    assert await world.send([sent]) == [Receipt(sent.id, 0)]  # what is held is held
    assert reason((await world.send([late]))[0]) is Reason.ID_CONFLICT
    assert await device.refused() is Reason.TICKET_EXPIRED
    (other,) = await enrolled(world, expires=int(world.clock.now) + 5)
    unsent = await other.seal()
    world.clock.now += 5.0
    assert reason((await world.send([unsent]))[0]) is Reason.CREDENTIAL_EXPIRED
    longer = alone(replace(device.ticket, expires=LATER), world.parties.operator)
    renewed = replace(device, ticket=longer)
    await renewed.enroll()
    assert reason(await renewed.send()) is Reason.ID_CONFLICT


async def test_a_revoked_device_is_refused_from_then_on(world: World) -> None:
    one, two = await enrolled(world, 2)
    unredeemed = kiosk(world)
    sent = await one.seal()
    await world.send([sent])
    status = await world.enrollment.manage(
        CredentialAction.REVOKE, [each.ticket.device for each in (one, two, unredeemed)]
    )
    assert (status.redeemed, status.revoked) == (2, 3)
    assert await world.send([sent]) == [Receipt(sent.id, 0)]
    assert reason(await two.send()) is Reason.REVOKED
    assert [await each.refused() for each in (one, unredeemed)] == [Reason.REVOKED] * 2


async def test_a_second_authority_must_have_signed_where_the_task_names_one(tmp_path: Path) -> None:
    async with running(tmp_path, AdmissionPolicy(Mode.ENROLLED, SECOND.public)) as world:
        operator = world.parties.operator
        single, other = kiosk(world), kiosk(world, signers=[operator, Identity.generate()])
        both = kiosk(world, signers=[operator, SECOND])
        for each in (single, other, both):
            await each.enroll()
        assert [reason(await each.send()) for each in (single, other)] == [Reason.NOT_COUNTERSIGNED] * 2
        assert isinstance(await both.send(), Receipt)
        # Countersigned later, it is the same device.
        signed = replace(single, ticket=also_by(single.ticket, SECOND))
        await signed.enroll()
        assert isinstance(await signed.send(), Receipt)


# The master key


async def states_after(world: World, step: CredentialAction) -> dict[int, KeyState]:
    return {key.generation: key.state for key in (await world.enrollment.manage(step, [])).keys}


async def test_a_master_key_says_since_when_it_is_in_its_state_and_no_secret(world: World) -> None:
    (first,) = (await world.enrollment.manage(CredentialAction.PREPARE, [])).keys[:1]
    world.clock.now += 7.0
    retired, active = (await world.enrollment.manage(CredentialAction.ACTIVATE, [])).keys
    assert (retired.since, active.since) == (first.since + 7, first.since + 7)
    assert retired.fingerprint == first.fingerprint != active.fingerprint
    secrets = [master.secret.hex() for master in await world.store.masters()]
    assert not any(key.fingerprint in secret for key in (retired, active) for secret in secrets)


async def test_the_master_key_is_turned_over_while_devices_submit(world: World) -> None:
    devices = await enrolled(world, 5)
    assert isinstance(await devices[0].send(), Receipt)
    states = [
        await states_after(world, step)
        for step in (CredentialAction.STATUS, CredentialAction.PREPARE, CredentialAction.PREPARE)
    ]
    assert states == [{1: KeyState.ACTIVE}, *[{1: KeyState.ACTIVE, 2: KeyState.PENDING}] * 2]
    assert isinstance(await devices[1].send(), Receipt)
    for _ in range(2):
        keys = await states_after(world, CredentialAction.ACTIVATE)
        assert keys == {1: KeyState.RETIRED, 2: KeyState.ACTIVE}
    assert isinstance(await devices[2].send(), Receipt)
    old = devices[3].credential
    assert await devices[3].enroll() != old
    assert isinstance(await devices[3].send(), Receipt)
    for _ in range(2):
        assert await states_after(world, CredentialAction.FORGET) == {2: KeyState.ACTIVE}
    assert reason(await devices[4].send()) is Reason.NOT_ENROLLED
    await devices[4].enroll()
    assert isinstance(await devices[4].send(), Receipt)
    # Whatever credential it shows, a device has one pseudonym.
    await devices[0].enroll()
    assert reason(await devices[0].send()) is Reason.ID_CONFLICT
    assert (await world.status()).submissions == 5


async def test_a_forgotten_key_and_expired_tickets_are_in_no_file(world: World) -> None:
    (master,) = await world.store.masters()
    (device,) = await enrolled(world, expires=int(world.clock.now) + 5)
    assert master.secret in world.bytes_on_disk()
    assert master.secret.hex() not in repr(master)
    world.clock.now += 10.0
    for step in (CredentialAction.PREPARE, CredentialAction.ACTIVATE, CredentialAction.FORGET):
        status = await world.enrollment.manage(step, [])
    # The number is kept for longer than a round lasts: a longer ticket for the device must not give it another.
    assert status.redeemed == 1
    assert master.secret not in world.bytes_on_disk()
    assert await device.refused() is Reason.TICKET_EXPIRED
    world.clock.now += KEPT_SECONDS
    assert (await world.enrollment.manage(CredentialAction.FORGET, [])).redeemed == 0


async def test_an_enrolled_round_under_its_minimum_expires_as_others_do(world: World) -> None:
    (device,) = await enrolled(world)
    assert isinstance(await device.send(), Receipt)
    await world.cut()
    await world.over(RoundState.EXPIRED)


# Successions


async def test_tickets_of_identities_before_and_after_a_succession_are_redeemed(world: World) -> None:
    operator, shuffler = Identity.generate(), Identity.generate()
    parties = world.parties
    enrollment = EnrollmentControl(
        world.credentials,
        world.store,
        [parties.operator.public, operator.public],
        [parties.shuffler.public, shuffler.public],
        world.clock,
        Rate(1000.0, world.clock),
    )
    for signer, of in ((parties.operator, parties.shuffler), (operator, parties.shuffler), (operator, shuffler)):
        (ticket,) = new_tickets(1, of.public, LATER, [signer])
        (answer,) = await enrollment.enroll([Redemption(ticket.encode(), os.urandom(32))])
        assert isinstance(answer, Credential)
    strangers = new_tickets(1, shuffler.public, LATER, [SECOND]) + new_tickets(1, SECOND.public, LATER, [operator])
    for ticket in strangers:
        (answer,) = await enrollment.enroll([Redemption(ticket.encode(), os.urandom(32))])
        assert isinstance(answer, Refusal)
        assert answer.reason is Reason.BAD_TICKET


async def test_a_succession_that_came_too_late_for_a_round_is_refused_at_the_start(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.start()
    await world.rounds.stop()
    parties, new = world.parties, Identity.generate()
    begins = prepared_from(world.task.schedule, 0)
    made = Succession(Role.SHUFFLER, parties.shuffler.public, new.public, parties.operator.public, begins)
    for signer in (parties.shuffler, new, parties.operator):
        made = made.signed_by(signer)
    world.tasks[world.task.id] = followed(world.task, [made])
    with pytest.raises(SignatureError, match=r"round 0 of .* were given out before a succession arrived that begins"):
        await world.rounds.start()
    # By now round 1 may have its keys, too.
    later = prepared_from(world.task.schedule, 1) + 1
    world.tasks[world.task.id] = followed(world.task, [replace_begins(made, parties, new, later)])
    await world.rounds.start()
    await world.stop()


def replace_begins(made: Succession, parties: Parties, new: Identity, begins: int) -> Succession:
    made = replace(made, begins=begins, signatures=())
    for signer in (parties.shuffler, new, parties.operator):
        made = made.signed_by(signer)
    return made
