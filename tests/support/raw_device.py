"""A visitor at the port for devices, who makes submissions by hand and shows with them what it likes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import partial

import grpc

from hubbub.client import Retrying
from hubbub.client.encode import seal
from hubbub.client.session.rounds import VerifiedRoundKeys
from hubbub.protos.enrollment.credentials import Credential
from hubbub.protos.messages import Redemption, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.task.task import Task
from support.patience import CALL_SECONDS


async def redeemed(channel: grpc.aio.Channel, ticket: bytes, secret: bytes = b"s" * 32) -> Credential | Reason:
    """Redeem a ticket by a secret; return the credential, or why there is none."""
    (answer,) = await SubmissionCaller(channel).enroll([Redemption(ticket, secret)], CALL_SECONDS)
    return answer.reason if isinstance(answer, Refusal) else answer


async def keys_ready(channel: grpc.aio.Channel, tasks: Iterable[Task]) -> None:
    """Return once the keys of all rounds of these tasks can be had."""
    for task in tasks:
        for number in range(task.schedule.rounds):
            await Retrying().retry(partial(SubmissionCaller(channel).get_round, task.id, number))


class Visitor:
    """Who knows a task and a round's keys, which everybody may."""

    def __init__(self, caller: SubmissionCaller, task: Task, to: Destination, sealer: Sealer) -> None:
        self._caller, self._task, self.to, self._sealer = caller, task, to, sealer

    @classmethod
    async def at(cls, channel: grpc.aio.Channel, task: Task, number: int = 0) -> Visitor:
        """Ask for a round's keys over a channel that submissions are then sent over."""
        caller = SubmissionCaller(channel)
        keys = await Retrying().retry(partial(caller.get_round, task.id, number))
        return cls(
            caller,
            task,
            Destination(task.id, number, keys.hash),
            VerifiedRoundKeys.read(keys, task, number).sealer(time.time()),
        )

    def sealed(self) -> Submission:
        """A submission of one made-up report a query, as honest devices make them, without proof."""
        reports = [query.randomize(0, os.urandom) for query in self._task.queries]
        return seal(self._sealer, reports, os.urandom(16))

    async def send(self, submission: Submission) -> Reason | None:
        """Send a submission as it is; return why it was refused, None where it was taken."""
        (answer,) = await self._caller.submit_batch(self.to, [submission], CALL_SECONDS)
        return answer.reason if isinstance(answer, Refusal) else None

    async def prove(self, credential: Credential) -> Reason | None:
        """Send a fresh submission with a credential's proof."""
        return await self.send(credential.proven(self.to, self.sealed()))
