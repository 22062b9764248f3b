"""Answering: how a device draws, stores, seals and sends its answers, each step as durable as `Device` says."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from hubbub.client.blocking import alone, aside
from hubbub.client.session.base import OVER, Participant
from hubbub.client.session.outcomes import erased_unsent, settled
from hubbub.client.session.rounds import RoundKeys
from hubbub.client.session.sealed_submission import Ending, Outcome, Parcel
from hubbub.client.session.send_time import draw_moment, wait_until
from hubbub.client.state.longitudinal import MemoryMoved
from hubbub.client.state.store import DONE, ERASED_HERE, Drawn, Entry, Round
from hubbub.client.submit import Link, Pacing, explained
from hubbub.protos.errors import Unreachable, UsageError
from hubbub.protos.messages import Receipt, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.schedule import forgotten_after
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value

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


class Answering(Participant):
    """What `Device` does, for the device that has `_name` in the state file."""

    _name: str

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
        receipts: list[Receipt] = []
        refusals: list[Refusal] = []
        for of in await self._waiting():
            stored = await aside(self._due, of, early)
            if stored is None:
                continue
            try:
                receipts.append(await self._deliver(link, of, stored, pacing))
            except Refusal as refusal:
                refusals.append(refusal)
        return receipts, refusals

    async def _waiting(self) -> list[Round]:
        """Return the rounds of which something waits to be sealed, sent or acknowledged; forget those that are over."""
        await aside(self._state.forget, self._clock())
        return [Round(self.task.id, number) for number in await aside(self._state.waiting, self.task.id, self._name)]

    def _due(self, of: Round, early: bool) -> Entry | None:
        """Return what is to be sent to a round, unless its moment is still to come."""
        stored = self._stored(of)
        # Another process that shares the file may have forgotten or settled the round since.
        if stored is None or stored.outcome is not None or (not early and stored.waits_for(self._clock()) > 0):
            return None
        return stored

    def _until_next(self) -> float:
        """In how many seconds the moment of the next that is stored comes; infinity where none is still to come."""
        now, entries = self._clock(), self._state.entries(self.task.id, self._name).values()
        return min((wait for entry in entries if (wait := entry.waits_for(now)) > 0), default=math.inf)

    async def _deliver(self, link: Link, of: Round, stored: Entry, pacing: Pacing, used: bool = True) -> Receipt:
        """Seal and send what is stored, and note the outcome, unless it has one; `used` is said in errors."""
        if stored.outcome is not None:
            return settled(of, stored)
        return await self._noted(of, used, self._seal_and_send(link, of, stored, pacing))

    async def _noted(self, of: Round, used: bool, work: Awaitable[T]) -> T:
        """Await what asks the shuffler something; where it fails, discard what is stored or say that it is kept."""
        try:
            return await work
        except Refusal as refusal:
            # Only a refusal for good erases what is stored; after any other it may be sent again.
            if refusal.reason not in OVER:
                raise explained(refusal, self._told(of, used)) from refusal
            await aside(self._settle, of, refusal.reason.value)
            raise
        except Unreachable as error:
            raise explained(error, self._told(of, used)) from error

    async def _seal_and_send(self, link: Link, of: Round, stored: Entry, pacing: Pacing) -> Receipt:
        to, sealed = await self._ready(link, of, stored, pacing)
        if sealed.submission is None:
            return settled(of, sealed)
        receipt = await self._enrolled.send(link, to, self._name, sealed.submission, pacing)
        await aside(self._settle, of, DONE)
        return receipt

    async def _ready(self, link: Link, of: Round, stored: Entry, pacing: Pacing) -> tuple[Destination, Entry]:
        """Return where to send what is stored, and the entry after it was sealed, where it was not."""
        keys = await self._keys(link, of, pacing)
        return keys.destination, stored if stored.drawn is None else await self._seal(of, keys, stored.drawn)

    # By other hands

    async def _prepare(
        self, link: Link, answers: Mapping[str, Value], wanted: int | None, seconds: float | None
    ) -> Parcel | None:
        self._check_carried()
        pacing = self._pacing.begun(seconds)
        of, stored, used = await aside(self._keep, answers, wanted, False)
        if stored.outcome is not None:
            settled(of, stored)
            return None
        return await self._noted(of, used, self._packed(link, of, stored, pacing))

    async def _parcels(self, link: Link, seconds: float | None, early: bool) -> list[Parcel]:
        self._check_carried()
        pacing = self._pacing.begun(seconds)
        parcels: list[Parcel] = []
        for of in await self._waiting():
            stored = await aside(self._due, of, early)
            if stored is not None and (one := await self._noted(of, True, self._packed(link, of, stored, pacing))):
                parcels.append(one)
        return parcels

    def _check_carried(self) -> None:
        if self.task.admission.mode is Mode.MTLS:
            raise UsageError(
                f"task {self.task.name} takes devices that show a certificate of their own, which nobody shows for "
                "them; submit() instead"
            )

    async def _packed(self, link: Link, of: Round, stored: Entry, pacing: Pacing) -> Parcel | None:
        """Return what is stored, sealed and proven. Made again, it is of the same bytes but for a newer proof."""
        to, sealed = await self._ready(link, of, stored, pacing)
        if sealed.submission is None:
            settled(of, sealed)
            return None
        return Parcel(to, await self._enrolled.prove(link, to, self._name, sealed.submission, pacing))

    async def _take(self, link: Link, outcome: Outcome, seconds: float | None) -> DeviceReceipt:
        """Note what became of a parcel; the receipt, or the error that `submit` would have raised."""
        to, pacing = outcome.destination, self._pacing.begun(seconds)
        of = Round(to.task_id, to.round)
        stored = await aside(self._stored, of) if of.task_id == self.task.id else None
        # What was erased here has no id any more; below it is said to be erased.
        erased = stored is not None and stored.outcome == ERASED_HERE
        if stored is None or not (erased or stored.submission_id == outcome.submission_id):
            raise UsageError(
                f"the outcome is of a submission to round {of.number} that this device has not stored: it is another "
                "device's or task's, or the round is over; nothing was changed"
            )
        if stored.outcome is None and outcome.ending is Ending.ACKNOWLEDGED:
            await aside(self._settle, of, DONE)
            return DeviceReceipt(outcome.submission_id, of.number)
        if stored.outcome is not None:
            return DeviceReceipt(settled(of, stored).submission_id, of.number, sent=False)
        return await self._noted(of, True, self._failed(link, outcome, stored, pacing))

    async def _failed(self, link: Link, outcome: Outcome, stored: Entry, pacing: Pacing) -> DeviceReceipt:
        """Raise what an outcome says; first get the credential again whose master key is gone, as `submit` does."""
        if outcome.reason is None:
            raise Unreachable(outcome.message or "the gateway could not hand the parcel over")
        lacks = outcome.reason is Reason.NOT_ENROLLED and self.task.admission.mode is Mode.ENROLLED
        if lacks and stored.submission is not None:
            await self._enrolled.prove(link, outcome.destination, self._name, stored.submission, pacing, anew=True)
        raise Refusal(outcome.reason, outcome.message)

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
