"""What a device reads and writes for a submission, a method a step; each blocks, and takes milliseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hubbub.client.blocking import in_thread
from hubbub.client.enrollment.credentials import Found
from hubbub.client.errors import NoRound
from hubbub.client.session.send_time import draw_send_time
from hubbub.client.session.session import Session
from hubbub.client.state.longitudinal import MemoryMoved
from hubbub.client.state.store import DONE, ERASED_HERE, RoundRef, StoredSubmission
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Receipt
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.schedule import forgotten_after
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value


@dataclass(frozen=True)
class Stored:
    """What the state file holds of a device's answers to a round, and the round's keys once they were seen.

    `used` is whether they are the answers that were just given.
    """

    of: RoundRef
    entry: StoredSubmission
    key_set: KeySet | None
    used: bool = True


@dataclass(frozen=True)
class Ready:
    """Where to send what is stored, the entry after it was sealed, and what the device may prove it with."""

    destination: Destination
    entry: StoredSubmission
    enrolled: Found | None


class DeviceWork:
    """The steps of one device's submissions: what they compute, and what they read and write in the state file."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = name

    def keep(self, answers: Mapping[str, Value], wanted: int | None, spread: bool) -> Stored:
        """Randomize and store, unless the round is answered; return what is stored.

        What was answered before stays, whatever it was: a round is answered once.
        """
        if not isinstance(answers, Mapping):
            raise AnswerError(f"answers are of type {type(answers).__name__}; give a mapping of queries to answers")
        session, now = self._session, self._session.clock()
        of, answer_cost = session.choose(wanted, now), session.answer_cost(now)
        # Drawn once, like the reports: of two calls at a time, the one that stores first says both.
        send_time: float | None = None
        while True:
            seen = session.state.look(of, self.name, now, answer_cost, memory=session.remembers)
            if seen.entry is not None and not seen.opted_out:
                return Stored(of, seen.entry, seen.key_set, used=False)
            if seen.refusal is not None:
                raise seen.refusal
            if spread and send_time is None:
                send_time = draw_send_time(session.task.schedule, of.number, now, session.random)
            drawn, step = session.draw(answers, of.number, seen.memory)
            over_at = forgotten_after(session.task.schedule, of.number)
            # If another call stored first, ours is dropped unsent; if its memory moved, ours is drawn again.
            try:
                entry = session.state.keep_reports(of, self.name, drawn, over_at, answer_cost, step, send_time)
            except MemoryMoved:
                continue
            return Stored(of, entry, seen.key_set, entry.submission_id == drawn.submission_id)

    kept = in_thread(keep)

    @in_thread
    def stored(self, of: RoundRef) -> Stored | None:
        """Return what is stored of a round."""
        return self._find(of)

    @in_thread
    def waiting(self) -> list[RoundRef]:
        """Return the rounds of which something waits to be sealed, sent or acknowledged; forget those that are over."""
        return self._waiting()

    @in_thread
    def due(self, of: RoundRef, early: bool) -> Stored | None:
        """Return what is to be sent to a round, unless its send time is still to come."""
        found = self._find(of)
        # Another process that shares the file may have forgotten or settled the round since.
        if found is None or found.entry.outcome is not None:
            return None
        return found if early or found.entry.waits_for(self._session.clock()) <= 0 else None

    @in_thread
    def ready(self, stored: Stored, key_set: KeySet, *, fetched: bool) -> Ready:
        """Check the round's keys, `fetched` now or kept before; seal what is not sealed; look up what proves it.

        Raises:
            NoRound: where what was stored was erased meanwhile.
            SignatureError, KeyRecordError, KeySetChanged: where the keys are not to be trusted.
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
        """Record what became of a submission, and erase what was to be sent."""
        self._session.state.settle(of, {self.name: outcome})
        self._session.state.empty_log()

    def is_clear(self) -> bool:
        """Return whether nothing waits to be sent; forget the rounds that are over."""
        return not self._waiting()

    def until_next(self) -> float:
        """In how many seconds the send time of the next that is stored comes; infinity where none is still to come."""
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
    """Return the error where what was kept of a round was erased before it left the device."""
    return NoRound(f"the answers to round {of.number} were erased on this device before they were sent")


def receipt_of(of: RoundRef, entry: StoredSubmission) -> Receipt:
    """Return the receipt that a settled submission got.

    Raises:
        Refusal: for which it was discarded.
        NoRound: where it was erased on this device.
    """
    if entry.outcome == DONE:
        return Receipt(entry.submission_id, of.number)
    if entry.outcome == ERASED_HERE:
        raise NoRound(
            f"round {of.number} was answered before, and what was stored of it was erased here; answer the next"
        )
    raise discarded(of, entry)


def discarded(of: RoundRef, entry: StoredSubmission) -> Refusal:
    """Return the refusal for which an entry was discarded."""
    reason = Reason(entry.outcome or Reason.TOO_LATE)
    return Refusal(
        reason, f"round {of.number} took nothing when this submission came; it was discarded, answer the next"
    )
