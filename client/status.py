"""A device's status: the open rounds, the outcome of its answers, and the ε spent.

It is computed from the task, the clock and the state file, without a network request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from hubbub.accountant.mechanisms import one_round, paid_rounds
from hubbub.client.privacy.ledger import rounded_up
from hubbub.client.state.rounds import DONE, ERASED_HERE, StoredSubmission, SubmissionHistory
from hubbub.protos.task.delta_warnings import delta_warning
from hubbub.protos.task.schedule import forgotten_after
from hubbub.protos.task.task import Task


class Answer(StrEnum):
    """The state of a device's answers to a round."""

    NONE = "none"
    """The round is not answered."""
    KEPT = "kept"
    """The answers are randomized and stored. Nothing has left the device, because it lacks the round's keys."""
    SEALED = "sealed"
    """The submission is sealed and stored. It may have been sent; there is no receipt yet."""
    ACKNOWLEDGED = "acknowledged"
    """The shuffler has acknowledged the submission."""
    REFUSED = "refused"
    """The round took no more submissions, and the submission was discarded."""
    ERASED = "erased"
    """`wipe` or `opt_out` erased the submission, which may have been sent. The round cannot be answered again."""
    OVER = "over"
    """The round is over on this device, and its outcome is forgotten."""


@dataclass(frozen=True)
class DeviceRound:
    """A round with its times (seconds since 1970, UTC) and the state of this device's answers to it.

    Attributes:
        number: the round's number, from 0.
        opens: when it begins.
        ends: when it ends.
        cut: the moment from which it takes no more submissions.
        answer: the state of this device's answers.
        reason: the reason of the refusal, if the submission was refused; else None.
        send_time: when the stored submission is to be sent; None if it can be sent at once, or there is none.
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

    Local ε is the ε of the device's own randomizers. It bounds what shuffler and analyzer learn about this device if
    they collude, without any other assumption. Local ε adds up over rounds. A round counts from the moment when its
    answers are sealed, because they may have left the device from then on.

    Attributes:
        rounds: how many rounds count; never fewer than were sent.
        unsent: how many answered rounds do not count here, because nothing has left the device yet: their answers wait
            for their send time, or for keys. A budget counts them too: its limits are on what was drawn.
        expired: how many answered rounds were over before the shuffler acknowledged or refused their answers, which
            were then erased. A budget counts them too; here they count in `rounds` if they may have left the device.
        epsilon_local_round: the cost of one round, summed over the task's queries.
        epsilon_local: the cost of the rounds that count, rounded up.
        epsilon_local_left: the cost of all rounds that this device may still answer.
    """

    rounds: int
    unsent: int
    expired: int
    epsilon_local_round: float
    epsilon_local: float
    epsilon_local_left: float


@dataclass(frozen=True)
class DeviceStatus:
    """A device's status in a task.

    Attributes:
        task: the task's name.
        task_id: its id in hex (64 digits), as commands and documents show it.
        current: the round to answer now; None if there is none.
        next: the round after it, or the first one; None if there is none.
        waiting: the rounds whose answers are stored and have no outcome yet, in order.
        opted_out: whether the device has opted out, and takes no answers.
        spending: the local ε spent.
        epsilon: the ε that the task promises for a round, at `delta`, if the services follow the protocol. Each
            round's certificate states the ε that was reached; a device cannot know it.
        delta: the δ of that promise.
        epsilon_total: the task's cap on ε over all rounds; None if it has none.
        delta_warning: a warning that δ is so large that the ε promises little; None if it is not.
    """

    task: str
    task_id: str
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
    """The state file's data on a device and a task: entries by round, counts, the last round that is forgotten."""

    entries: Mapping[int, StoredSubmission]
    history: SubmissionHistory
    last_forgotten: int
    opted_out: bool


def status_of(task: Task, memory: Memory, now: float) -> DeviceStatus:
    """Return a device's status in a task at `now` (seconds since 1970)."""
    schedule = task.schedule
    current = schedule.round_at(now)
    # Before the start the number may be negative; the first round follows then.
    following = max(0, math.floor((now - schedule.start) / schedule.length) + 1)
    return DeviceStatus(
        task=task.name,
        task_id=task.id.hex(),
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
        unsent=sum(entry.drawn is not None for entry in memory.entries.values()),
        expired=history.expired,
        epsilon_local_round=rounded_up(one),
        epsilon_local=rounded_up(spent),
        epsilon_local_left=rounded_up(_local(task, history.sealed + _rounds_left(task, memory, now)) - spent),
    )


def _local(task: Task, rounds: int) -> Fraction:
    """Return the local ε of so many rounds. A longitudinal query whose rounds release one report is charged once."""
    paid = ((query.mechanism, paid_rounds(query.mechanism, rounds)) for query in task.queries)
    return sum((Fraction(mechanism.epsilon_local) * count for mechanism, count in paid), Fraction(0))


def _rounds_left(task: Task, memory: Memory, now: float) -> int:
    """Return how many rounds this device may still answer, or has answered without sealing yet."""
    schedule = task.schedule
    passed = math.floor((now - schedule.start - 2 * schedule.grace) / schedule.length)
    # One less: at the very moment of its end a round may still be answered, and the quotient may be rounded either way.
    # So the loop uses the device's own rule for which rounds are over.
    first = max(0, memory.last_forgotten + 1, passed - 1)
    while first < schedule.rounds and now > forgotten_after(schedule, first):
        first += 1
    settled = sum(number >= first and entry.drawn is None for number, entry in memory.entries.items())
    return max(0, schedule.rounds - first) - settled
