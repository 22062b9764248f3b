"""The steps of a device's submission that read and write the state file; each blocks for milliseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hubbub.client.blocking import in_thread
from hubbub.client.enrollment.credentials import Found
from hubbub.client.errors import NoRound
from hubbub.client.session.rounds import check_taken
from hubbub.client.session.send_time import draw_send_time
from hubbub.client.session.session import Session
from hubbub.client.state.longitudinal import MemoryMoved
from hubbub.client.state.rounds import DONE, ERASED_HERE, RoundRef, StoredSubmission
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Receipt
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.schedule import forgotten_after, taken_from
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value


@dataclass(frozen=True)
class Stored:
    """The stored submission of a device to a round, and the round's keys if they are stored.

    `used` is whether it is made of the answers of this call.
    """

    of: RoundRef
    entry: StoredSubmission
    key_set: KeySet | None
    used: bool = True


@dataclass(frozen=True)
class Ready:
    """A sealed entry with its destination, and the enrollment that the device may prove it with."""

    destination: Destination
    entry: StoredSubmission
    enrolled: Found | None


class DeviceWork:
    """The steps of one device's submissions that compute, or read and write the state file."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = name

    def keep(self, answers: Mapping[str, Value], wanted: int | None, spread: bool, at_once: bool = False) -> Stored:
        """Randomize and store the answers, unless the round is answered; return the stored submission.

        A round is answered once: earlier answers stay, also if the new ones differ. Answers to a round that begins
        later are sent when it begins, or are refused if they are to be sent `at_once`.
        """
        if not isinstance(answers, Mapping):
            raise AnswerError(f"answers are of type {type(answers).__name__}; give a mapping of queries to answers")
        session, now = self._session, self._session.clock()
        of, answer_cost = session.choose(wanted, now), session.answer_cost(now)
        if at_once:
            check_taken(session.task, of.number, now)
        # Drawn once, like the reports: of two calls at a time, the one that stores first determines both.
        send_time: float | None = None
        if not spread and now < taken_from(session.task.schedule, of.number):
            send_time = float(session.task.schedule.opens(of.number))
        while True:
            seen = session.state.look(of, self.name, now, answer_cost, memory=session.remembers)
            if seen.entry is not None and not seen.opted_out:
                return Stored(of, seen.entry, seen.key_set, used=False)
            if seen.refusal is not None:
                raise seen.refusal
            if spread and send_time is None:
                send_time = draw_send_time(session.task.schedule, of.number, now, session.random)
            drawn, step = session.draw(answers, of.number, seen.memory, session.random)
            over_at = forgotten_after(session.task.schedule, of.number)
            # If another call stored first, these reports are dropped unsent. If the memory changed, draw again.
            try:
                entry = session.state.keep_reports(of, self.name, drawn, over_at, answer_cost, step, send_time)
            except MemoryMoved:
                continue
            return Stored(of, entry, seen.key_set, entry.submission_id == drawn.submission_id)

    kept = in_thread(keep)

    @in_thread
    def stored(self, of: RoundRef) -> Stored | None:
        """Return the stored submission of a round; None if there is none."""
        return self._find(of)

    @in_thread
    def waiting(self) -> list[RoundRef]:
        """Forget the rounds that are over; return those with a submission to seal, send or acknowledge."""
        return self._waiting()

    @in_thread
    def due(self, of: RoundRef, early: bool) -> Stored | None:
        """Return the submission to send to a round; None if its send time is later, unless `early` in a begun round."""
        found = self._find(of)
        # Another process that shares the file may have forgotten or settled the round since.
        if found is None or found.entry.outcome is not None:
            return None
        now = self._session.clock()
        # The shuffler refuses what comes before its round, so `early` cannot mean that.
        begun = now >= taken_from(self._session.task.schedule, of.number)
        return found if (early and begun) or found.entry.waits_for(now) <= 0 else None

    @in_thread
    def ready(self, stored: Stored, key_set: KeySet, *, fetched: bool) -> Ready:
        """Check the round's keys, `fetched` now or stored before; seal the reports; look up the enrollment.

        Raises:
            NoRound: if the reports were erased meanwhile.
            SignatureError, KeyRecordError, KeySetChanged: if the keys cannot be trusted.
        """
        session, of, entry = self._session, stored.of, stored.entry
        keys = session.trust(of, key_set, fetched=fetched)
        if entry.drawn is not None:
            submission = session.sealed(keys.sealer(session.clock()), entry.drawn)
            found = session.state.seal(of, {self.name: submission})
            if self.name not in found:
                raise erased_unsent(of)
            entry = found[self.name]
        to_prove = session.enrolled.needed and entry.outcome is None
        enrolled = session.enrolled.look([self.name]) if to_prove else None
        return Ready(keys.destination, entry, enrolled)

    @in_thread
    def settle(self, of: RoundRef, outcome: str) -> None:
        """Record the outcome of a submission, and erase its bytes."""
        self._session.state.settle(of, {self.name: outcome})
        self._session.state.empty_log()

    def is_clear(self) -> bool:
        """Forget the rounds that are over; return whether nothing waits to be sent."""
        return not self._waiting()

    def take_expired(self) -> int:
        """Forget the rounds that are over; return how many since the last call had answers without an outcome."""
        session = self._session
        session.state.forget(session.clock())
        return session.state.take_expired(session.task.id, self.name)

    def until_next(self) -> float:
        """Return the seconds until the next send time of a stored submission; infinity if there is none."""
        session = self._session
        now, entries = session.clock(), session.state.entries(session.task.id, self.name).values()
        return min((wait for entry in entries if (wait := entry.waits_for(now)) > 0), default=math.inf)

    def _find(self, of: RoundRef) -> Stored | None:
        entry, key_set = self._session.state.stored(of, self.name)
        return None if entry is None else Stored(of, entry, key_set)

    def _waiting(self) -> list[RoundRef]:
        session = self._session
        session.state.forget(session.clock())
        return [RoundRef(session.task.id, number) for number in session.state.waiting(session.task.id, self.name)]


def erased_unsent(of: RoundRef) -> NoRound:
    """Return the error that a round's answers were erased before they left the device."""
    return NoRound(
        f"the answers to round {of.number} were erased on this device before they were sent; answer the next round"
    )


def receipt_of(of: RoundRef, entry: StoredSubmission) -> Receipt:
    """Return the receipt of a settled submission.

    Raises:
        Refusal: if it was discarded after this refusal.
        NoRound: if it was erased on this device.
    """
    if entry.outcome == DONE:
        return Receipt(entry.submission_id, of.number)
    if entry.outcome == ERASED_HERE:
        raise NoRound(
            f"round {of.number} was answered before, and the submission was erased here; answer the next round"
        )
    raise discarded(of, entry)


def discarded(of: RoundRef, entry: StoredSubmission) -> Refusal:
    """Return the refusal after which an entry was discarded."""
    reason = Reason(entry.outcome or Reason.TOO_LATE)
    return Refusal(
        reason,
        f"round {of.number} took no more submissions when this came, and the submission was discarded; answer the next "
        "round",
    )
