"""A malicious hop between an honest shuffler and an honest analyzer, all at real ports: what each of its lies leads to.

The liar has the hop's identity, TLS certificate, store and keys, and runs the hop's own code but for one lie a round.
It takes the place of the hop's process at its port; then the honest process is started again over the same store.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeySet, Role
from hubbub.protos.messages import Committed, Envelopes, RoundState
from hubbub.protos.records.batch import BatchId, HopRecord, released_digest
from hubbub.protos.records.release_chain import Known, ReleaseChunk
from hubbub.protos.refusals import Reason
from hubbub.protos.rpc import DeliveryCaller, ResultsCaller
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.task import Identities, Task
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from hubbub.service.processes.opening_pool import OpeningPool
from hubbub.service.receiving.delivery_service import DELIVERERS
from hubbub.service.rpc import serve_delivery
from hubbub.service.transport.grpc_server import listen
from hubbub.shuffler.hop.receiver import Hop
from hubbub.shuffler.hop.sqlite import HopSqliteStore
from hubbub.verification.certificate import Pins, verify
from support.attack_deployment import MINIMUM, Attacked, task_of
from support.ended_with_test import opened_server
from support.krr_queries import krr_query, report
from support.patience import CALL_SECONDS, pause, when_ready
from support.raw_device import Visitor, keys_ready

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOP = "hop-2"
PEOPLE = MINIMUM + 1
"""One more than the minimum: a hop that leaves one out leaves a round that is counted."""
THEME = krr_query(Histogram("theme", ("dark", "light")), 2**31)
NAMES = ("counted", "healed", "short", "false", "swallowed")
"""A task for each way in which lies end: a round that is stuck holds up the certificates of those after it."""


def tasks(identities: Identities) -> tuple[Task, ...]:
    return tuple(task_of(name, OPEN, identities, (THEME,)) for name in NAMES)


@dataclass(frozen=True)
class Told:
    """What a lie makes of a list: the list that is sent, and what the hop's record says otherwise than it should."""

    sent: Sequence[bytes]
    said: dict[str, Any] = field(default_factory=dict)


Lie = Callable[["Liar", Sequence[bytes]], Told]


def as_signed(sent: Sequence[bytes], **said: Any) -> Told:
    return Told(sent, {"digest": released_digest(sent), **said})


LIES: dict[tuple[str, int], Lie] = {
    ("counted", 0): lambda _liar, honest: as_signed(honest),
    ("counted", 1): lambda _liar, honest: as_signed(honest[1:], left_out={"unopenable": 1}),
    ("counted", 2): lambda _liar, honest: as_signed([honest[0], honest[0], *honest[2:]]),
    ("counted", 3): lambda liar, _honest: as_signed(liar.lists["counted", 0]),
    ("healed", 0): lambda liar, honest: as_signed([*honest, liar.own()], dummies=1),
    ("healed", 1): lambda liar, honest: as_signed([liar.own() for _ in honest]),
    ("healed", 2): lambda liar, _honest: as_signed(liar.lists["counted", 0]),
    ("healed", 3): lambda _liar, honest: as_signed(honest[::-1]),
    ("short", 0): lambda _liar, honest: Told(honest[1:]),
    ("false", 0): lambda _liar, honest: Told(honest, {"digest": released_digest(honest[::-1])}),
}
"""By task and round: the honest list; one left out, which is said; one twice in another's place; the list of an
earlier round; noise that the task has not; reports of its own; another task's list; another order; one left out in
silence; a digest of other bytes."""


class Liar:
    """Who comes behind the hop's own code: passes on to the analyzer what a lie makes of the hop's list."""

    def __init__(self, running: Attacked, caller: DeliveryCaller, store: HopSqliteStore) -> None:
        self._running, self._caller, self._store = running, caller, store
        self._identity = Identity.load(running.folder.of(HOP) / "identity.pem")
        self._told: dict[BatchId, Told] = {}
        self._keys: KeySet | None = None
        self._of: BatchId | None = None
        self.lists: dict[tuple[str, int], list[bytes]] = {}

    def own(self) -> bytes:
        """A report of the hop's own, sealed to the analyzer."""
        assert self._keys is not None
        assert self._of is not None
        task, keys = self._task(self._of), self._keys
        identities = task.identities
        read = keys.read(
            *(task.id, self._of.round, task.suite), identities.shuffler, identities.analyzer, identities.hops
        )
        to = Destination(task.id, self._of.round, keys.hash)
        return Sealer(to, read[0].public_key, read[1].public_key, task.hpke).inner(report(0), 0)

    def _task(self, batch: BatchId) -> Task:
        return next(each.task for each in self._running.tasks if each.task.id == batch.task_id)

    async def get_key(self, task_id: bytes, round_number: int, deadline: float) -> SignedDocument:
        return await self._caller.get_key(task_id, round_number, deadline)

    async def get_releases(self, task_id: bytes, deadline: float) -> Known:
        return await self._caller.get_releases(task_id, deadline)

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk, deadline: float) -> int:
        said = HopRecord.read(record, self._identity.public)
        task_id, number = bytes.fromhex(json.loads(said.previous.body)["task"]), releases.releases[-1].round
        batch = BatchId(task_id, number, 0)
        task = self._task(batch)
        honest = list(await self._store.envelopes(batch, 0, task.counted_bytes[0]))
        self.lists[task.name, number] = honest
        lie = LIES.get((task.name, number))
        if lie is None:
            return said.released  # it says that it has all, and passes nothing on
        if batch not in self._told:
            # Other rounds are tried again meanwhile, and this one may be too: each is lied about once.
            self._of, self._keys = batch, key_set
            self._told[batch] = lie(self, honest)
        told = self._told[batch]
        lied = replace(said, **told.said).signed_by(self._identity)
        arrived = await self._caller.begin(lied, key_set, releases, deadline)
        return said.released if arrived >= len(told.sent) else 0

    async def put(self, chunk: Envelopes, deadline: float) -> int:
        sent = Envelopes(chunk.batch, 0, tuple(self._told[chunk.batch].sent))
        await self._caller.put(sent, deadline)
        return chunk.offset + len(chunk.envelopes)

    async def commit(self, batch: BatchId, digest: bytes, deadline: float) -> Committed:
        if (self._task(batch).name, batch.round) not in LIES:
            return Committed(PEOPLE, {})
        return await self._caller.commit(batch, self._told[batch].said.get("digest", digest), deadline)


@contextlib.asynccontextmanager
async def in_the_place_of_the_hop(running: Attacked) -> AsyncIterator[Liar]:
    """Have the liar answer at the hop's port meanwhile, over the hop's store; then the hop is as it was."""
    await running.stop(HOP)
    tls, folder = running._tls(HOP), running.folder.of(HOP)
    store, opening_pool = HopSqliteStore(folder / "data"), OpeningPool(1)
    async with open_channel(running.services[Role.ANALYZER].addresses["delivery"], tls) as channel:
        liar = Liar(running, DeliveryCaller(channel), store)
        known = {each.task.id: each.task for each in running.tasks}
        hop = Hop(known, Identity.load(folder / "identity.pem"), store, opening_pool, liar, "next:1")
        try:
            async with opened_server() as server:
                serve_delivery(server, hop, DELIVERERS)
                listen(server, running.services[HOP].addresses["delivery"], tls.server(mutual=True))
                await server.start()
                yield liar
        finally:
            opening_pool.close()
            store.close()
    await running.start(HOP)


@dataclass
class Ended:
    """How the rounds of a liar ended: why some are refused, how often each envelope was left out, the certificates."""

    running: Attacked
    refused: dict[tuple[str, int], str]
    certificates: dict[tuple[str, int], dict[str, Any]]


async def status_of(running: Attacked, name: str, number: int) -> tuple[RoundState, str]:
    status = await running.round_status(running.named(name).task, number)
    return status.state, status.waiting_for


async def ended(running: Attacked, name: str, number: int) -> str:
    """Return why a round is refused, or nothing once the shuffler is told that it is counted."""
    while True:
        state, waiting = await status_of(running, name, number)
        if state in (RoundState.RELEASED, RoundState.ERASED):
            return ""
        if "refused, " in waiting or "passed nothing on" in waiting:
            return waiting
        await pause()


async def closed_round(running: Attacked, name: str, number: int) -> None:
    """A round of some people, cut."""
    task = running.named(name).task
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        visitor = await Visitor.at(channel, task, number)
        assert [await visitor.send(visitor.sealed()) for _ in range(PEOPLE)] == [None] * PEOPLE
    assert (await running.close(task, number)).submissions == PEOPLE


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lied(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ended]:
    async with Attacked(tasks, tmp_path_factory.mktemp("hop") / "pipeline", hops=2) as running:
        async with open_channel(running.shuffler, TLS(running.authority)) as channel:
            await keys_ready(channel, [each.task for each in running.tasks])
        refused = {}
        async with in_the_place_of_the_hop(running):
            for name, number in (*LIES, ("swallowed", 0), ("swallowed", 1)):
                await closed_round(running, name, number)
                refused[name, number] = await ended(running, name, number)
        await closed_round(running, "swallowed", 2)
        refused["swallowed", 2] = await ended(running, "swallowed", 2)
        found = Ended(running, refused, {})
        for name, number in LIES:
            if name in ("counted", "healed"):
                found.certificates[name, number] = await certified(running, name, number)
        yield found


async def certified(running: Attacked, name: str, number: int) -> dict[str, Any]:
    """The certificate of a round, verified."""
    task, address = running.named(name).task, running.services[Role.ANALYZER].addresses["results"]
    async with open_channel(address, running.operator_tls) as channel:
        caller = ResultsCaller(channel)
        found = await when_ready(lambda: caller.get_results(task.id, number, 20.0, CALL_SECONDS), Reason.NO_RESULTS)
    named = task.identities
    content: dict[str, Any] = verify(
        found.certificate, Pins(named.operator, named.shuffler, named.analyzer, named.hops)
    ).content
    return content


def numbers(content: dict[str, Any]) -> tuple[int, int, dict[str, int]]:
    """What a certificate says of its query: reports, valid ones, and those left out."""
    (query,) = content["queries"]
    return query["reports"], query["valid"], query["left_out"]


async def test_each_lie_of_a_hop_is_refused_by_its_reason_or_counted_as_what_it_is(lied: Ended) -> None:
    said = {key: why.partition("refused, ")[2].partition(":")[0] for key, why in lied.refused.items() if why}
    assert said == {
        ("healed", 0): "bad_record",
        ("short", 0): "incomplete",
        ("false", 0): "digest_differs",
        ("swallowed", 0): "",
        ("swallowed", 1): "",
    }
    assert {key: numbers(content) for key, content in lied.certificates.items()} == {
        ("counted", 0): (PEOPLE, PEOPLE, {}),
        ("counted", 1): (PEOPLE, PEOPLE - 1, {"unopenable": 1}),
        ("counted", 2): (PEOPLE, PEOPLE - 1, {"duplicate": 1}),
        ("counted", 3): (PEOPLE, 0, {"unopenable": PEOPLE}),
        ("healed", 0): (PEOPLE, PEOPLE, {}),
        # Its own reports cannot be told from those of people, whom they hide no less.
        ("healed", 1): (PEOPLE, PEOPLE, {}),
        ("healed", 2): (PEOPLE, 0, {"unopenable": PEOPLE}),
        ("healed", 3): (PEOPLE, PEOPLE, {}),
    }


async def test_no_certificate_promises_more_than_what_a_lying_hop_left(lied: Ended) -> None:
    """Fewer valid reports are never certified a smaller ε; a batch of which nothing is left is not published."""
    honest = lied.certificates["counted", 0]["queries"][0]
    for key, content in lied.certificates.items():
        query = content["queries"][0]
        assert query["state"] == ("published" if query["valid"] >= MINIMUM else "withheld"), key
        assert query["epsilon_upper"] >= honest["epsilon_upper"], key
        assert query["epsilon_upper_alone"] == query["epsilon_local"] == honest["epsilon_local"]
    assert lied.certificates["counted", 1]["queries"][0]["epsilon_upper"] > honest["epsilon_upper"]


async def test_what_a_lie_held_up_is_counted_once_an_honest_hop_is_back(lied: Ended) -> None:
    """But a list that the liar signed and the analyzer noted stays: a batch is released once."""
    assert numbers(await certified(lied.running, "short", 0)) == (PEOPLE, PEOPLE, {})
    state, waiting = await status_of(lied.running, "false", 0)
    assert (state, "refused, digest_differs" in waiting) == (RoundState.MIXED, True)


async def test_a_batch_that_a_hop_swallowed_is_missed_at_once_and_the_next_round_goes_on(lied: Ended) -> None:
    """The shuffler was told that it is counted, and keeps it: the analyzer does not know of it."""
    for number in (0, 1):
        waiting = lied.refused["swallowed", number]
        assert f"it answered that round {number} is counted, and the analyzer has not counted it" in waiting
        assert waiting.startswith("hop-2")
        assert (await status_of(lied.running, "swallowed", number))[0] is RoundState.MIXED
    # Neither round holds up the one that comes once the hop is honest again.
    assert (await status_of(lied.running, "swallowed", 2))[0] in (RoundState.RELEASED, RoundState.ERASED)
    task, address = lied.running.named("swallowed").task, lied.running.services[Role.ANALYZER].addresses["results"]
    async with open_channel(address, lied.running.operator_tls) as channel:
        statuses = await ResultsCaller(channel).get_statuses(task.id, CALL_SECONDS)
    assert {each.id.round: query.valid for each in statuses for query in each.queries}[2] == PEOPLE
