"""Device: the class that an application embeds to answer a task's rounds for one person."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from hubbub.client.aside import alone, aside
from hubbub.client.enrolled import ticket_of
from hubbub.client.errors import UsageError
from hubbub.client.limits import Limits
from hubbub.client.memory import MemoryMoved
from hubbub.client.moment import draw_moment, wait_until
from hubbub.client.outcomes import erased_unsent, settled
from hubbub.client.participant import OVER, Participant, checked_name
from hubbub.client.rounds import RoundKeys
from hubbub.client.spent import Budget
from hubbub.client.standing import DeviceStatus, Memory, status_of
from hubbub.client.state import DONE, Drawn, Entry, Round
from hubbub.client.submit import Link, Pacing, explained
from hubbub.protos.errors import Unreachable
from hubbub.protos.messages import Receipt, Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.times import forgotten_after
from hubbub.queries.draws import Random
from hubbub.queries.errors import AnswerError
from hubbub.queries.question import Value

T = TypeVar("T")


@dataclass(frozen=True)
class DeviceReceipt(Receipt):
    """The shuffler's receipt, and whether it is for the answers of this call.

    `used` is False where the round had been answered before: those first answers stand, and the ones given now were not
    looked at. `sent` is False where the shuffler had acknowledged them before, so that this call had nothing to do.
    Receipts of one submission are equal whatever these say.
    """

    used: bool = field(default=True, compare=False)
    sent: bool = field(default=True, compare=False)


class Device(Participant):
    """Answers a task's rounds for one person.

    In each round the answers are randomized once, and stored before anything is sent or asked for. A second call for
    the round sends what was stored, or returns the first receipt. If the program is killed, or the shuffler cannot be
    reached, the next call or `resend` goes on with the same reports.

    Args:
        task: the signed task file's bytes.
        operator_key: the public key that must have signed it, known out of band (PEM, or 32 bytes).
        shuffler_key: the public key that must have signed it too, known out of band.
        state: the file to remember submissions in; made where it does not exist, readable by its owner alone.
        shuffler: host:port.
        authority: the authority of the shuffler's TLS certificate, a PEM file or its bytes. It is read at once.
        ticket: the ticket by which the operator enrolled this device, as bytes or as the file that holds it, for tasks
            that take enrolled devices. The device redeems it by itself, once, and keeps its credential in `state`.
        certificate, key: the device's TLS certificate and its key, PEM files, which it shows in tasks that admit by
            them (`mtls`), and in no others.
        name: which device this is, where several share a state file; it is never sent.
        pacing: how long to try, with which clock, pauses and jitter, and what to call before each pause.
        limits: the most ε to spend in a day and on a task; none by default.
        random: where every draw comes from, the operating system by default.
        clock: seconds since 1970, UTC.

    Raises:
        UsageError: where an argument is of another type, `shuffler` is not host:port, or `name` cannot be stored.
        AuthorityError: where the authority cannot be read.
        SignatureError: where a key is not one, or the task is not signed by both.
        TaskError: where the task is not one to run.
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
        ticket: Path | bytes | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        name: str = "",
        pacing: Pacing | None = None,
        limits: Limits | None = None,
        random: Random = os.urandom,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            task,
            operator_key=operator_key,
            shuffler_key=shuffler_key,
            state=state,
            shuffler=shuffler,
            authority=authority,
            pacing=pacing,
            limits=limits,
            random=random,
            clock=clock,
            tickets=ticket_of(ticket),
            shown=(certificate, key),
        )
        try:
            self._name = checked_name(name)
        except AnswerError as error:
            raise UsageError(f"name is {name!r:.80}; {error}") from error

    # Answering

    async def submit(
        self,
        answers: Mapping[str, Value],
        round: int | None = None,  # noqa: A002 - its name
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - for all calls to the shuffler, not for the whole
        spread: bool = False,
    ) -> DeviceReceipt:
        """Answer a round, the current one by default; return the shuffler's receipt.

        It is sent at once, so that whoever sees it arrive knows when it was answered. With `spread` the answers are
        stored at once, and nothing is asked for or sent before a moment that is drawn uniformly, once, from what is
        left of the round: this call waits for it, and a later one, after a restart, for the same.

        `answers` holds, by query: a category's name, a number in the query's unit, or None for no answer; a query that
        is not named has none. `timeout` is how many seconds to try, 60 where the pacing says nothing else. Where they
        do not suffice the answers stay stored, and `resend` sends them.

        Raises:
            AnswerError: where an answer does not fit; nothing was stored or sent.
            NoRound: where no round takes answers now.
            OptedOut: after `opt_out`.
            OverLimit: where it would spend more than the limits allow; nothing was drawn, stored or sent.
            KeyRecordError, SignatureError, KeySetChanged: where the round's keys are not to be trusted. The answers are
                kept, and nothing was sent.
            Refusal: where the shuffler refuses, with its reason. What came too late is discarded, else it is kept.
            Unreachable: where it does not answer; the answers are kept.
            StateError: where the state file cannot be used; nothing was sent.
        """
        return await self._submit(self._link, answers, round, timeout, spread)

    def submit_blocking(
        self,
        answers: Mapping[str, Value],
        round: int | None = None,  # noqa: A002 - its name
        *,
        timeout: float | None = None,
        spread: bool = False,
    ) -> DeviceReceipt:
        """Do what `submit` does, for programs without an event loop; leaves nothing open.

        Raises:
            UsageError: inside a running event loop; and what `submit` raises.
        """
        return self._blocking(lambda link: self._submit(link, answers, round, timeout, spread), "submit")

    def keep(
        self,
        answers: Mapping[str, Value],
        round: int | None = None,  # noqa: A002 - its name
        *,
        spread: bool = False,
    ) -> bool:
        """Randomize and store the answers to a round, the current one by default, for `resend` to send.

        With `spread` that is not before a moment drawn uniformly, once, from what is left of the round.

        Nothing is asked of anybody, and the file is synced: it takes milliseconds. Returns False where the round had
        been answered before: the first answers stand.

        Raises:
            AnswerError, NoRound, OptedOut, OverLimit, StateError: as `submit` does; nothing was stored.
        """
        return self._keep(answers, round, spread)[2]

    async def resend(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        early: bool = False,
    ) -> list[Receipt]:
        """Send what earlier calls stored for rounds that are not over, and got no receipt for; return the receipts.

        What has a moment that is still to come stays, unless `early` says to send that too.

        What waited until its round was over is erased unsent, and never sent in another round. `timeout` is how many
        seconds to try for all of them together.

        Raises:
            Refusal: the first, after the other rounds were sent too.
            Unreachable, StateError: as `submit` does.
        """
        return await self._resend(self._link, timeout, early)

    def resend_blocking(self, *, timeout: float | None = None, early: bool = False) -> list[Receipt]:
        """Do what `resend` does, for programs without an event loop; leaves nothing open.

        Raises:
            UsageError: inside a running event loop; and what `resend` raises.
        """
        return self._blocking(lambda link: self._resend(link, timeout, early), "resend")

    # Knowing, and deciding. These read and write the state file alone, which takes milliseconds, or up to 30 s while
    # another program holds it.

    def status(self) -> DeviceStatus:
        """Return the current and the next round, what became of this device's answers, and the local ε spent.

        Raises:
            StateError: where the state file cannot be used.
        """
        now, state, task_id = self._clock(), self._state, self.task.id
        state.forget(now)
        out = bool(state.opted_out([self._name]))
        entries, history = state.entries(task_id, self._name), state.history(task_id, self._name)
        return status_of(self.task, Memory(entries, history, state.last_forgotten(task_id), out), now)

    def budget(self) -> Budget:
        """Return the ε that this device has spent today and on each task, for all tasks that use this state file.

        Raises:
            StateError: where the state file cannot be used.
        """
        return self._budget(self._name)

    def opt_out(self) -> None:
        """Take and send nothing from now on, for any task that uses this state file and name, until `opt_in`.

        What waits to be sent is erased. What another thread or process is sending at this moment may still arrive. The
        choice is stored, and outlives the program.

        Raises:
            StateError: where it could not be stored.
        """
        self._state.opt_out(self._name)

    def opt_in(self) -> None:
        """Take answers again. A round whose answers may have been sent before the opt-out stays answered.

        Raises:
            StateError: where it could not be stored.
        """
        self._state.opt_in(self._name)

    def wipe(self) -> None:
        """Erase this device's reports, sealed bytes and submission ids, for all tasks.

        Remembered are: which rounds were answered, until they are over, and how many; otherwise a round could be
        answered twice, which costs privacy. What was spent, and the choice to opt out, are remembered too. To erase
        these as well, delete the state file, when the task's rounds are over.

        Raises:
            StateError: where they could not be erased.
        """
        self._state.wipe(self._name)

    # How

    def _blocking(self, work: Callable[[Link], Awaitable[T]], name: str) -> T:
        async def whole() -> T:
            async with self._new_link() as link:
                return await work(link)

        try:
            return alone(whole, name)
        finally:
            self._state.close()

    async def _submit(
        self, link: Link, answers: Mapping[str, Value], wanted: int | None, seconds: float | None, spread: bool
    ) -> DeviceReceipt:
        pacing = self._pacing.begun(seconds)
        of, stored, used = await aside(self._keep, answers, wanted, spread)
        if spread and stored.moment is not None and stored.outcome is None:
            stored = await self._at_its_moment(of, stored, stored.moment)
            pacing = self._pacing.begun(seconds)
        receipt = await self._deliver(link, of, stored, pacing, used)
        return DeviceReceipt(receipt.submission_id, receipt.round, used, sent=stored.outcome is None)

    async def _at_its_moment(self, of: Round, stored: Entry, moment: float) -> Entry:
        """Return what is to be sent, at its moment: it may have been sent, or erased by an opt-out, meanwhile."""
        if not await wait_until(moment, self._clock, self._pacing.sleep):
            return stored
        found = await aside(self._stored, of)
        if found is None:
            raise erased_unsent(of)
        return found

    def _keep(self, answers: Mapping[str, Value], wanted: int | None, spread: bool) -> tuple[Round, Entry, bool]:
        """Randomize and store, unless the round is answered; return what is stored, and whether it is of these answers.

        What was answered before stays, whatever it was: a round is answered once.
        """
        if not isinstance(answers, Mapping):
            raise AnswerError(f"answers are of type {type(answers).__name__}; give a mapping of queries to answers")
        of = self._choose(wanted)
        stored = self._stored(of)
        if stored is not None and not self._state.opted_out([self._name]):
            return of, stored, False
        bill = self._bill()
        for error in self._state.refusals(of, [self._name], bill).values():
            raise error
        over_at = forgotten_after(self.task.schedule, of.number)
        # Drawn once, like the reports: of two calls at a time, the one that stores first says both.
        moment = draw_moment(self.task.schedule, of.number, self._clock(), self._random) if spread else None
        while True:
            drawn, step = self._draw(answers, of.number, self._kept([self._name]).get(self._name))
            # If another call stored first, ours is dropped unsent.
            try:
                stored = self._state.keep_reports(of, self._name, drawn, over_at, bill, step, moment)
            except MemoryMoved:
                continue
            return of, stored, stored.submission_id == drawn.submission_id

    def _stored(self, of: Round) -> Entry | None:
        return self._state.find(of, [self._name]).get(self._name)

    async def _resend(self, link: Link, seconds: float | None, early: bool) -> list[Receipt]:
        receipts, refusals = await self._resend_all(link, seconds, early)
        if refusals:
            raise refusals[0]
        return receipts

    async def _resend_all(
        self, link: Link, seconds: float | None, early: bool = False
    ) -> tuple[list[Receipt], list[Refusal]]:
        """Send all whose moment has come, or all; return the receipts, and the refusals of those that were refused."""
        pacing = self._pacing.begun(seconds)
        await aside(self._state.forget, self._clock())
        receipts: list[Receipt] = []
        refusals: list[Refusal] = []
        for number in await aside(self._state.waiting, self.task.id, self._name):
            of = Round(self.task.id, number)
            stored = await aside(self._stored, of)
            # Another process that shares the file may have forgotten or settled the round since.
            if stored is None or stored.outcome is not None or (not early and stored.waits_for(self._clock()) > 0):
                continue
            try:
                receipts.append(await self._deliver(link, of, stored, pacing))
            except Refusal as refusal:
                refusals.append(refusal)
        return receipts, refusals

    def _until_next(self) -> float:
        """In how many seconds the moment of the next that is stored comes; infinity where none is still to come."""
        now, entries = self._clock(), self._state.entries(self.task.id, self._name).values()
        return min((wait for entry in entries if (wait := entry.waits_for(now)) > 0), default=math.inf)

    async def _deliver(self, link: Link, of: Round, stored: Entry, pacing: Pacing, used: bool = True) -> Receipt:
        """Seal and send what is stored, and note the outcome, unless it has one; `used` is said in errors."""
        if stored.outcome is not None:
            return settled(of, stored)
        try:
            return await self._seal_and_send(link, of, stored, pacing)
        except Refusal as refusal:
            # Only a refusal for good erases what is stored; after any other it may be sent again.
            if refusal.reason not in OVER:
                raise explained(refusal, self._told(of, used)) from refusal
            await aside(self._settle, of, refusal.reason.value)
            raise
        except Unreachable as error:
            raise explained(error, self._told(of, used)) from error

    async def _seal_and_send(self, link: Link, of: Round, stored: Entry, pacing: Pacing) -> Receipt:
        keys = await self._keys(link, of, pacing)
        if stored.drawn is not None:
            stored = await self._seal(of, keys, stored.drawn)
        if stored.submission is None:
            return settled(of, stored)
        receipt = await self._enrolled.send(link, keys.destination, self._name, stored.submission, pacing)
        await aside(self._settle, of, DONE)
        return receipt

    def _settle(self, of: Round, outcome: str) -> None:
        self._state.settle(of, {self._name: outcome})
        self._state.empty_log()

    async def _seal(self, of: Round, keys: RoundKeys, drawn: Drawn) -> Entry:
        submission: Submission = self._sealed(keys.sealer(self._clock()), drawn)
        found = await aside(self._state.seal, of, {self._name: submission})
        if self._name not in found:
            raise erased_unsent(of)
        return found[self._name]

    def _told(self, of: Round, used: bool) -> str:
        until = datetime.fromtimestamp(self.task.schedule.cut(of.number), UTC)
        kept = f"the answers {'' if used else 'given earlier '}to round {of.number} are kept on this device, randomized"
        unused = "" if used else ", and those of this call are not used"
        return f"{kept}{unused}: resend them, or submit again, before {until:%Y-%m-%dT%H:%M:%SZ}"
