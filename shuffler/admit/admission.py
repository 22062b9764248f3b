"""Checks each submission (`checks`), opens it and stores it; answers with a receipt or a typed refusal.

Each submission that arrives here is acknowledged for the first time, a retry, or refused and counted by reason. The
three counts add up to the number received.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

import structlog

from hubbub.protos.enrollment.credentials import pseudonyms_of
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Answer, Receipt, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.schedule import prepared_from
from hubbub.protos.task.task import Task, ended
from hubbub.shuffler.admit.checks.capacity import full, is_foreseen, overloaded, unavailable
from hubbub.shuffler.admit.checks.check import Arrival
from hubbub.shuffler.admit.checks.credential import not_enrolled
from hubbub.shuffler.admit.checks.keys import damaged as key_damaged
from hubbub.shuffler.admit.checks.registry import refusals_of
from hubbub.shuffler.admit.checks.time import over
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.admit.disk_reserve import DiskReserve
from hubbub.shuffler.admit.load_shedding import LoadShedder
from hubbub.shuffler.admit.openers import OuterOpening
from hubbub.shuffler.admit.opening_worker import RoundKey
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.records import (
    ANY_ROUND,
    DIGEST_BYTES,
    RETRIED,
    InsertOutcome,
    Opened,
    Round,
    StoreError,
    is_over,
    not_ready,
)
from hubbub.shuffler.stores.protocol import IngestStore
from hubbub.shuffler.tasks import Tasks, at, next_round

_STORED = (InsertOutcome.STORED, InsertOutcome.DUPLICATE)
"""Outcomes of a submission that gets a receipt."""

Clock = Callable[[], float]
_LOG = structlog.get_logger(__name__)


_DIGEST = hashlib.blake2b(digest_size=DIGEST_BYTES)
"""The hash of nothing: copying it takes half as long as making a new one."""


def digest_of(envelope: bytes) -> bytes:
    """Return the digest (16 bytes) that distinguishes a retry from a conflict."""
    hashing = _DIGEST.copy()
    hashing.update(envelope)
    return hashing.digest()


class AdmissionHandler:
    """Answers devices (`SubmissionHandler`). `load_shedder` limits how many submissions are in work.

    `damaged` has the `Round.key` of each round whose private key cannot open envelopes; others add to it. `seek` looks
    for a task that was published just now, before it is refused as unknown; it may raise another refusal.
    """

    def __init__(
        self,
        tasks: Tasks,
        store: IngestStore,
        openers: OuterOpening,
        clock: Clock,
        load_shedder: LoadShedder,
        credentials: Credentials | None = None,
        disk_reserve: DiskReserve | None = None,
        damaged: Collection[int] = frozenset(),
        seek: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> None:
        self._tasks = tasks
        self._store = store
        self._openers = openers
        self._clock = clock
        self._load_shedder = load_shedder
        self.credentials = credentials or Credentials()
        self._disk_reserve = disk_reserve
        self._damaged = damaged
        self._seek = seek
        self._full: set[int] = set()

    @property
    def in_work(self) -> int:
        """How many submissions are in work."""
        return self._load_shedder.in_work

    # Keys

    async def get_round(self, task_id: bytes, round_number: int) -> KeySet:
        """Return a round's keys.

        Raises:
            Refusal: UNKNOWN_TASK, UNKNOWN_ROUND, TASK_ENDED, TOO_EARLY, TOO_LATE, ERASED or NOT_READY.
        """
        try:
            task = await self._task(task_id)
            round_ = await self._round(task, round_number)
        except StoreError as error:
            if not is_foreseen(error):
                raise
            raise unavailable(error) from error
        refusal = over(task, round_, self._clock())
        if refusal is not None:
            raise refusal
        if round_.key in self._damaged:
            # Refused here, before the device draws a report and charges its budget.
            raise key_damaged(round_.number)
        lineage = task.lineage
        successions = () if lineage is None else tuple(each.encode() for each in lineage.successions)
        return replace(self._keys(round_).key_set, successions=successions)

    async def _task(self, task_id: bytes) -> Task:
        task = self._tasks.get(task_id)
        if task is None and self._seek is not None:
            await self._seek(task_id)
            task = self._tasks.get(task_id)
        if task is None:
            raise Refusal(
                Reason.UNKNOWN_TASK,
                "this shuffler does not run that task; use its current task file, or add this task to its `tasks`",
            )
        return task

    async def _round(self, task: Task, number: int) -> Round:
        """Return the round, if it is being prepared or began."""
        schedule, now = task.schedule, self._clock()
        if not 0 <= number < schedule.rounds:
            raise Refusal(
                Reason.UNKNOWN_ROUND, f"the task has rounds 0 to {schedule.rounds - 1}, not {number}; name one of these"
            )
        round_ = await self._store.find(task.id, number)
        if round_ is not None:
            return round_
        if number > task.last_round:
            raise ended(task)
        if now >= schedule.cut(number):
            raise Refusal(Reason.TOO_LATE, f"round {number} is over; {next_round(task, now, number)}")
        if now < prepared_from(schedule, number):
            opens = schedule.opens(number)
            raise Refusal(Reason.TOO_EARLY, f"round {number} opens at {at(opens)}, now is {at(now)}; wait until then")
        raise not_ready(number)

    def _keys(self, round_: Round) -> RoundKeyMaterial:
        if round_.keys is None:
            raise not_ready(round_.number)
        return round_.keys

    # Submissions

    async def submit(
        self, destination: Destination, submissions: Sequence[Submission], shown: bytes | None = None
    ) -> list[Answer]:
        """Answer each submission, in order; a receipt means that it is on disk.

        `shown` is the fingerprint of the certificate that the caller showed, None if it showed none.
        """
        try:
            return await self._answered(destination, submissions, shown)
        except StoreError as error:
            if not is_foreseen(error):
                raise
            # Counted together: invented ids must not fill the store.
            known = destination.task_id in self._tasks
            counted = (destination.task_id, destination.round) if known else (b"", ANY_ROUND)
            return self._not_stored(*counted, len(submissions), error)

    async def _answered(
        self, destination: Destination, submissions: Sequence[Submission], shown: bytes | None
    ) -> list[Answer]:
        try:
            known_task = await self._task(destination.task_id)
            round_ = await self._round(known_task, destination.round)
        except Refusal as refusal:
            # Refusals for unknown tasks are counted together: invented ids must not fill the store.
            task_id = destination.task_id if destination.task_id in self._tasks else b""
            self._store.count(task_id, ANY_ROUND, {refusal.reason.value: len(submissions)})
            return [refusal] * len(submissions)
        if self._load_shedder.overloaded:
            # Before any work: if a refusal cost half as much as a receipt, a load of twice the capacity would leave no
            # time for receipts. A submission that is refused for good learns so when it comes again.
            self._store.count(known_task.id, round_.number, {Reason.OVERLOADED.value: len(submissions)})
            return [overloaded(self._load_shedder.most)] * len(submissions)
        stored_ids = self._stored_ids(known_task, round_, destination, submissions, shown)
        answers, fresh = await self._look_up(known_task, round_, destination, submissions, stored_ids)
        if fresh:
            # A submission without an id was refused above.
            ids = [stored_id for index in fresh if (stored_id := stored_ids[index]) is not None]
            found = await self._take(known_task, round_, [submissions[index] for index in fresh], ids)
            for index, answer in zip(fresh, found, strict=True):
                answers[index] = answer
        return [answer for answer in answers if answer is not None]

    def refused(self, destination: Destination | None, reason: Reason, count: int) -> None:
        """Count submissions that were refused before they reached `submit`; `destination` is None if it is unknown."""
        if destination is None or destination.task_id not in self._tasks:
            self._store.count(b"", ANY_ROUND, {reason.value: count})
            return
        self._store.count(destination.task_id, destination.round, {reason.value: count})

    def _stored_ids(
        self,
        task: Task,
        round_: Round,
        destination: Destination,
        submissions: Sequence[Submission],
        shown: bytes | None,
    ) -> list[bytes | None]:
        """Return the ids under which submissions are stored; None if no admitted device is proven to have sent one.

        If devices are enrolled or show certificates, the id is the device's pseudonym in the round, so that each device
        has one submission. Otherwise it is the submission's own id.
        """
        keys = round_.keys
        # Without keys, or if the round is over, nothing is stored; the checks give the reason.
        mode = task.admission.mode
        if mode is Mode.OPEN or keys is None or is_over(round_):
            return [submission.id for submission in submissions]
        by_mtls = mode is Mode.MTLS
        numbers = [shown] * len(submissions) if by_mtls else self.credentials.numbers(destination, submissions)
        pseudonyms = pseudonyms_of(keys.pseudonym_key)
        return [None if number is None else pseudonyms.of(number) for number in numbers]

    async def _look_up(
        self,
        task: Task,
        round_: Round,
        destination: Destination,
        submissions: Sequence[Submission],
        stored_ids: Sequence[bytes | None],
    ) -> tuple[list[Answer | None], list[int]]:
        """Answer retries, and refuse what the checks refuse without opening; return the indexes of the rest."""
        held = await self._store.submissions(round_)
        known = await self._store.known(round_, [stored_id for stored_id in stored_ids if stored_id is not None])
        # No await from here on: the room that is free now is taken below. A retry is not a new submission: it gets its
        # receipt again, even if the checks would refuse it now.
        answers = self._recognized(task, round_, submissions, stored_ids, known)
        asked = [index for index, answer in enumerate(answers) if answer is None]
        # Mixing writes a round's whole content once more before it deletes any of it.
        needed = held * sum(task.inner_bytes)
        disk_full = None if self._disk_reserve is None else self._disk_reserve.refusal(task.name, needed)
        free, revoked = self._load_shedder.free, self.credentials.revoked.numbers
        unusable, now = round_.key in self._damaged, self._clock()
        arrival = Arrival(
            task, round_, destination, now, free, self._load_shedder.most, revoked, held, disk_full, unusable
        )
        refusals = refusals_of(arrival, [submissions[index] for index in asked])
        for index, refusal in zip(asked, refusals, strict=True):
            answers[index] = refusal
        fresh = [index for index in asked if answers[index] is None]
        if len(fresh) < len(answers):
            self._count(task, round_, answers)
        return answers, fresh

    def _recognized(
        self,
        task: Task,
        round_: Round,
        submissions: Sequence[Submission],
        stored_ids: Sequence[bytes | None],
        known: Sequence[bytes | None],
    ) -> list[Answer | None]:
        """Answer submissions that are stored (their digests are in `known`) or unproven; None for the rest."""
        # `known` has an entry for each submission with an id, in order, so `next` is called only for those.
        digests = iter(known)
        return [
            self._unproven(task, round_)
            if stored_id is None
            else None
            if (digest := next(digests)) is None
            else _known(task, round_, submission, digest)
            for submission, stored_id in zip(submissions, stored_ids, strict=True)
        ]

    def _count(self, task: Task, round_: Round, answers: Sequence[Answer | None]) -> None:
        counts = Counter(
            RETRIED if isinstance(answer, Receipt) else answer.reason.value for answer in answers if answer is not None
        )
        self._store.count(task.id, round_.number, counts)
        if Reason.ROUND_FULL.value in counts:
            self._say_full(task, round_)

    def _unproven(self, task: Task, round_: Round) -> Refusal:
        return not_ready(round_.number) if self.credentials.outdated else not_enrolled(task.admission)

    async def _take(
        self, task: Task, round_: Round, submissions: Sequence[Submission], stored_ids: Sequence[bytes]
    ) -> list[Answer]:
        """Open submissions, and store each under its id of `stored_ids`."""
        keys = self._keys(round_)
        destination = Destination(task.id, round_.number, keys.key_set.hash)
        with self._load_shedder.track(len(submissions)):
            key = RoundKey(destination, keys.private_key, sum(task.inner_bytes), task.suite)
            plains = await self._openers.open(key, submissions)
            opened = [
                Opened(stored_id, digest_of(submission.envelope), plain)
                for submission, stored_id, plain in zip(submissions, stored_ids, plains, strict=True)
                if plain is not None
            ]
            try:
                # One outcome comes for each submission that could be opened, in order; the answers below draw on them.
                unopened = len(submissions) - len(opened)
                outcomes = iter(await self._store.insert(round_, opened, unopened, task.maximum_reports))
            except StoreError as error:
                # Not stored, as far as the device knows. It sends the same bytes again, and gets its receipt either
                # way.
                return self._not_stored(round_.task_id, round_.number, len(submissions), error)
        return [
            _unopenable()
            if plain is None
            else Receipt(submission.id, round_.number)
            if (outcome := next(outcomes)) in _STORED
            else self._not_inserted(task, round_, outcome)
            for submission, plain in zip(submissions, plains, strict=True)
        ]

    def _not_stored(self, task_id: bytes, number: int, count: int, error: StoreError) -> list[Answer]:
        refusal = unavailable(error)
        self._store.count(task_id, number, {refusal.reason.value: count})
        return [refusal] * count

    def _not_inserted(self, task: Task, round_: Round, outcome: InsertOutcome) -> Refusal:
        if outcome is InsertOutcome.CUT:
            following = next_round(task, self._clock(), round_.number)
            return Refusal(Reason.TOO_LATE, f"round {round_.number} was cut meanwhile; {following}")
        if outcome is InsertOutcome.FULL:
            self._say_full(task, round_)
            return full(round_.number, task.maximum_reports)
        return _conflict(task)

    def _say_full(self, task: Task, round_: Round) -> None:
        """Log the first submission that a full round refuses, once for each round."""
        if round_.key not in self._full:
            self._full.add(round_.key)
            _LOG.warning("round full", task=task.name, round=round_.number, maximum_reports=task.maximum_reports)


def _known(task: Task, round_: Round, submission: Submission, digest: bytes) -> Answer:
    """Answer a submission whose id is stored: the same bytes, by their digest, get the receipt again at any time."""
    if digest == digest_of(submission.envelope):
        return Receipt(submission.id, round_.number)
    return _conflict(task)


def _conflict(task: Task) -> Refusal:
    if task.admission.mode is not Mode.OPEN:
        message = (
            "this device has already submitted other bytes to this round, and each device submits once; answer the "
            "next round, and give each device its own state file"
        )
        return Refusal(Reason.ID_CONFLICT, message)
    return Refusal(
        Reason.ID_CONFLICT,
        "other bytes are stored under this submission's id; send nothing more of this round, and give each device its "
        "own state file",
    )


def _unopenable() -> Refusal:
    return Refusal(
        Reason.UNOPENABLE,
        "the envelope does not open with this round's key; send nothing more of this round, and check the device's "
        "disk and its client",
    )
