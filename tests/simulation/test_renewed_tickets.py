"""A device whose ticket ended goes on with a longer one, over real sockets, with one submission a round as before."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from unit.shuffler.test_server import Deployment, analyzer_at, channel, seal

from hubbub.client import Device
from hubbub.deploy.pki.tickets import EnrolledDevices, renewed
from hubbub.protos.enrollment.credentials import Credential
from hubbub.protos.enrollment.tickets import Ticket, new_tickets
from hubbub.protos.messages import Answer, CredentialAction, Receipt, Redemption, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.task.admission import ENROLLED
from hubbub.protos.task.schedule import DAY
from hubbub.protos.transport.channels import TLS
from hubbub.shuffler.server import serve
from support.messages import ANSWERS_OF_ROUND
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import changed, signed

ANSWERS = {"carrier": "UA", "delay": 12.5}


class Later:
    """A clock that may be put forward."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class World:
    """A shuffler of an enrolled task on real ports, whose clock may be put forward."""

    def __init__(self, folder: Path) -> None:
        self.deployment = Deployment(folder)
        # With a grace of more than a round's length, both rounds take submissions at once.
        schedule = replace(self.deployment.task.schedule, length=180 * DAY, grace=360 * DAY)
        task = changed(self.deployment.task, admission=ENROLLED, schedule=schedule)
        self.deployment.task = task
        self.document = signed(task, self.deployment.parties)
        self.deployment.write(self.document)
        self.clock = Later()
        self.place = folder / "device.ticket"
        self.addresses: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stop, announced = asyncio.Event(), asyncio.get_running_loop().create_future()
        async with analyzer_at(self.deployment) as (name, _), asyncio.TaskGroup() as group:
            settings = self.deployment.settings(name)
            group.create_task(serve(settings, clock=self.clock, announce=announced.set_result, stop=stop))
            self.addresses = await announced
            yield
            stop.set()

    def ticket(self, days: int) -> Ticket:
        parties = self.deployment.parties
        (made,) = new_tickets(1, parties.shuffler.public, int(self.clock()) + days * DAY, [parties.operator])
        return made

    def renewed(self, ticket: Ticket, days: int) -> Ticket:
        operator = self.deployment.parties.operator
        old = {"ticket": [EnrolledDevices(ticket.device, ticket)]}
        ((made,),) = renewed(old, operator, None, int(self.clock()) + days * DAY).values()
        return made

    def device(self) -> Device:
        parties, authority = self.deployment.parties, self.deployment.tls["shuffler"].authority
        assert isinstance(authority, Path)
        return Device(
            self.document.encode(),
            operator_key=parties.operator.public,
            shuffler_key=parties.shuffler.public,
            state=self.place.with_suffix(".db"),
            shuffler=self.addresses["submission"],
            authority=authority,
            ticket=self.place,
            clock=self.clock,
        )

    async def submissions(self) -> list[int]:
        """How many each round holds."""
        async with channel(self.addresses["control"], self.deployment.tls["operator"]) as opened:
            rounds = await ControlCaller(opened).get_status(None, CALL_SECONDS)
            return [each.submissions for each in rounds]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    found = World(tmp_path)
    async with asyncio.timeout(PATIENCE), found.running():
        yield found


async def test_a_device_whose_ticket_ended_takes_the_longer_one_and_sends_what_it_kept(world: World) -> None:
    first = world.ticket(days=1)
    world.place.write_bytes(first.encode())
    async with world.device() as device:
        await device.submit(ANSWERS, 0)
        world.clock.ahead = 2.0 * DAY
        with pytest.raises(Refusal, match=f"ask the operator for a new ticket{ANSWERS_OF_ROUND} 1 are kept") as caught:
            await device.submit(ANSWERS, 1)
        assert caught.value.reason is Reason.CREDENTIAL_EXPIRED
        world.place.write_bytes(world.renewed(first, days=30).encode())
        assert [receipt.round for receipt in await device.resend()] == [1]
    assert await world.submissions() == [1, 1]


async def test_a_device_goes_on_with_what_it_holds_where_another_has_its_new_ticket(world: World) -> None:
    first, taken = world.ticket(days=1), world.ticket(days=30)
    world.place.write_bytes(first.encode())
    async with world.device() as device:
        await device.submit(ANSWERS, 0)
        async with channel(world.addresses["submission"], TLS(world.deployment.tls["shuffler"].authority)) as public:
            await SubmissionCaller(public).enroll([Redemption(taken.encode(), os.urandom(32))], CALL_SECONDS)
        world.place.write_bytes(taken.encode())
        await device.submit(ANSWERS, 1)
        assert await world.submissions() == [1, 1]


async def test_two_credentials_of_a_device_lead_to_one_place_and_are_revoked_as_one(world: World) -> None:
    first, secret, tls = world.ticket(days=1), os.urandom(32), world.deployment.tls
    async with (
        channel(world.addresses["submission"], TLS(tls["shuffler"].authority)) as public,
        channel(world.addresses["control"], tls["operator"]) as operators,
    ):
        caller, control = SubmissionCaller(public), ControlCaller(operators)
        tickets = [first.encode(), world.renewed(first, days=30).encode()]
        enrolled = await caller.enroll([Redemption(ticket, secret) for ticket in tickets], CALL_SECONDS)
        old, new = (each for each in enrolled if isinstance(each, Credential))
        assert old.id != new.id
        to, (one, other, third) = await seal(caller, world.deployment.task, 3)

        async def sent(credential: Credential, submission: Submission) -> Answer:
            (answer,) = await caller.submit_batch(to, [credential.proven(to, submission)], CALL_SECONDS)
            return answer

        assert [await sent(each, one) for each in (old, new)] == [Receipt(one.id, 0)] * 2
        assert {reason(await sent(each, other)) for each in (old, new)} == {Reason.ID_CONFLICT}
        assert (await world.submissions())[0] == 1
        # Another device that holds both, and is revoked before it has sent anything.
        lost, secret = world.ticket(days=1), os.urandom(32)
        tickets = [lost.encode(), world.renewed(lost, days=30).encode()]
        both = [Redemption(ticket, secret) for ticket in tickets]
        enrolled = await caller.enroll(both, CALL_SECONDS)
        await control.manage_credentials(CredentialAction.REVOKE, [lost.device], CALL_SECONDS)
        found = [each for each in enrolled if isinstance(each, Credential)]
        assert [reason(await sent(each, third)) for each in found] == [Reason.REVOKED] * 2
        again = await caller.enroll(both, CALL_SECONDS)
        assert [each.reason for each in again if isinstance(each, Refusal)] == [Reason.REVOKED] * 2


def reason(answer: Answer) -> Reason | None:
    return answer.reason if isinstance(answer, Refusal) else None
