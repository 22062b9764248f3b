"""Many devices in one place, whose answers it is given: it randomizes, seals and sends for all of them."""

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
from typing import Self

from hubbub.client.blocking import in_thread
from hubbub.client.enrollment.credentials import Refused, tickets_of
from hubbub.client.limits import PrivacyLimits
from hubbub.client.privacy.certificates import CertifiedLoss
from hubbub.client.privacy.report import Budget
from hubbub.client.session.batching import PER_CALL, chunks, most_per_call
from hubbub.client.session.rounds import VerifiedRoundKeys
from hubbub.client.session.session import OVER, Session, checked_name
from hubbub.client.state.enrollment import Tickets
from hubbub.client.state.longitudinal import MemoryMoved, MemoryUpdate
from hubbub.client.state.store import DONE, ERASED_HERE, RoundRef, StoredSubmission
from hubbub.client.submit import Retrying, explained, submit_batch
from hubbub.protos.errors import HubbubError, Unreachable, UsageError
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Answer, Receipt, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Sealer
from hubbub.protos.task.task import Task
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.sampling import Random

BAD_ANSWER = "bad_answer"
"""The reason that counts devices whose answers did not fit their queries; nothing was sent for them."""

OPTED_OUT = "opted_out"
"""The reason that counts devices that have opted out; nothing was sent for them."""

OVER_LIMIT = "over_limit"
"""The reason that counts devices that would have passed a limit; nothing was drawn or sent for them."""

PREPARED_CALLS = 10
"""The submissions of this many calls are sealed together and stored in one transaction: a commit costs a disk sync."""

CHUNKS = 2
"""So many of these are on their way at a time, while the next one is prepared."""

Answers = tuple[str, Mapping[str, Value]]
"""A device's name, which is never sent, and its answers by query."""


@dataclass
class Summary:
    """How many devices the shuffler acknowledged, how many were refused by reason, and each reason's first message."""

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
        """How many devices were dealt with."""
        return self.accepted + self.refused.total()


@dataclass(frozen=True)
class _PreparedSubmission:
    """A device's stored submission, and how often the device was named."""

    device: str
    submission: Submission
    mentions: int


class _ReportedSummary:
    """The counts so far; each addition is reported to `progress`."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self.summary = Summary()
        self._progress = progress

    def add(self, summary: Summary) -> None:
        self.summary.add(summary)
        if self._progress is not None and summary.devices:
            self._progress(summary.devices)


@dataclass(frozen=True)
class _FleetCall:
    """What one call of `submit_many` does: the round, its keys, and how much of it is done at a time."""

    of: RoundRef
    keys: VerifiedRoundKeys
    tally: _ReportedSummary
    per_call: int
    slots: asyncio.Semaphore
    group: asyncio.TaskGroup


class Fleet:
    """Many devices in one place: answers a task's rounds for all of them, from one state file.

    It sees each device's answers, before they are randomized: it stands where the devices do, and nothing is promised
    towards it. What carries submissions of devices that need not trust it is a `Gateway`.

    Takes the arguments of `Device` except `name`, and for `ticket` the `tickets` of its devices: by name, or a function
    that returns a device's. It treats each device as `Device` does: its answers are randomized
    and sealed once a round, within limits that count for each device alone. What was acknowledged is not sent again;
    the rest is sent again with the same bytes.
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
        tickets: Mapping[str, bytes] | Tickets | None = None,
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
            retrying=retrying,
            limits=limits,
            random=random,
            clock=clock,
            tickets=tickets_of(tickets),
        )
        self._state = self._session.state

    @property
    def task(self) -> Task:
        """The task, with the identities that follow those it names, once those were heard of."""
        return self._session.task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection and the state file; both are opened again where they are used again."""
        await self._session.close()

    def add_certificate(self, certificate: bytes) -> CertifiedLoss:
        """Take from a round's certificate what this task costs centrally; see `Device.add_certificate`."""
        return self._session.add_certificate(certificate)

    def budget(self, device: str) -> Budget:
        """Return the ε that a device has spent today and on each task, for all tasks that use this state file.

        Raises:
            AnswerError: where no device can have that name.
            StateError: where the state file cannot be used.
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

        A device that is named twice counts twice, and its first answers are sent. `progress` is called with the number
        of devices that were dealt with since its last call. `per_call` submissions go in one call, 100 where that many
        fit, and at most `calls` calls are made at a time.

        Raises:
            UsageError: for a mapping, whose keys alone would be gone through.
            NoRound, KeyRecordError, SignatureError, KeySetChanged, StateError: as `Device.submit` does.
            Refusal: where the round's keys are refused.
            Unreachable: where the shuffler does not answer; calling again goes on where this call ended.
        """
        if isinstance(answers, Mapping):
            raise UsageError("answers is a mapping; give pairs of a device and its answers, as its items() are")
        most = most_per_call(self.task.outer_bytes)
        per_call = min(PER_CALL, most) if per_call is None else per_call
        if not 1 <= per_call <= most or calls < 1:
            raise HubbubError(
                f"{per_call} submissions a call, {calls} calls at a time; take 1 to {most}, and 1 or more"
            )
        of, known = await self._begin(round)
        try:
            session = self._session
            key_set = await session.fetch(session.link, of, session.retrying) if known is None else known
        except Unreachable as error:
            raise explained(error, "none of these answers was stored, call again later") from error
        keys = await self._trust(of, key_set, fetched=known is None)
        tally = _ReportedSummary(progress)
        try:
            async with asyncio.TaskGroup() as group:
                sending = _FleetCall(of, keys, tally, per_call, asyncio.Semaphore(calls), group)
                await self._carry_all(sending, answers)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        # Once for all of them: it takes a sync of the disk, which each call would wait for.
        await self._empty_log()
        return tally.summary

    @in_thread
    def _begin(self, wanted: int | None) -> tuple[RoundRef, KeySet | None]:
        """Return the round to answer, and its keys where they were seen, after forgetting those that are over."""
        now = self._session.clock()
        of = self._session.choose(wanted, now)
        self._state.forget(now)
        return of, self._state.key_set(of)

    @in_thread
    def _trust(self, of: RoundRef, key_set: KeySet, *, fetched: bool) -> VerifiedRoundKeys:
        """Return a round's keys after checking them; those that were fetched are kept."""
        return self._session.trust(of, key_set, fetched=fetched)

    @in_thread
    def _settle(self, of: RoundRef, outcomes: Mapping[str, str]) -> None:
        """Record what became of submissions."""
        self._state.settle(of, outcomes)

    @in_thread
    def _empty_log(self) -> None:
        """Leave nothing in the write-ahead log of what was erased."""
        self._state.empty_log()

    async def _carry_all(self, sending: _FleetCall, answers: Iterable[Answers]) -> None:
        """Prepare one chunk of devices after the other, while the ones before are on their way."""
        sealer = sending.keys.sealer(self._session.clock())
        ahead = asyncio.Semaphore(CHUNKS)
        for chunk in chunks(answers, sending.per_call * PREPARED_CALLS):
            sealed_submissions, settled = await self._prepare(sending.of, sealer, chunk)
            sending.tally.add(settled)
            # Waiting here, before the task is made, keeps at most so many chunks in memory beside this one.
            await ahead.acquire()
            begun = sending.group.create_task(self._carry_chunk(sending, sealed_submissions))
            begun.add_done_callback(lambda _: ahead.release())

    @in_thread
    def _prepare(
        self, of: RoundRef, sealer: Sealer, chunk: Sequence[Answers]
    ) -> tuple[list[_PreparedSubmission], Summary]:
        """Return what is to be sent, all of it stored on disk, and the counts of what is settled without sending."""
        while True:
            try:
                return self._prepared(of, sealer, chunk)
            except MemoryMoved:
                # Another process answered for one of these devices meanwhile; nothing of ours was stored.
                continue

    def _prepared(
        self, of: RoundRef, sealer: Sealer, chunk: Sequence[Answers]
    ) -> tuple[list[_PreparedSubmission], Summary]:
        settled = Summary()
        first, mentions = _by_device(chunk, settled)
        for device in self._state.opted_out(first):
            settled.refuse(OPTED_OUT, "the device has opted out", mentions[device])
            del first[device]
        session = self._session
        entries, answer_cost = self._stored(of, sealer, first), session.answer_cost(session.clock())
        asked = [device for device in first if device not in entries]
        refused = self._state.refusals(of, asked, answer_cost)
        fresh: dict[str, Submission] = {}
        steps: dict[str, MemoryUpdate] = {}
        kept = self._state.memories(session.task.id, asked) if session.remembers else {}
        for device, answers in first.items():
            if device in refused:
                continue
            try:
                if device not in entries:
                    drawn, step = session.draw(answers, of.number, kept.get(device))
                    fresh[device] = session.sealed(sealer, drawn)
                    steps |= {device: step} if step is not None else {}
            except AnswerError as error:
                settled.refuse(BAD_ANSWER, str(error), mentions[device])
        if fresh:
            # `keep` returns what is on disk. That may be another process's submission for the device, not ours.
            stored, refused_now = self._state.keep(of, fresh, answer_cost, steps)
            entries, refused = entries | stored, refused | refused_now
        for device, reason in refused.items():
            settled.refuse(OVER_LIMIT, str(reason), mentions[device])
        return _sealed_submissions(entries, mentions, settled), settled

    def _stored(self, of: RoundRef, sealer: Sealer, devices: Collection[str]) -> dict[str, StoredSubmission]:
        """Return what these devices have stored, sealed: a device that shares the file may have lacked the keys."""
        entries = self._state.find(of, devices)
        drawn = {device: entry.drawn for device, entry in entries.items() if entry.drawn is not None}
        if not drawn:
            return entries
        sealed = self._state.seal(of, {device: self._session.sealed(sealer, one) for device, one in drawn.items()})
        # What was erased meanwhile is not on disk any more: the device is dealt with as one without an entry.
        return {device: entry for device, entry in entries.items() if device not in drawn} | sealed

    async def _carry_chunk(self, sending: _FleetCall, sealed_submissions: Sequence[_PreparedSubmission]) -> None:
        """Have a chunk's devices prove their submissions; send them off in as many calls as it takes."""
        # Tickets of the whole chunk are redeemed together: calls and commits cost much of what one ticket does.
        async with sending.slots:
            proven, refused = await self._proven(sending, sealed_submissions)
        await self._note(sending, [each for each in sealed_submissions if each.device in refused], refused)
        for load in chunks(proven, sending.per_call):
            # Waiting here, before the task is made: it begins at once.
            await sending.slots.acquire()
            begun = sending.group.create_task(self._carry(sending, load))
            begun.add_done_callback(lambda _: sending.slots.release())

    async def _carry(self, sending: _FleetCall, load: Sequence[_PreparedSubmission]) -> None:
        """Send one call's submissions, and note what became of each."""
        answers = await self._sent(sending, load)
        stale = [sealed_submission for sealed_submission in load if _is_stale(answers[sealed_submission.device])]
        if stale:
            # Once more with a credential under the master key that is active by now, and not again after that.
            proven, refused = await self._proven(sending, stale, anew=True)
            answers |= await self._sent(sending, proven)
            answers.update(refused)
        await self._note(sending, load, answers)

    async def _proven(
        self, sending: _FleetCall, sealed_submissions: Sequence[_PreparedSubmission], *, anew: bool = False
    ) -> tuple[list[_PreparedSubmission], Refused]:
        """Return the sealed submissions with their devices' own proofs, and why others have none."""
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
        """Count what became of each submission, once that is on disk."""
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
        raise explained(error, "what was sealed is kept: call again to go on") from error


def _is_stale(answer: Answer) -> bool:
    return isinstance(answer, Refusal) and answer.reason is Reason.NOT_ENROLLED


def _by_device(chunk: Sequence[Answers], settled: Summary) -> tuple[dict[str, Mapping[str, Value]], Counter[str]]:
    """Return each device's first answers, and how often it was named; names that cannot be stored are refused."""
    first: dict[str, Mapping[str, Value]] = {}
    mentions: Counter[str] = Counter()
    for device, answers in chunk:
        try:
            mentions[checked_name(device)] += 1
            first.setdefault(device, answers)
        except AnswerError as error:
            settled.refuse(BAD_ANSWER, str(error), 1)
    return first, mentions


def _sealed_submissions(
    entries: Mapping[str, StoredSubmission], mentions: Counter[str], settled: Summary
) -> list[_PreparedSubmission]:
    """Return the submissions that still wait to be sent, and count those that have an outcome."""
    sealed_submissions = []
    for device, entry in entries.items():
        if entry.submission is not None:
            sealed_submissions.append(_PreparedSubmission(device, entry.submission, mentions[device]))
        elif entry.outcome == DONE:
            settled.accepted += mentions[device]
        elif entry.outcome == ERASED_HERE:
            settled.refuse(ERASED_HERE, "answered before; what was stored was erased on this device", mentions[device])
        else:
            settled.refuse(str(entry.outcome), "the round was over when it came; it was discarded", mentions[device])
    return sealed_submissions
