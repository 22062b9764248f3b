"""Chooses the round to answer, and checks the keys that seal its submissions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Integral

from hubbub.client.errors import NoRound
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import KeyRecord, KeySet
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.sealing.suites import suite_named
from hubbub.protos.task.schedule import Schedule, forgotten_after, taken_from
from hubbub.protos.task.task import Task, signers


def choose_round(task: Task, wanted: int | None, now: float) -> int:
    """Return the round to answer: the one that `now` (seconds since 1970) is in, or `wanted` if it is not over.

    Raises:
        NoRound: if there is none; the message names the next round and its time.
        UsageError: if `wanted` is no whole number. An application may pass over NoRound, but not over a mistake of its
            own.
    """
    schedule = task.schedule
    if wanted is None:
        number = schedule.round_at(now)
        if number is None:
            raise NoRound(f"task {task.name} has no round now; {_next_round(schedule, now)}")
        return number
    # numpy's whole numbers are of another type than those that are promised.
    given: object = wanted
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise UsageError(
            f"round is of type {type(wanted).__name__}; give a whole number from 0 to {schedule.rounds - 1}"
        )
    number = int(given)
    if not 0 <= number < schedule.rounds:
        raise NoRound(f"task {task.name} has no round {number}; its rounds are 0 to {schedule.rounds - 1}")
    # Not refused right after its end or cut: the shuffler decides that, and this clock may be ahead of its clock.
    if now > forgotten_after(schedule, number):
        raise NoRound(f"round {number} of task {task.name} is over; {_next_round(schedule, now)}")
    return number


def check_taken(task: Task, number: int, now: float) -> None:
    """Return only if the shuffler takes submissions to a round at `now`, as far as this clock can tell.

    Raises:
        NoRound: if the round begins later; the message says when, and how to store answers for it now.
    """
    if now < taken_from(task.schedule, number):
        raise NoRound(
            f"round {number} of task {task.name} begins at {_time(task.schedule.opens(number))}, so nothing can be "
            "sent to it now; store the answers with keep(), and resend() sends them when the round has begun"
        )


def _next_round(schedule: Schedule, now: float) -> str:
    number = max(0, math.floor((now - schedule.start) / schedule.length) + 1)
    if number >= schedule.rounds:
        return f"its last round ended at {_time(schedule.ends(schedule.rounds - 1))}"
    return f"round {number} begins at {_time(schedule.opens(number))}"


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class VerifiedRoundKeys:
    """A round's keys, checked to be signed by the task's shufflers and analyzer for this round."""

    destination: Destination
    shuffler: KeyRecord
    analyzer: KeyRecord
    hops: tuple[KeyRecord, ...] = ()

    @classmethod
    def read(cls, key_set: KeySet, task: Task, round_number: int) -> VerifiedRoundKeys:
        """Check a key set against the task's identities.

        Raises:
            SignatureError: if a record is not signed by its service.
            KeyRecordError: if a record is for another task, round, service or suite.
        """
        identities = signers(task, round_number)
        shuffler, analyzer, *hops = key_set.read(
            *(task.id, round_number, task.suite), identities.shuffler, identities.analyzer, identities.hops
        )
        return cls(Destination(task.id, round_number, key_set.hash), shuffler, analyzer, tuple(hops))

    def sealer(self, now: float) -> Sealer:
        """Return the sealer for this round.

        Raises:
            KeyRecordError: if a key is not valid at `now` (seconds since 1970).
        """
        # Checked here, because the keys may come from the state file long after they were fetched.
        for record in (self.shuffler, self.analyzer, *self.hops):
            record.check_time(now)
        # `KeySet.read` has checked that all records use the task's suite.
        suite, hops = suite_named(self.shuffler.suite), [hop.public_key for hop in self.hops]
        return Sealer(self.destination, self.shuffler.public_key, self.analyzer.public_key, suite, hops)
