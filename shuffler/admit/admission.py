"""Each submission is checked (`checks`), opened and held, and gets a receipt; or it gets a typed refusal.

Everything that reaches this module is either acknowledged for the first time, a retry, or refused and counted by
reason; the three add up to what was received.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import structlog

from hubbub.protos.enrollment.credentials import pseudonyms_of
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Answer, Receipt, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.schedule import prepared_from
from hubbub.protos.task.task import Task
from hubbub.shuffler.admit.checks.capacity import full, overloaded
from hubbub.shuffler.admit.checks.check import Arrival
from hubbub.shuffler.admit.checks.credential import not_enrolled
from hubbub.shuffler.admit.checks.keys import damaged as key_damaged
from hubbub.shuffler.admit.checks.registry import refusals_of
from hubbub.shuffler.admit.checks.time import over
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.admit.disk_reserve import DiskReserve
from hubbub.shuffler.admit.load_shedding import LoadShedder
from hubbub.shuffler.admit.opening_pool import OuterOpening
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

DISK_SECONDS = 5.0
"""When a device may try again after the disk refused a write."""

_STORED = (InsertOutcome.STORED, InsertOutcome.DUPLICATE)
"""What became of a submission that gets a receipt."""

Clock = Callable[[], float]
_LOG = structlog.get_logger(__name__)


_DIGEST = hashlib.blake2b(digest_size=DIGEST_BYTES)
"""Nothing hashed yet: a copy of it takes half as long as beginning."""


def digest_of(envelope: bytes) -> bytes:
    """Return the digest (16 bytes) by which a retry is told from a conflict."""
    hashing = _DIGEST.copy()
    hashing.update(envelope)
    return hashing.digest()


class AdmissionHandler:
    """Answers devices (`SubmissionHandler`); `queue` says how many submissions may be in work.

    `damaged` holds the `Round.key` of rounds whose private key opens nothing, as it grows.
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
    ) -> None:
        self._tasks = tasks
        self._store = store
        self._openers = openers
        self._clock = clock
        self._load_shedder = load_shedder
        self._credentials = credentials or Credentials()
        self._disk_reserve = disk_reserve
        self._damaged = damaged
        self._full: set[int] = set()

    @property
    def in_work(self) -> int:
        """How many submissions are in work."""
        return self._load_shedder.in_work

    # Keys

    async def get_round(self, task_id: bytes, round_number: int) -> KeySet:
        """Return a round's keys.

        Raises:
            Refusal: UNKNOWN_TASK, UNKNOWN_ROUND, TOO_EARLY, TOO_LATE, ERASED, OVER_BUDGET or NOT_READY.
        """
        task = self._task(task_id)
        round_ = await self._round(task, round_number)
        refusal = over(task, round_, self._clock())
        if refusal is not None:
            raise refusal
        if round_.key in self._damaged:
            # Before anything is drawn and charged on the device.
            raise key_damaged(round_.number)
        lineage = task.lineage
        successions = () if lineage is None else tuple(each.encode() for each in lineage.successions)
        return replace(self._keys(round_).key_set, successions=successions)

    def _task(self, task_id: bytes) -> Task:
        task = self._tasks.get(task_id)
        if task is None:
            raise Refusal(Reason.UNKNOWN_TASK, "this shuffler does not run that task; is the task file up to date?")
        return task

    async def _round(self, task: Task, number: int) -> Round:
        """Return the round, if it is prepared or was."""
        schedule, now = task.schedule, self._clock()
        if not 0 <= number < schedule.rounds:
            raise Refusal(Reason.UNKNOWN_ROUND, f"the task has rounds 0 to {schedule.rounds - 1}, not {number}")
        round_ = await self._store.find(task.id, number)
        if round_ is not None:
            return round_
        if now >= schedule.cut(number):
            raise Refusal(Reason.TOO_LATE, f"round {number} is over; {next_round(schedule, now, number)}")
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
        task = self._tasks.get(destination.task_id)
        try:
            known_task = self._task(destination.task_id)
            round_ = await self._round(known_task, destination.round)
        except Refusal as refusal:
            # Refusals for unknown tasks are counted together: invented ids must not fill the store.
            task_id = b"" if task is None else task.id
            self._store.count(task_id, ANY_ROUND, {refusal.reason.value: len(submissions)})
            return [refusal] * len(submissions)
        if self._load_shedder.overloaded:
            # Before anything is looked at: were a refusal as dear as half a receipt, twice as many devices as there is
            # time for would leave no time for any. What may never be taken learns that when it comes again.
            self._store.count(known_task.id, round_.number, {Reason.OVERLOADED.value: len(submissions)})
            return [overloaded(self._load_shedder.most)] * len(submissions)
        pseudonyms = self._pseudonyms(known_task, round_, destination, submissions, shown)
        answers, fresh = await self._look_up(known_task, round_, destination, submissions, pseudonyms)
        if fresh:
            taken = [submissions[index] for index in fresh], [pseudonyms[index] or b"" for index in fresh]
            found = await self._take(known_task, round_, *taken)
            for index, answer in zip(fresh, found, strict=True):
                answers[index] = answer
        return [answer for answer in answers if answer is not None]

    def refused(self, destination: Destination | None, reason: Reason, count: int) -> None:
        """Count submissions that were refused before they came to `submit`; None if nobody can say where to."""
        if destination is None or destination.task_id not in self._tasks:
            self._store.count(b"", ANY_ROUND, {reason.value: count})
            return
        self._store.count(destination.task_id, destination.round, {reason.value: count})

    def _pseudonyms(
        self,
        task: Task,
        round_: Round,
        destination: Destination,
        submissions: Sequence[Submission],
        shown: bytes | None,
    ) -> list[bytes | None]:
        """Return the ids under which submissions are held; None for those that no admitted device is proven to send.

        Where devices are enrolled or show certificates, it is their pseudonym in the round, so that each has one;
        elsewhere it is the submission's own id.
        """
        keys = round_.keys
        # Without keys, or over, nothing is held or taken whoever sends it; the checks say why.
        mode = task.admission.mode
        if mode is Mode.OPEN or keys is None or is_over(round_):
            return [submission.id for submission in submissions]
        by_mtls = mode is Mode.MTLS
        numbers = [shown] * len(submissions) if by_mtls else self._credentials.numbers(destination, submissions)
        pseudonyms = pseudonyms_of(keys.pseudonym_key)
        return [None if number is None else pseudonyms.of(number) for number in numbers]

    async def _look_up(
        self,
        task: Task,
        round_: Round,
        destination: Destination,
        submissions: Sequence[Submission],
        pseudonyms: Sequence[bytes | None],
    ) -> tuple[list[Answer | None], list[int]]:
        """Answer retries and what can be refused without opening; return the indexes of what is left."""
        held = await self._store.submissions(round_)
        known = await self._store.known(round_, [pseudonym for pseudonym in pseudonyms if pseudonym is not None])
        # From here on nothing is waited for: what there is room for now is taken into work below.
        # A retry is not a new submission: it gets its receipt again, whatever the checks would say by now.
        answers = self._recognised(task, round_, submissions, pseudonyms, known)
        asked = [index for index, answer in enumerate(answers) if answer is None]
        # Mixing writes all that a round holds once more before it deletes any of it.
        needed = held * sum(task.inner_bytes)
        disk_full = None if self._disk_reserve is None else self._disk_reserve.refusal(task.name, needed)
        free, revoked = self._load_shedder.free, self._credentials.revoked.numbers
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

    def _recognised(
        self,
        task: Task,
        round_: Round,
        submissions: Sequence[Submission],
        pseudonyms: Sequence[bytes | None],
        known: Sequence[bytes | None],
    ) -> list[Answer | None]:
        """Answer what is held, by its digests in `known`, and what no device is proven to send; None for the rest."""
        digests = iter(known)
        return [
            self._unproven(task, round_)
            if pseudonym is None
            else None
            if (digest := next(digests)) is None
            else _known(task, round_, submission, digest)
            for submission, pseudonym in zip(submissions, pseudonyms, strict=True)
        ]

    def _count(self, task: Task, round_: Round, answers: Sequence[Answer | None]) -> None:
        counts = Counter(
            RETRIED if isinstance(answer, Receipt) else answer.reason.value for answer in answers if answer is not None
        )
        self._store.count(task.id, round_.number, counts)
        if Reason.ROUND_FULL.value in counts:
            self._say_full(task, round_)

    def _unproven(self, task: Task, round_: Round) -> Refusal:
        return not_ready(round_.number) if self._credentials.outdated else not_enrolled(task.admission)

    async def _take(
        self, task: Task, round_: Round, submissions: Sequence[Submission], pseudonyms: Sequence[bytes]
    ) -> list[Answer]:
        """Open submissions, and hold each under its id of `pseudonyms`."""
        keys = self._keys(round_)
        destination = Destination(task.id, round_.number, keys.key_set.hash)
        with self._load_shedder.track(len(submissions)):
            key = RoundKey(destination, keys.private_key, sum(task.inner_bytes), task.suite)
            plains = await self._openers.open(key, submissions)
            opened = [
                Opened(pseudonym, digest_of(submission.envelope), plain)
                for submission, pseudonym, plain in zip(submissions, pseudonyms, plains, strict=True)
                if plain is not None
            ]
            try:
                unopened = len(submissions) - len(opened)
                outcomes = iter(await self._store.insert(round_, opened, unopened, task.maximum_reports))
            except StoreError:
                # The device may send the same bytes again: whatever the disk did, it then gets its receipt.
                return self._not_stored(round_, len(submissions))
        return [
            _unopenable()
            if plain is None
            else Receipt(submission.id, round_.number)
            if (outcome := next(outcomes)) in _STORED
            else self._not_inserted(task, round_, outcome)
            for submission, plain in zip(submissions, plains, strict=True)
        ]

    def _not_stored(self, round_: Round, count: int) -> list[Answer]:
        self._store.count(round_.task_id, round_.number, {Reason.OVERLOADED.value: count})
        refusal = Refusal(Reason.OVERLOADED, "the shuffler cannot write to its disk now; try again later", DISK_SECONDS)
        return [refusal] * count

    def _not_inserted(self, task: Task, round_: Round, outcome: InsertOutcome) -> Refusal:
        if outcome is InsertOutcome.CUT:
            following = next_round(task.schedule, self._clock(), round_.number)
            return Refusal(Reason.TOO_LATE, f"round {round_.number} was cut meanwhile; {following}")
        if outcome is InsertOutcome.FULL:
            self._say_full(task, round_)
            return full(round_.number, task.maximum_reports)
        return _conflict(task)

    def _say_full(self, task: Task, round_: Round) -> None:
        """Log, once, that a round has turned the first submission away."""
        if round_.key not in self._full:
            self._full.add(round_.key)
            _LOG.warning("round full", task=task.name, round=round_.number, maximum_reports=task.maximum_reports)


def _known(task: Task, round_: Round, submission: Submission, digest: bytes) -> Answer:
    """Answer a submission under whose id that digest is held: by its first receipt if it is the same, at any time."""
    if digest == digest_of(submission.envelope):
        return Receipt(submission.id, round_.number)
    return _conflict(task)


def _conflict(task: Task) -> Refusal:
    if task.admission.mode is not Mode.OPEN:
        message = "this device has submitted other bytes to this round, and has one submission in it; answer the next"
        return Refusal(Reason.ID_CONFLICT, message)
    return Refusal(Reason.ID_CONFLICT, "other bytes are held under this id; resend the same bytes, or use a new id")


def _unopenable() -> Refusal:
    return Refusal(Reason.UNOPENABLE, "the envelope does not open with this round's key; seal again with a new id")
