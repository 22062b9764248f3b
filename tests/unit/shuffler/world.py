"""A shuffler in memory around a real store, with a clock, an analyzer and devices that tests hold in their hands."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeyRecord, KeySet, Role
from hubbub.protos.messages import Answer, Committed, Envelopes, Receipt, RoundState, RoundStatus, Submission
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import NO_RELEASES, Known, Release, ReleaseChunk, head_after
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination, InnerOpener, Sealer
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.admission import AdmissionPolicy as Admitted
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Privacy, Task
from hubbub.queries.query import Query
from hubbub.shuffler.admit.admission import AdmissionHandler
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.admit.disk_reserve import DiskReserve
from hubbub.shuffler.admit.enrollment import EnrollmentControl, Rate
from hubbub.shuffler.admit.load_shedding import LoadShedder
from hubbub.shuffler.admit.openers import Openers
from hubbub.shuffler.records import Round
from hubbub.shuffler.rounds.control import Control
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from support.krr_queries import report, symbol
from support.patience import CALL_SECONDS
from support.samples import MOST, QUERIES, START, Parties, sample_task
from support.store_contents import store_in

MINIMUM = 20
RESERVE = 1_000_000
"""Bytes of the disk that are kept free; `World.free` says how many are."""

SCHEDULE = Schedule(START, length=3600, grace=60, rounds=3)
BY_OPERATOR = Schedule(START, length=3600, grace=60, rounds=3, close="operator")


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeAnalyzer:
    """An analyzer that keeps what it is sent; `incident` is asked before each call and may raise."""

    task: Task
    parties: Parties
    incident: Callable[[str], None] = lambda _call: None
    keys: dict[int, tuple[bytes, SignedDocument]] = field(default_factory=dict)
    lists: dict[BatchId, list[bytes]] = field(default_factory=dict)
    records: dict[BatchId, BatchRecord] = field(default_factory=dict)
    committed: dict[BatchId, Committed] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    sent: list[ReleaseChunk] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    uncounted: tuple[int, ...] = ()

    def _enter(self, call: str) -> None:
        self.calls.append(call)
        self.incident(call)

    async def get_key(self, task_id: bytes, round_number: int, _deadline: float = 0) -> SignedDocument:
        self._enter("get_key")
        if round_number not in self.keys:
            private, public = self.task.hpke.generate_key()
            record = KeyRecord(Role.ANALYZER, task_id, round_number, self.task.suite, public, 0, 2**33)
            self.keys[round_number] = private, record.signed_by(self.parties.analyzer)
        return self.keys[round_number][1]

    async def get_releases(self, task_id: bytes, _deadline: float = 0) -> Known:
        self._enter("get_releases")
        return Known(len(self.releases), head_after(task_id, self.releases), self.uncounted)

    async def begin(
        self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk = NO_RELEASES, _deadline: float = 0
    ) -> int:
        self._enter("begin")
        self.sent.append(releases)
        self.releases[releases.first :] = releases.releases
        read = BatchRecord.read(record, self.parties.shuffler.public)
        if read.key_set_hash != key_set.hash:
            raise Refusal(Reason.BAD_RECORD, "another key set")
        if self.records.setdefault(read.batch, read).digest != read.digest:
            raise Refusal(Reason.DIGEST_DIFFERS, "another digest is known under this id")
        return len(self.lists.setdefault(read.batch, []))

    async def put(self, chunk: Envelopes, _deadline: float = 0) -> int:
        self._enter("put")
        kept = self.lists[chunk.batch]
        if chunk.offset != len(kept):
            raise Refusal(Reason.WRONG_OFFSET, "elsewhere")
        kept.extend(chunk.envelopes)
        return len(kept)

    async def commit(self, batch: BatchId, digest: bytes, _deadline: float = 0) -> Committed:
        self._enter("commit")
        if batch not in self.records:
            raise Refusal(Reason.INCOMPLETE, "not announced")
        if digest != self.records[batch].digest:
            raise Refusal(Reason.DIGEST_DIFFERS, "announced with another digest")
        if batch in self.committed:
            return self.committed[batch]
        if len(self.lists[batch]) == self.records[batch].envelopes and released_digest(self.lists[batch]) != digest:
            self.lists[batch] = []  # as the analyzer does, so that the delivery begins again
            raise Refusal(Reason.DIGEST_DIFFERS, "what arrived is not what the record says")
        if released_digest(self.lists[batch]) != digest or len(self.lists[batch]) != self.records[batch].envelopes:
            raise Refusal(Reason.INCOMPLETE, "not all there")
        return self.committed.setdefault(batch, Committed(len(self.lists[batch]), {}))

    def symbols(self, query: int, round_number: int = 0) -> list[int]:
        """The symbols of a committed batch, in the order of release."""
        batch = BatchId(self.task.id, round_number, query)
        record = self.records[batch]
        private = self.keys[round_number][0]
        destination = Destination(self.task.id, round_number, record.key_set_hash)
        opener = InnerOpener(destination, private, query, self.task.hpke)
        return [symbol(opener.open(envelope)) for envelope in self.lists[batch]]


class World:
    """One shuffler over a folder. `kill` ends it as a power cut would; `start` begins it again."""

    def __init__(
        self,
        folder: Path,
        schedule: Schedule = SCHEDULE,
        limit: int = 1000,
        privacy: Privacy | None = None,
        admission: Admitted = OPEN,
        most: int = MOST,
        queries: tuple[Query, ...] = QUERIES,
    ) -> None:
        self.parties = Parties.generate()
        self.task = sample_task(
            self.parties,
            queries=queries,
            minimum_reports=MINIMUM,
            schedule=schedule,
            privacy=privacy,
            admission=admission,
            maximum_reports=most,
        )
        self.tasks = {self.task.id: self.task}
        self.clock = Clock(START + 10.0)
        self.analyzer = FakeAnalyzer(self.task, self.parties)
        self.limit = limit
        self.free = 10 * RESERVE
        self.rate = 1000.0
        self.pauses = 0
        self._base = folder
        self._lives = 0
        self.folder = folder / "0"

    async def start(self, *, ready: bool = True) -> None:
        self.store = store_in(ShufflerSqliteStore, self.folder)
        self.openers = Openers(1)
        self.rounds = RoundLifecycle(
            self.tasks,
            self.store,
            self.parties.shuffler,
            self.analyzer,
            "analyzer:1",
            clock=self.clock,
            pause=self._pause,
            seal=self.openers.seal,
        )
        self.credentials = Credentials()
        # A second passes from one look at the disk to the next.
        disk_reserve = DiskReserve(
            self.folder, RESERVE, self.rounds.incidents, lambda _folder: self.free, itertools.count().__next__
        )
        parts = self.tasks, self.store, self.openers, self.clock, LoadShedder(self.limit), self.credentials
        self.admission = AdmissionHandler(*parts, disk_reserve, self.rounds.damaged_keys)
        signers = [self.parties.operator.public], [self.parties.shuffler.public]
        self.enrollment = EnrollmentControl(
            self.credentials, self.store, *signers, self.clock, Rate(self.rate, self.clock)
        )
        await self.enrollment.start()
        self.control = Control(self.tasks, self.store, self.rounds, self.clock, self.enrollment)
        await self.rounds.start()
        if ready:
            await self.until(lambda: self.has_keys or self.state not in (None, RoundState.OPEN))

    async def _pause(self, _seconds: float) -> None:
        self.pauses += 1
        await asyncio.sleep(0)

    def found(self, round_number: int = 0) -> Round | None:
        """A round as it is on disk, looked at without waiting."""
        return self.store._snapshot.rounds.get((self.task.id, round_number))

    @property
    def has_keys(self) -> bool:
        return self.has_keys_of(0)

    def has_keys_of(self, round_number: int) -> bool:
        found = self.found(round_number)
        return found is not None and found.keys is not None

    @property
    def state(self) -> RoundState | None:
        found = self.found()
        return None if found is None else found.state

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that other coroutines and the store's thread bring about."""
        async with asyncio.timeout(CALL_SECONDS):
            while not condition():  # noqa: ASYNC110 - the store's thread has no event of the loop to set
                await asyncio.sleep(0)

    async def stop(self) -> None:
        await self.rounds.stop()
        await self.openers.close()
        self.store.close()

    async def kill(self) -> None:
        """Go on with the files as they are on disk at this moment."""
        self._lives += 1
        folder = self._base / str(self._lives)
        folder.mkdir(mode=0o700)
        for name in ("shuffler.db", "shuffler.db-wal"):
            if (self.folder / name).exists():
                shutil.copy(self.folder / name, folder / name)
        await self.stop()
        self.folder = folder

    async def cut(self, round_number: int = 0) -> None:
        """Move the clock to a round's cut."""
        self.clock.now = float(self.task.schedule.cut(round_number))
        self.rounds.timer.recheck()

    async def over(self, *states: RoundState) -> None:
        await self.until(lambda: self.state in (states or (RoundState.ERASED, RoundState.EXPIRED)))

    # Devices

    async def destination(self, round_number: int = 0) -> Destination:
        key_set = await self.admission.get_round(self.task.id, round_number)
        return Destination(self.task.id, round_number, key_set.hash)

    async def seal(self, symbols: Sequence[tuple[int, int]], round_number: int = 0) -> list[Submission]:
        key_set = await self.admission.get_round(self.task.id, round_number)
        records = key_set.read(
            self.task.id, round_number, self.task.suite, self.parties.shuffler.public, self.parties.analyzer.public
        )
        destination = Destination(self.task.id, round_number, key_set.hash)
        shuffler, analyzer = (record.public_key for record in records)
        sealer = Sealer(destination, shuffler, analyzer, self.task.hpke)
        submissions = []
        for pair in symbols:
            submission_id = os.urandom(16)
            inners = [sealer.inner(report(answer), query) for query, answer in enumerate(pair)]
            submissions.append(Submission(submission_id, sealer.outer(inners, submission_id)))
        return submissions

    async def send(self, submissions: Sequence[Submission], destination: Destination | None = None) -> list[Answer]:
        """Submit in small calls, which are opened in a thread."""
        destination = destination or await self.destination()
        answers: list[Answer] = []
        for start in range(0, len(submissions), 10):
            answers += await self.admission.submit(destination, submissions[start : start + 10])
        return answers

    async def fill(self, count: int = MINIMUM, round_number: int = 0) -> list[Submission]:
        """Have `count` devices submit; device i answers (i mod 3, i mod 9)."""
        submissions = await self.seal([(i % 3, i % 9) for i in range(count)], round_number)
        answers = await self.send(submissions, await self.destination(round_number))
        assert all(isinstance(answer, Receipt) for answer in answers)
        return submissions

    async def status(self, round_number: int = 0) -> RoundStatus:
        return next(status for status in await self.control.get_status(None) if status.round == round_number)

    async def live(self, round_number: int, count: int = MINIMUM) -> RoundStatus:
        """Have a round of a closed task run from its opening to its end, and return how it ended."""
        self.clock.now = max(self.clock.now, float(self.task.schedule.opens(round_number)))
        self.rounds.timer.recheck()
        await self.until(lambda: self.has_keys_of(round_number))
        await self.fill(count, round_number)
        await self.cut(round_number)
        round_ = self.found(round_number)
        if round_ is not None:
            await self.rounds.settled(round_)
        return await self.status(round_number)

    def bytes_on_disk(self) -> bytes:
        """Everything that is in the folder's files."""
        return b"".join(path.read_bytes() for path in sorted(self.folder.iterdir()))


def reason(answer: Answer) -> Reason:
    assert isinstance(answer, Refusal)
    return answer.reason


def unreachable(*calls: str) -> Callable[[str], None]:
    """Incident: these calls are not answered."""

    def incident(call: str) -> None:
        if call in calls:
            raise Unreachable("the analyzer did not answer: down")

    return incident
