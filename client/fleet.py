"""Many devices in one place: the fleet is given their answers, and randomizes, seals and sends for all of them."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from hubbub.client.blocking import in_thread
from hubbub.client.enrollment.credentials import Refused, tickets_of
from hubbub.client.errors import OptedOut, OverLimit
from hubbub.client.limits import PrivacyLimits
from hubbub.client.privacy.certificates import CertifiedLoss
from hubbub.client.privacy.report import Budget
from hubbub.client.session.batching import PER_CALL, chunks, most_per_call
from hubbub.client.session.rounds import VerifiedRoundKeys, check_taken
from hubbub.client.session.session import OVER, Session, checked_name
from hubbub.client.settings import FleetArguments, arguments_from
from hubbub.client.state.longitudinal import MemoryMoved, MemoryUpdate
from hubbub.client.state.rounds import DONE, ERASED_HERE, Drawn, RoundRef, StoredSubmission
from hubbub.client.submit import Retrying, explained, submit_batch
from hubbub.client.validation import NotCopied, checked_function, checked_many, checked_whole
from hubbub.protos.errors import HubbubError, Unreachable, UsageError
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Answer, Receipt, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Sealer
from hubbub.protos.task.task import Task
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.sampling import Random, drawn_ahead

BAD_ANSWER = "bad_answer"
"""The reason that counts devices whose answers did not fit their queries; nothing was sent for them."""

OPTED_OUT = "opted_out"
"""The reason that counts devices that have opted out; nothing was sent for them."""

OVER_LIMIT = "over_limit"
"""The reason that counts devices that would have passed a limit; nothing was drawn or sent for them."""

_HAS_OPTED_OUT = "the device has opted out"

PREPARED_CALLS = 10
"""The submissions of this many calls are sealed together and stored in one transaction: a commit costs a disk sync."""

CHUNKS = 2
"""How many of these chunks are being sent at a time, while the next one is prepared."""

Answers = tuple[str, Mapping[str, Value]]
"""A device's name, which is never sent, and its answers by query."""


@dataclass
class Summary:
    """What became of many devices' answers.

    Attributes:
        accepted: how many devices the shuffler acknowledged.
        refused: how many were refused, by reason.
        messages: each reason's first message.
    """

    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)

    def refuse(self, reason: str, message: str, devices: int) -> None:
        """Count a refusal."""
        self.refused[reason] += devices
        self.messages.setdefault(reason, message)

    def add(self, other: Summary) -> None:
        """Add another's counts."""
        self.accepted += other.accepted
        for reason, devices in other.refused.items():
            self.refuse(reason, other.messages[reason], devices)

    @property
    def devices(self) -> int:
        """How many devices were processed."""
        return self.accepted + self.refused.total()


@dataclass(frozen=True)
class _PreparedSubmission:
    """A device's stored submission, and how often `submit_many` got the device."""

    device: str
    submission: Submission
    mentions: int


class _ReportedSummary:
    """The counts so far; `progress` is called with each addition."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self.summary = Summary()
        self._progress = progress

    def add(self, summary: Summary) -> None:
        self.summary.add(summary)
        if self._progress is not None and summary.devices:
            self._progress(summary.devices)


@dataclass(frozen=True)
class _FleetCall:
    """The values of one call of `submit_many`: the round, its keys, and how much is sent at a time."""

    of: RoundRef
    keys: VerifiedRoundKeys
    tally: _ReportedSummary
    per_call: int
    slots: asyncio.Semaphore
    group: asyncio.TaskGroup


class Fleet(NotCopied):
    """Many devices in one place: answers a task's rounds for all of them, from one state file.

    A fleet sees each device's answers before they are randomized. It is on the device's side, and nothing protects the
    answers from it. A `Gateway` carries submissions of devices that need not trust it.

    It takes the arguments of `Device` except `name`, `certificate` and `key`. Instead of `ticket` it takes `tickets`: a
    mapping by the device's name, or a function of it, each with what `Device` takes as its ticket. It treats each
    device as `Device` does: it randomizes and seals the answers once a round, and limits count for each device
    separately. It does not send acknowledged submissions again; it sends the others again with the same bytes.

    Raises:
        UsageError, AuthorityError, SignatureError, TaskError: as `Device` does; UsageError too if the task admits
            devices by certificate.
    """

    def __init__(
        self,
        task: bytes,
        *,
        operator_key: bytes,
        shuffler_key: bytes,
        state: Path,
        shuffler: str,
        authority: Path | bytes,
        log_proof: bytes | None = None,
        tickets: Mapping[str, Path | bytes] | Callable[[str], Path | bytes | None] | None = None,
        proxy: str | None = None,
        relay: str | None = None,
        retrying: Retrying | None = None,
        limits: PrivacyLimits | None = None,
        random: Random = os.urandom,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._session = Session(
            task,
            operator_key=operator_key,
            shuffler_key=shuffler_key,
            state=state,
            shuffler=shuffler,
            authority=authority,
            log_proof=log_proof,
            retrying=retrying,
            limits=limits,
            random=random,
            clock=clock,
            tickets=tickets_of(tickets),
            proxy=proxy,
            relay=relay,
        )
        self._state = self._session.state

    @classmethod
    def from_settings(
        cls,
        file: Path | str | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        **arguments: Unpack[FleetArguments],
    ) -> Self:
        """Make a fleet from arguments, variables and a settings file, as `Device.from_settings` does.

        The settings of one device alone, such as its ticket, are not used.

        Raises:
            SettingsError, UsageError: as `Device.from_settings` does; and what `Fleet` raises.
        """
        return cls(**arguments_from(FleetArguments, file, environment, arguments))

    @property
    def task(self) -> Task:
        """The task. Identities that have a successor are replaced by it, once the fleet has learned of it."""
        return self._session.task

    def __repr__(self) -> str:
        """Return the task's name, its id and the shuffler, as `repr` of a `Device` does."""
        task = self.task
        return f"Fleet(task={task.name!r}, id={task.id.hex()[:16]}, shuffler={self._session.address!r})"

    async def __aenter__(self) -> Self:
        await self._session.link.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.link.__aexit__(kind, error, trace)
        self._session.state.close()

    async def close(self) -> None:
        """Close this event loop's connection, and the state file; the next use opens them again."""
        await self._session.close()

    def add_certificate(self, certificate: bytes) -> CertifiedLoss:
        """Store the central ε that a round's certificate proves for this task; see `Device.add_certificate`."""
        return self._session.add_certificate(certificate)

    def budget(self, device: str) -> Budget:
        """Return the ε that a device has spent today and on each task, for all tasks that use this state file.

        Raises:
            AnswerError: if no device can have that name.
            StateError: if the state file cannot be used.
        """
        return self._session.budget(checked_name(device))

    async def submit_many(
        self,
        answers: Iterable[Answers],
        round: int | None = None,  # noqa: A002 - its name
        *,
        progress: Callable[[int], None] | None = None,
        per_call: int | None = None,
        calls: int = 8,
    ) -> Summary:
        """Answer a round, the current one by default, for every (device, answers); return the counts.

        A device that occurs twice counts twice, and its first answers are sent. `progress` is called with the number of
        devices that were processed since its last call. `per_call` submissions go in one call, 100 by default, or fewer
        if those do not fit. At most `calls` calls are made at a time.

        Raises:
            UsageError: if `answers` is a mapping, because iterating it yields only its keys, or has what is no pair.
            HubbubError: if `per_call` or `calls` is out of range; nothing was stored or sent.
            NoRound, KeyRecordError, SignatureError, KeySetChanged, StateError: as `Device.submit` does. A fleet keeps
                no answers to a round that begins later.
            Refusal: if the shuffler refuses to return the round's keys.
            Unreachable: if the shuffler does not answer; another call continues from there.
        """
        if isinstance(answers, Mapping):
            raise UsageError("answers is a mapping; give pairs of a device and its answers, such as its items()")
        checked_many(answers, "answers", "pairs of a device and its answers")
        if progress is not None:
            checked_function(progress, "progress", "nothing")
        most = most_per_call(self.task.outer_bytes)
        per_call = min(PER_CALL, most) if per_call is None else checked_whole(per_call, "per_call")
        if not 1 <= per_call <= most or checked_whole(calls, "calls") < 1:
            raise HubbubError(
                f"got per_call {per_call} and calls {calls}; give a per_call of 1 to {most}, and calls of 1 or more"
            )
        of, known = await self._begin(round)
        try:
            session = self._session
            key_set = await session.fetch(session.link, of, session.retrying) if known is None else known
        except Unreachable as error:
            raise explained(error, "none of these answers was stored; call again later") from error
        keys = await self._trust(of, key_set, fetched=known is None)
        tally = _ReportedSummary(progress)
        try:
            async with asyncio.TaskGroup() as group:
                sending = _FleetCall(of, keys, tally, per_call, asyncio.Semaphore(calls), group)
                await self._carry_all(sending, answers)
        except BaseExceptionGroup as failures:
            # The first failure cancelled the other calls; callers expect it as it is, without a group.
            raise failures.exceptions[0] from None
        # Once for all calls, because it takes a sync of the disk.
        await self._empty_log()
        return tally.summary

    @in_thread
    def _begin(self, wanted: int | None) -> tuple[RoundRef, KeySet | None]:
        """Forget the rounds that are over; return the round to answer, and its keys if they are stored."""
        now = self._session.clock()
        of = self._session.choose(wanted, now)
        check_taken(self._session.task, of.number, now)
        self._state.forget(now)
        return of, self._state.key_set(of)

    @in_thread
    def _trust(self, of: RoundRef, key_set: KeySet, *, fetched: bool) -> VerifiedRoundKeys:
        """Check a round's keys and return them; keys that were fetched are stored."""
        return self._session.trust(of, key_set, fetched=fetched)

    @in_thread
    def _settle(self, of: RoundRef, outcomes: Mapping[str, str]) -> None:
        """Record the outcomes of submissions."""
        self._state.settle(of, outcomes)

    @in_thread
    def _empty_log(self) -> None:
        """Remove erased data from the write-ahead log."""
        self._state.empty_log()

    async def _carry_all(self, sending: _FleetCall, answers: Iterable[Answers]) -> None:
        """Prepare one chunk of devices after the other, while the chunks before it are sent."""
        sealer = sending.keys.sealer(self._session.clock())
        ahead = asyncio.Semaphore(CHUNKS)
        for chunk in chunks(answers, sending.per_call * PREPARED_CALLS):
            sealed_submissions, settled = await self._prepare(sending.of, sealer, chunk)
            sending.tally.add(settled)
            # Waiting before the task is made keeps at most CHUNKS other chunks in memory.
            await ahead.acquire()
            begun = sending.group.create_task(self._carry_chunk(sending, sealed_submissions))
            begun.add_done_callback(lambda _: ahead.release())

    @in_thread
    def _prepare(
        self, of: RoundRef, sealer: Sealer, chunk: Sequence[Answers]
    ) -> tuple[list[_PreparedSubmission], Summary]:
        """Return the submissions to send, all stored on disk, and the counts of devices that need no sending."""
        while True:
            try:
                return self._prepared(of, sealer, chunk)
            except MemoryMoved:
                # Another process answered for one of these devices meanwhile, so nothing was stored: draw again.
                continue

    def _prepared(
        self, of: RoundRef, sealer: Sealer, chunk: Sequence[Answers]
    ) -> tuple[list[_PreparedSubmission], Summary]:
        settled = Summary()
        first, mentions = _by_device(chunk, settled)
        for device in self._state.opted_out(first):
            settled.refuse(OPTED_OUT, _HAS_OPTED_OUT, mentions[device])
            del first[device]
        session = self._session
        entries, answer_cost = self._stored(of, sealer, first), session.answer_cost(session.clock())
        asked = [device for device in first if device not in entries]
        refused: dict[str, OptedOut | OverLimit] = {}
        refused |= self._state.refusals(of, asked, answer_cost)
        drawn: dict[str, Drawn] = {}
        steps: dict[str, MemoryUpdate] = {}
        kept = self._state.memories(session.task.id, asked) if session.remembers else {}
        random = drawn_ahead(session.random)
        for device, answers in first.items():
            if device in refused:
                continue
            try:
                if device not in entries:
                    drawn[device], step = session.draw(answers, of.number, kept.get(device), random)
                    steps |= {device: step} if step is not None else {}
            except AnswerError as error:
                settled.refuse(BAD_ANSWER, str(error), mentions[device])
        # All draws first, and then all seals: a draw between seals takes twice as long, by the processor's caches.
        fresh = {device: session.sealed(sealer, one) for device, one in drawn.items()}
        if fresh:
            # `keep` returns what is on disk. That may be another process's submission for the device, not this one.
            stored, refused_now = self._state.keep(of, fresh, answer_cost, steps)
            entries, refused = entries | stored, refused | refused_now
        for device, reason in refused.items():
            if isinstance(reason, OptedOut):
                settled.refuse(OPTED_OUT, _HAS_OPTED_OUT, mentions[device])
            else:
                settled.refuse(OVER_LIMIT, str(reason), mentions[device])
        return _sealed_submissions(entries, mentions, settled), settled

    def _stored(self, of: RoundRef, sealer: Sealer, devices: Collection[str]) -> dict[str, StoredSubmission]:
        """Return the stored submissions of these devices, sealed.

        A `Device` that shares the file may have stored reports without having the round's keys.
        """
        entries = self._state.find(of, devices)
        drawn = {device: entry.drawn for device, entry in entries.items() if entry.drawn is not None}
        if not drawn:
            return entries
        sealed = self._state.seal(of, {device: self._session.sealed(sealer, one) for device, one in drawn.items()})
        # If a device's reports were erased meanwhile, the device counts as one without an entry.
        return {device: entry for device, entry in entries.items() if device not in drawn} | sealed

    async def _carry_chunk(self, sending: _FleetCall, sealed_submissions: Sequence[_PreparedSubmission]) -> None:
        """Prove a chunk's submissions, and send them in as many calls as needed."""
        # Tickets of the whole chunk are redeemed together, because each call and commit has a high fixed cost.
        async with sending.slots:
            proven, refused = await self._proven(sending, sealed_submissions)
        await self._note(sending, [each for each in sealed_submissions if each.device in refused], refused)
        for load in chunks(proven, sending.per_call):
            # Waiting before the task is made: a task that exists can then send at once.
            await sending.slots.acquire()
            begun = sending.group.create_task(self._carry(sending, load))
            begun.add_done_callback(lambda _: sending.slots.release())

    async def _carry(self, sending: _FleetCall, load: Sequence[_PreparedSubmission]) -> None:
        """Send one call's submissions, and record the outcome of each."""
        load, settled = await self._still_stored(sending.of, load)
        sending.tally.add(settled)
        answers = await self._sent(sending, load)
        stale = [sealed_submission for sealed_submission in load if _is_stale(answers[sealed_submission.device])]
        if stale:
            # Try once more, with a credential under the master key that is active now, and no further time.
            proven, refused = await self._proven(sending, stale, anew=True)
            answers |= await self._sent(sending, proven)
            answers.update(refused)
        await self._note(sending, load, answers)

    @in_thread
    def _still_stored(
        self, of: RoundRef, load: Sequence[_PreparedSubmission]
    ) -> tuple[list[_PreparedSubmission], Summary]:
        """Return the submissions that are still to be sent, and count the others.

        A call may wait for minutes. Meanwhile another thread or process may have erased a device's submission.
        """
        entries, settled = self._state.find(of, [each.device for each in load]), Summary()
        gone = {device: entry for device, entry in entries.items() if entry.submission is None}
        _sealed_submissions(gone, Counter({each.device: each.mentions for each in load}), settled)
        return [each for each in load if each.device not in gone], settled

    async def _proven(
        self, sending: _FleetCall, sealed_submissions: Sequence[_PreparedSubmission], *, anew: bool = False
    ) -> tuple[list[_PreparedSubmission], Refused]:
        """Return the sealed submissions with their devices' proofs, and the refusals of devices without a proof."""
        submissions = {
            sealed_submission.device: sealed_submission.submission for sealed_submission in sealed_submissions
        }
        with _kept_if_unreachable():
            session, to = self._session, sending.keys.destination
            proven, refused = await session.enrolled.proven(session.link, to, submissions, session.retrying, anew=anew)
        return [
            _PreparedSubmission(each.device, proven[each.device], each.mentions)
            for each in sealed_submissions
            if each.device in proven
        ], refused

    async def _sent(self, sending: _FleetCall, load: Sequence[_PreparedSubmission]) -> dict[str, Answer]:
        """Send submissions in one call; return the answers by device."""
        if not load:
            return {}
        submissions = [sealed_submission.submission for sealed_submission in load]
        with _kept_if_unreachable():
            session, to = self._session, sending.keys.destination
            answers = await submit_batch(session.link.caller, to, submissions, session.retrying)
        return {sealed_submission.device: answer for sealed_submission, answer in zip(load, answers, strict=True)}

    async def _note(
        self, sending: _FleetCall, load: Sequence[_PreparedSubmission], answers: Mapping[str, Answer]
    ) -> None:
        """Count the outcome of each submission, once it is on disk."""
        summary, outcomes = Summary(), dict[str, str]()
        for sealed_submission in load:
            answer = answers[sealed_submission.device]
            if isinstance(answer, Receipt):
                summary.accepted += sealed_submission.mentions
                outcomes[sealed_submission.device] = DONE
            else:
                summary.refuse(answer.reason.value, answer.message, sealed_submission.mentions)
                if answer.reason in OVER:
                    outcomes[sealed_submission.device] = answer.reason.value
        if outcomes:
            await self._settle(sending.of, outcomes)
        sending.tally.add(summary)


@contextmanager
def _kept_if_unreachable() -> Iterator[None]:
    try:
        yield
    except Unreachable as error:
        raise explained(error, "the sealed submissions are kept: call again to continue") from error


def _is_stale(answer: Answer) -> bool:
    return isinstance(answer, Refusal) and answer.reason is Reason.NOT_ENROLLED


def _by_device(chunk: Sequence[Answers], settled: Summary) -> tuple[dict[str, Mapping[str, Value]], Counter[str]]:
    """Return each device's first answers, and how often it occurs; names that cannot be stored are refused."""
    first: dict[str, Mapping[str, Value]] = {}
    mentions: Counter[str] = Counter()
    for one in chunk:
        device, answers = _pair(one)
        try:
            mentions[checked_name(device)] += 1
            first.setdefault(device, answers)
        except AnswerError as error:
            settled.refuse(BAD_ANSWER, str(error), 1)
    return first, mentions


def _pair(one: Answers) -> Answers:
    """Return a device and its answers, as they were given.

    Raises:
        UsageError: if they are no pair.
    """
    try:
        device, answers = one
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"answers has a {type(one).__name__} that is no pair of a device and its answers; give such pairs. Those "
            "before it may have been sent: call again with all, and nothing is sent twice"
        ) from error
    return device, answers


def _sealed_submissions(
    entries: Mapping[str, StoredSubmission], mentions: Counter[str], settled: Summary
) -> list[_PreparedSubmission]:
    """Return the submissions without an outcome, which are to be sent, and count the others."""
    sealed_submissions = []
    for device, entry in entries.items():
        if entry.submission is not None:
            sealed_submissions.append(_PreparedSubmission(device, entry.submission, mentions[device]))
        elif entry.outcome == DONE:
            settled.accepted += mentions[device]
        elif entry.outcome == ERASED_HERE:
            settled.refuse(ERASED_HERE, "answered before; the stored submission was erased here", mentions[device])
        else:
            settled.refuse(
                str(entry.outcome), "the round took no more when it came; it was discarded", mentions[device]
            )
    return sealed_submissions
