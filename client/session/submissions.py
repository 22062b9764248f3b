"""Draws, stores, seals and sends a device's answers, each step as durable as `Device` promises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from hubbub.client.blocking import run_sync
from hubbub.client.session.sealed_submission import Ending, Outcome, SealedSubmission
from hubbub.client.session.send_time import wait_until
from hubbub.client.session.session import OVER, Session
from hubbub.client.session.unit_of_work import DeviceWork, Ready, Stored, erased_unsent, receipt_of
from hubbub.client.state.rounds import DONE, ERASED_HERE, RoundRef, StoredSubmission
from hubbub.client.submit import Retrying, ShufflerLink, explained
from hubbub.client.validation import checked_choice
from hubbub.protos.errors import Unreachable, UsageError
from hubbub.protos.messages import Receipt
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.admission import Mode
from hubbub.queries.questions.question import Value

T = TypeVar("T")


@dataclass(frozen=True)
class DeviceReceipt(Receipt):
    """The shuffler's receipt, and whether it is for the answers of this call.

    Receipts of one submission are equal for all values of `used` and `sent`.

    Attributes:
        used: False if the round was answered before. The first answers count, and those of this call were ignored.
        sent: False if the shuffler had acknowledged the submission before, so that this call sent nothing.
    """

    used: bool = field(default=True, compare=False)
    sent: bool = field(default=True, compare=False)


class Submissions:
    """The order of the steps by which one device submits, itself or through a gateway; `DeviceWork` has the steps."""

    def __init__(self, session: Session, work: DeviceWork) -> None:
        self._session = session
        self._work = work

    def blocking(self, work: Callable[[ShufflerLink], Awaitable[T]], name: str) -> T:
        """Do `work` with a new connection, in a program without an event loop; close connection and state file."""

        async def whole() -> T:
            async with self._session.new_link() as link:
                return await work(link)

        try:
            return run_sync(whole, name)
        finally:
            self._session.state.close()

    async def submit(
        self, link: ShufflerLink, answers: Mapping[str, Value], wanted: int | None, seconds: float | None, spread: bool
    ) -> DeviceReceipt:
        """Do what `Device.submit` promises."""
        checked_choice(spread, "spread")
        retrying = self._session.retrying.begun(seconds)
        stored = await self._work.kept(answers, wanted, spread, at_once=not spread)
        if spread and stored.entry.send_time is not None and stored.entry.outcome is None:
            stored = await self._at_send_time(stored, stored.entry.send_time)
            retrying = self._session.retrying.begun(seconds)
        receipt = await self._deliver(link, stored, retrying)
        return DeviceReceipt(receipt.submission_id, receipt.round, stored.used, sent=stored.entry.outcome is None)

    async def _at_send_time(self, stored: Stored, send_time: float) -> Stored:
        """Wait for the send time; return the stored submission, unless an opt-out has erased it meanwhile.

        Another process may have sent it meanwhile.
        """
        if not await wait_until(send_time, self._session.clock, self._session.retrying.sleep):
            return stored
        found = await self._work.stored(stored.of)
        if found is None:
            raise erased_unsent(stored.of)
        return replace(found, used=stored.used)

    async def resend(self, link: ShufflerLink, seconds: float | None, early: bool) -> list[Receipt]:
        """Do what `Device.resend` promises."""
        receipts, refusals = await self.resend_all(link, seconds, early)
        if refusals:
            raise refusals[0]
        return receipts

    async def resend_all(
        self, link: ShufflerLink, seconds: float | None, early: bool = False
    ) -> tuple[list[Receipt], list[Refusal]]:
        """Send the stored submissions whose send time has come, or all if `early`.

        Return the receipts and the refusals.
        """
        checked_choice(early, "early")
        retrying = self._session.retrying.begun(seconds)
        receipts: list[Receipt] = []
        refusals: list[Refusal] = []
        for of in await self._work.waiting():
            stored = await self._work.due(of, early)
            if stored is None:
                continue
            try:
                receipts.append(await self._deliver(link, stored, retrying))
            except Refusal as refusal:
                refusals.append(refusal)
        return receipts, refusals

    async def _deliver(self, link: ShufflerLink, stored: Stored, retrying: Retrying) -> Receipt:
        """Seal and send the stored reports, and record the outcome, unless they have one."""
        if stored.entry.outcome is not None:
            return receipt_of(stored.of, stored.entry)
        return await self._noted(stored, self._seal_and_send(link, stored, retrying))

    async def _noted(self, stored: Stored, work: Awaitable[T]) -> T:
        """Await a request to the shuffler. If it fails, discard the submission, or add to the error that it is kept."""
        try:
            return await work
        except Refusal as refusal:
            # Only a refusal for good erases the submission; after any other it may be sent again.
            if refusal.reason not in OVER:
                raise explained(refusal, self._told(stored, refusal.reason)) from refusal
            await self._work.settle(stored.of, refusal.reason.value)
            raise
        except Unreachable as error:
            raise explained(error, self._told(stored)) from error

    async def _seal_and_send(self, link: ShufflerLink, stored: Stored, retrying: Retrying) -> Receipt:
        async def sleep(seconds: float) -> None:
            await retrying.sleep(seconds)
            await self._check_kept(stored.of)

        watched = replace(retrying, sleep=sleep)
        ready = await self._ready(link, stored, watched)
        submission = ready.entry.submission
        if submission is None:
            return receipt_of(stored.of, ready.entry)
        enrolled, name = self._session.enrolled, self._work.name
        receipt = await enrolled.send(link, ready.destination, name, submission, watched, ready.enrolled)
        await self._work.settle(stored.of, DONE)
        return receipt

    async def _check_kept(self, of: RoundRef) -> None:
        """Raise NoRound if an opt-out has erased the submission between two tries."""
        found = await self._work.stored(of)
        if found is None:
            raise erased_unsent(of)
        if found.entry.outcome == ERASED_HERE:
            receipt_of(of, found.entry)

    async def _ready(self, link: ShufflerLink, stored: Stored, retrying: Retrying) -> Ready:
        """Return the stored submission, sealed; fetch the round's keys if they are not stored yet."""
        if stored.key_set is not None:
            return await self._work.ready(stored, stored.key_set, fetched=False)
        fetched = await self._session.fetch(link, stored.of, retrying)
        return await self._work.ready(stored, fetched, fetched=True)

    # Through a gateway

    async def prepare(
        self, link: ShufflerLink, answers: Mapping[str, Value], wanted: int | None, seconds: float | None
    ) -> SealedSubmission | None:
        """Do what `Device.prepare` promises."""
        self._check_carried()
        retrying = self._session.retrying.begun(seconds)
        stored = await self._work.kept(answers, wanted, False, at_once=True)
        if stored.entry.outcome is not None:
            receipt_of(stored.of, stored.entry)
            return None
        return await self._noted(stored, self._packed(link, stored, retrying))

    async def sealed_submissions(
        self, link: ShufflerLink, seconds: float | None, early: bool
    ) -> list[SealedSubmission]:
        """Do what `Device.sealed_submissions` promises."""
        checked_choice(early, "early")
        self._check_carried()
        retrying = self._session.retrying.begun(seconds)
        sealed_submissions: list[SealedSubmission] = []
        for of in await self._work.waiting():
            stored = await self._work.due(of, early)
            if stored is not None and (one := await self._noted(stored, self._packed(link, stored, retrying))):
                sealed_submissions.append(one)
        return sealed_submissions

    def _check_carried(self) -> None:
        task = self._session.task
        if task.admission.mode is Mode.MTLS:
            raise UsageError(
                f"task {task.name} admits devices by their TLS certificates, which a gateway cannot show; call "
                "submit() instead"
            )

    async def _packed(self, link: ShufflerLink, stored: Stored, retrying: Retrying) -> SealedSubmission | None:
        """Return the stored submission, sealed and proven. A second call returns the same bytes but a newer proof."""
        ready = await self._ready(link, stored, retrying)
        submission, name = ready.entry.submission, self._work.name
        if submission is None:
            receipt_of(stored.of, ready.entry)
            return None
        to, enrolled = ready.destination, self._session.enrolled
        return SealedSubmission(to, await enrolled.prove(link, to, name, submission, retrying, ready.enrolled))

    async def take(self, link: ShufflerLink, outcome: Outcome, seconds: float | None) -> DeviceReceipt:
        """Record the outcome of a sealed submission; return the receipt, or raise the error that `submit` raises."""
        to, retrying = outcome.destination, self._session.retrying.begun(seconds)
        of = RoundRef(to.task_id, to.round)
        stored = await self._work.stored(of) if of.task_id == self._session.task.id else None
        # An erased submission has no id to compare; `receipt_of` below reports that it was erased.
        erased = stored is not None and stored.entry.outcome == ERASED_HERE
        if stored is None or not (erased or stored.entry.submission_id == outcome.submission_id):
            raise UsageError(
                f"the outcome is of a submission to round {of.number} that is not stored here; it is another device's "
                "or task's, or the round is over, and nothing was changed"
            )
        if stored.entry.outcome is None and outcome.ending is Ending.ACKNOWLEDGED:
            await self._work.settle(of, DONE)
            return DeviceReceipt(outcome.submission_id, of.number)
        if stored.entry.outcome is not None:
            return DeviceReceipt(receipt_of(of, stored.entry).submission_id, of.number, sent=False)
        return await self._noted(stored, self._failed(link, outcome, stored.entry, retrying))

    async def _failed(
        self, link: ShufflerLink, outcome: Outcome, entry: StoredSubmission, retrying: Retrying
    ) -> DeviceReceipt:
        """Raise the error of an outcome. First renew a credential whose master key is gone, as `submit` does."""
        if outcome.reason is None:
            raise Unreachable(outcome.message or "the gateway could not deliver the sealed submission; try again")
        lacks = outcome.reason is Reason.NOT_ENROLLED and self._session.enrolled.needed
        if lacks and entry.submission is not None:
            name, enrolled = self._work.name, self._session.enrolled
            await enrolled.prove(link, outcome.destination, name, entry.submission, retrying, anew=True)
        raise Refusal(outcome.reason, outcome.message)

    def _told(self, stored: Stored, reason: Reason | None = None) -> str:
        if reason is Reason.ID_CONFLICT:
            return (
                f"the state file of this device is an old copy, or one of two copies: another answered round "
                f"{stored.of.number} before, which counts, and what is stored here does not; use the newest one alone"
            )
        until = datetime.fromtimestamp(self._session.task.schedule.cut(stored.of.number), UTC)
        earlier = "" if stored.used else "given earlier "
        kept = f"the answers {earlier}to round {stored.of.number} are kept on this device, randomized"
        unused = "" if stored.used else ", and those of this call are not used"
        first = "put a new ticket in place, then " if reason in _TICKET_IS_SPENT else ""
        forever = "revoking is for good: " if reason is Reason.REVOKED else ""
        return f"{kept}{unused}: {forever}{first}resend them, or submit again, before {until:%Y-%m-%dT%H:%M:%SZ}"


_TICKET_IS_SPENT = frozenset(
    {
        Reason.REVOKED,
        Reason.CREDENTIAL_EXPIRED,
        Reason.BAD_TICKET,
        Reason.TICKET_EXPIRED,
        Reason.TICKET_REDEEMED,
    }
)
"""Reasons for which the same ticket or credential is refused again, however often."""
