"""Two links that are cut, lose requests or answers, and are slow, as they are told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from simulation.parties import Life, Party
from simulation.virtual import Killed

from hubbub.protos import codec
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Answer, Committed, Envelopes, Receipt, Redemption, Submission
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, ReleaseChunk
from hubbub.protos.refusals import Refusal
from hubbub.protos.rpc.enrollment import Enrolled
from hubbub.protos.sealing.envelope import Destination
from hubbub.service.rpc.servicers import _answer_each

if TYPE_CHECKING:
    from simulation.world import Simulation

T = TypeVar("T")


@dataclass
class Link:
    """A way between two parties: whether it is cut, how many requests or answers it will lose, its delay in seconds."""

    is_cut: bool = False
    lost_requests: int = 0
    lost_answers: int = 0
    delay: float = 0.0

    def takes_request(self) -> bool:
        if self.is_cut:
            return False
        lost, self.lost_requests = self.lost_requests > 0, max(0, self.lost_requests - 1)
        return not lost

    def takes_answer(self) -> bool:
        if self.is_cut:
            return False
        lost, self.lost_answers = self.lost_answers > 0, max(0, self.lost_answers - 1)
        return not lost


async def call(
    link: Link, caller: Life, party: Party, name: str, work: Callable[[], Awaitable[T]], deadline: float
) -> T:
    """Carry a call; what does not come back within `deadline` seconds, for whatever reason, is `Unreachable`.

    A server whose caller gives up is told so, as gRPC does: its work is cancelled.
    """
    caller.reach(f"before sending {name}")
    try:
        async with asyncio.timeout(deadline):
            await asyncio.sleep(link.delay)
            server = party.life
            if server is None or not link.takes_request():
                raise Unreachable(f"{name} was not answered: nobody is there")
            answer = await _serve(server, name, work)
            await asyncio.sleep(link.delay)
    except TimeoutError as error:
        raise Unreachable(f"{name} was not answered in time") from error
    if not link.takes_answer():
        raise Unreachable(f"{name} was not answered: the answer was lost")
    caller.reach(f"after the answer to {name}")
    if isinstance(answer, Refusal):
        raise answer
    return answer


async def _serve(server: Life, name: str, work: Callable[[], Awaitable[T]]) -> T | Refusal:
    async def whole() -> T | Refusal:
        server.reach(f"before {name}")
        try:
            answer: T | Refusal = await work()
        except Refusal as refusal:
            answer = refusal
        server.reach(f"after {name}")
        return answer

    try:
        return await server.unless_killed(whole())
    except Killed as killed:
        raise Unreachable(f"{name} was not answered: it was killed") from killed


class DeviceLine:
    """The shuffler as a device calls it (`SubmissionCaller`), through the service's own reading of messages."""

    def __init__(self, world: Simulation, caller: Life) -> None:
        self._world = world
        self._caller = caller

    async def _call(self, name: str, work: Callable[[], Awaitable[T]], deadline: float) -> T:
        return await call(self._world.links["devices"], self._caller, self._world.shuffler, name, work, deadline)

    async def get_round(self, task_id: bytes, round_number: int, deadline: float) -> KeySet:
        shuffler = self._world.shuffler
        return await self._call("get_round", lambda: shuffler.admission.get_round(task_id, round_number), deadline)

    async def enroll(self, redemptions: Sequence[Redemption], deadline: float) -> list[Enrolled]:
        model = self._world.model

        async def work() -> list[Enrolled]:
            answers = await self._world.shuffler.enrollment.enroll(redemptions)
            refused = Counter(answer.reason.value for answer in answers if isinstance(answer, Refusal))
            model.answers += refused
            model.at_risk += refused
            return answers

        return await self._call("enroll", work, deadline)

    async def submit(self, destination: Destination, submission: Submission, deadline: float) -> Receipt:
        (answer,) = await self.submit_batch(destination, [submission], deadline)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    async def submit_batch(
        self, destination: Destination, submissions: Sequence[Submission], deadline: float
    ) -> list[Answer]:
        messages = [codec.write_submission(submission) for submission in submissions]
        ids = [submission.id.hex() for submission in submissions]
        self._world.witness("sent", {"by": self._caller.party.name, "round": destination.round, "ids": ids})

        async def work() -> list[Answer]:
            arrival = self._world.model.arrives(destination, submissions)
            answers = await _answer_each(self._world.shuffler.admission, destination, messages)
            self._world.model.answered(arrival, answers)
            ids = [answer.submission_id.hex() for answer in answers if isinstance(answer, Receipt)]
            self._world.witness("acknowledged", {"round": destination.round, "ids": ids})
            return answers

        return await self._call("submit", work, deadline)


class DeliveryLine:
    """The analyzer as the shuffler calls it (`release.Analyzer`)."""

    def __init__(self, world: Simulation, caller: Life) -> None:
        self._world = world
        self._caller = caller

    async def _call(self, name: str, work: Callable[[], Awaitable[T]], deadline: float) -> T:
        return await call(self._world.links["delivery"], self._caller, self._world.analyzer, name, work, deadline)

    async def get_key(self, task_id: bytes, round_number: int, deadline: float) -> SignedDocument:
        analyzer = self._world.analyzer

        async def work() -> SignedDocument:
            record = await analyzer.receiver.get_key(task_id, round_number)
            self._world.witness("key", {"round": round_number, "record": record.body.hex()})
            return record

        return await self._call("get_key", work, deadline)

    async def get_releases(self, task_id: bytes, deadline: float) -> Known:
        analyzer = self._world.analyzer
        return await self._call("get_releases", lambda: analyzer.receiver.get_releases(task_id), deadline)

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk, deadline: float) -> int:
        analyzer = self._world.analyzer
        return await self._call("begin", lambda: analyzer.receiver.begin(record, key_set, releases), deadline)

    async def put(self, chunk: Envelopes, deadline: float) -> int:
        self._world.model.released(chunk)
        analyzer = self._world.analyzer

        async def work() -> int:
            offset = await analyzer.receiver.put(chunk)
            batch = chunk.batch
            self._world.witness("put", {"round": batch.round, "query": batch.query, "offset": offset})
            return offset

        return await self._call("put", work, deadline)

    async def commit(self, batch: BatchId, digest: bytes, deadline: float) -> Committed:
        analyzer = self._world.analyzer

        async def work() -> Committed:
            committed = await analyzer.receiver.commit(batch, digest)
            counted = committed.counted
            self._world.witness("committed", {"round": batch.round, "query": batch.query, "counted": counted})
            return committed

        return await self._call("commit", work, deadline)
