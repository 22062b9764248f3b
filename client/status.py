"""What a device can say of itself, that is the rounds on offer, what became of its answers, and the ε spent.

All of it comes from the task, the clock and the state file; nothing is asked of anybody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from hubbub.accountant.mechanisms import one_round, paid_rounds
from hubbub.client.privacy.ledger import rounded_up
from hubbub.client.state.store import DONE, ERASED_HERE, StoredSubmission, SubmissionHistory
from hubbub.protos.task.delta_warnings import delta_warning
from hubbub.protos.task.schedule import forgotten_after
from hubbub.protos.task.task import Task


class Answer(StrEnum):
    """What became of a device's answers to a round."""

    NONE = "none"
    """It is not answered."""
    KEPT = "kept"
    """Randomized and stored; nothing of it has left the device, for want of the round's keys."""
    SEALED = "sealed"
    """Sealed and stored; it may have been sent, and no receipt has come."""
    ACKNOWLEDGED = "acknowledged"
    """The shuffler holds it."""
    REFUSED = "refused"
    """The round took nothing any more; it was discarded."""
    ERASED = "erased"
    """It may have been sent; what was stored of it was erased by `wipe` or `opt_out`. It cannot be answered again."""
    OVER = "over"
    """The round is over on this device, and what became of it is forgotten."""


@dataclass(frozen=True)
class DeviceRound:
    """A round with its times (seconds since 1970, UTC) and what this device did in it; `reason` is a refusal's.

    `send_time` is when what is stored is to be sent; None where that is as soon as it can be, or nothing is.
    """

    number: int
    opens: int
    ends: int
    cut: int
    answer: Answer
    reason: str | None = None
    send_time: float | None = None


@dataclass(frozen=True)
class Spending:
    """The local ε that a device has spent on a task.

    Local ε is what the device's own randomizer allows: it bounds what shuffler and analyzer learn of this device if
    they work together, whatever else happens. Answering several rounds adds it up. A round counts from the moment when
    its answers are sealed, since they may have left from then on.

    Attributes:
        rounds: how many rounds count, never less than were sent.
        unsent: how many rounds were answered of which nothing ever left, so that they cost nothing: what still waits
            for keys, and what waited until its round was over.
        epsilon_local_round: what one round costs, summed over the task's queries.
        epsilon_local: what the rounds that count have cost, never below the truth.
        epsilon_local_left: what the rounds would cost that this device may still answer, if it answers all of them.
    """

    rounds: int
    unsent: int
    epsilon_local_round: float
    epsilon_local: float
    epsilon_local_left: float


@dataclass(frozen=True)
class DeviceStatus:
    """What a device knows of a task.

    Attributes:
        task: the task's name.
        task_id: its id (32 bytes).
        current: the round to answer now; None where there is none.
        next: the round after it, or the first one; None where there is none.
        waiting: the rounds whose answers are stored and not acknowledged, in order.
        opted_out: whether the device takes no answers.
        spending: the local ε.
        epsilon: what the task promises for a round, with `delta`, where the services do as they should. Each round's
            certificate says what was reached; a device cannot know it.
        delta: see `epsilon`.
        epsilon_total: the task's cap on ε over all rounds; None where it has none.
        delta_warning: that δ is so large that such an ε promises little, in words; None where it is not.
    """

    task: str
    task_id: bytes
    current: DeviceRound | None
    next: DeviceRound | None
    waiting: tuple[int, ...]
    opted_out: bool
    spending: Spending
    epsilon: float
    delta: float
    epsilon_total: float | None
    delta_warning: str | None = None


@dataclass(frozen=True)
class Memory:
    """What the state file holds of a device and a task: entries by round, counts, the last round that is forgotten."""

    entries: Mapping[int, StoredSubmission]
    history: SubmissionHistory
    last_forgotten: int
    opted_out: bool


def status_of(task: Task, memory: Memory, now: float) -> DeviceStatus:
    """Return what a device knows of a task at `now` (seconds since 1970)."""
    schedule = task.schedule
    current = schedule.round_at(now)
    following = max(0, math.floor((now - schedule.start) / schedule.length) + 1)
    return DeviceStatus(
        task=task.name,
        task_id=task.id,
        current=None if current is None else _round(task, memory, current),
        next=_round(task, memory, following) if following < schedule.rounds else None,
        waiting=tuple(sorted(number for number, entry in memory.entries.items() if entry.outcome is None)),
        opted_out=memory.opted_out,
        spending=_spending(task, memory, now),
        epsilon=task.privacy.epsilon,
        delta=task.privacy.delta,
        epsilon_total=task.privacy.epsilon_total,
        delta_warning=delta_warning(task),
    )


def _round(task: Task, memory: Memory, number: int) -> DeviceRound:
    schedule = task.schedule
    answer, reason = _answer(memory, number)
    entry = memory.entries.get(number)
    send_time = entry.send_time if entry is not None and answer in (Answer.KEPT, Answer.SEALED) else None
    times = schedule.opens(number), schedule.ends(number), schedule.cut(number)
    return DeviceRound(number, *times, answer, reason, send_time)


def _answer(memory: Memory, number: int) -> tuple[Answer, str | None]:
    if number <= memory.last_forgotten:
        return Answer.OVER, None
    entry = memory.entries.get(number)
    if entry is None:
        return Answer.NONE, None
    if entry.outcome is None:
        return Answer.SEALED if entry.drawn is None else Answer.KEPT, None
    named = {DONE: Answer.ACKNOWLEDGED, ERASED_HERE: Answer.ERASED}
    return (named[entry.outcome], None) if entry.outcome in named else (Answer.REFUSED, entry.outcome)


def _spending(task: Task, memory: Memory, now: float) -> Spending:
    one = sum((Fraction(one_round(query.mechanism).epsilon_local) for query in task.queries), Fraction(0))
    history = memory.history
    spent = _local(task, history.sealed)
    return Spending(
        rounds=history.sealed,
        unsent=history.answered - history.sealed,
        epsilon_local_round=rounded_up(one),
        epsilon_local=rounded_up(spent),
        epsilon_local_left=rounded_up(_local(task, history.sealed + _rounds_left(task, memory, now)) - spent),
    )


def _local(task: Task, rounds: int) -> Fraction:
    """Return the local ε of so many rounds: of a question over time whose rounds are one report, it is paid once."""
    paid = ((query.mechanism, paid_rounds(query.mechanism, rounds)) for query in task.queries)
    return sum((Fraction(mechanism.epsilon_local) * count for mechanism, count in paid), Fraction(0))


def _rounds_left(task: Task, memory: Memory, now: float) -> int:
    """How many rounds this device may still answer, or has answered without sealing it yet."""
    schedule = task.schedule
    first = max(0, memory.last_forgotten + 1, math.floor((now - schedule.start - 2 * schedule.grace) / schedule.length))
    # The quotient may be rounded either way; which rounds are over is decided as the device decides it.
    while first < schedule.rounds and now > forgotten_after(schedule, first):
        first += 1
    settled = sum(number >= first and entry.drawn is None for number, entry in memory.entries.items())
    return max(0, schedule.rounds - first) - settled
