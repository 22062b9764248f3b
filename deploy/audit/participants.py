"""Provides the people of an audit: a victim, whose device has to retry, and everyone else, through a fleet."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from hubbub.client import Device, Fleet
from hubbub.client.submit import Retrying, RetryPolicy, ShufflerLink
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.messages import Receipt, Submission
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transport.https import HTTPSChannel
from hubbub.queries.questions.question import Value

REPEATED_SUBMISSIONS = 12
"""How often the victim's application submits the same answers: repetitions must not get a new draw."""

RETRY_POLICY = RetryPolicy(first_pause=0.01, longest_pause=0.1)
"""The shuffler is on this machine."""

Answers = Mapping[str, Value]


class LossyLink(ShufflerLink):
    """A connection on which the answer to the first submission is lost, after the shuffler accepted it."""

    lost = False

    @property
    def caller(self) -> SubmissionCaller:
        """The shuffler at the other end."""
        return _LossyCaller(self.channel(), self)


class _LossyCaller(SubmissionCaller):
    def __init__(self, channel: grpc.aio.Channel | HTTPSChannel, link: LossyLink) -> None:
        super().__init__(channel)
        self._link = link

    async def submit(self, destination: Destination, submission: Submission, deadline: float) -> Receipt:
        receipt = await super().submit(destination, submission, deadline)
        if not self._link.lost:
            self._link.lost = True
            raise Unreachable("the answer was lost on its way")
        return receipt


class Victim(Device):
    """The attacked device: the answer to its first try is lost, so it has to retry."""

    def __init__(self, task: bytes, **given: Any) -> None:
        super().__init__(task, **given)
        session = self._session
        session.link = LossyLink(session.address, session.tls)


@dataclass(frozen=True)
class Participants:
    """The people who answer the rounds of a pipeline's tasks; `victim` is the class of the attacked device."""

    pipeline: LocalPipeline
    victim: type[Victim] = Victim

    async def answer(self, task: SignedTask, victim: Answers, others: Answers, count: int) -> None:
        """Let the victim answer round 0 of a task, and then `count` others, who all give the same answers.

        Raises:
            HubbubError: if one of them was refused.
        """
        name, ticket = secrets.token_hex(8), self.pipeline.ticket
        async with self.victim(task.encode(), name=name, ticket=ticket(name), **self._common()) as device:
            for _ in range(REPEATED_SUBMISSIONS):
                await device.submit(victim, 0)
        if count:
            await self.others_answer(task, others, count)

    async def others_answer(self, task: SignedTask, others: Answers, count: int) -> None:
        """Let `count` others give the same answers.

        Raises:
            HubbubError: if one of them was refused.
        """
        fleet = Fleet(task.encode(), tickets=self.pipeline.ticket, **self._common())
        async with fleet:
            summary = await fleet.submit_many(((str(place), others) for place in range(count)), 0)
        if summary.accepted != count:
            why = "; ".join(f"{reason}: {message}" for reason, message in summary.messages.items())
            raise HubbubError(f"some of {count} devices were refused ({why}); see the logs")

    def _common(self) -> dict[str, Any]:
        pipeline = self.pipeline
        return {
            "operator_key": pipeline.operator_key,
            "shuffler_key": pipeline.shuffler_key,
            "state": pipeline.folder.of("client") / "people.db",
            "shuffler": pipeline.shuffler,
            "authority": pipeline.authority,
            "retrying": Retrying(RETRY_POLICY),
        }
