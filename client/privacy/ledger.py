"""What a device has spent on all its tasks, as exact sums, and whether a limit allows one round more.

Local ε is counted for what was randomized, whether or not it left the device. Central ε is what a task promises for
each round that was answered, until the application hands over a certificate (`certificates`). For n answered rounds
of a task, each promised (ε, δ), the smallest of these is taken; each is a bound on all of them together:

- n·ε at n·δ, plus ε_r − ε for each round r whose certificate states ε_r > ε (fewer honest reports came than the task
  counts on). Basic composition.
- the task's `epsilon_total` at δ, its cap on all rounds, where no certificate is known that breaks the promise.
- E + m·ε at (1+m)·δ, where a certificate states E at the minimum reports for the rounds of its history, whether or not
  this device answered them all, and m counts the rounds that it may have answered besides: those missing from the
  history, and those after it. Taken where 1 + m ≤ n, so that δ does not grow.
- the local ε, at δ = 0.

Where reports of several rounds hang together (`TaskCost.linked`), the ε of single rounds do not add up to that of all:
the sums of the first and the third bound are left out, and what is left is charged with the first round.

A certificate's ε at the reports that came is never used to lower a number: how many came may depend on earlier results,
and such numbers do not add up (docs/explanation/accounting-rounds.md). It raises one where it is above the promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction

from hubbub.client.errors import OverLimit
from hubbub.client.limits import NO_LIMITS, OF_PROMISE, PrivacyLimits
from hubbub.protos.task.task import Task

DAY_SECONDS = 86_400

PAST = -1
"""The day of what was charged long ago; it counts for its task, and for no day."""

LISTED = 5
"""How many tasks a refusal names."""


def day_of(now: float) -> int:
    """Return the number of the UTC day at `now` (seconds since 1970)."""
    return math.floor(now / DAY_SECONDS)


def rounded_up(exact: Fraction) -> float:
    """Return the smallest float that is not below an exact number."""
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


@dataclass(frozen=True)
class TaskCost:
    """What a task promises: (ε, δ) of a round, and the cap on all rounds.

    `linked` is whether reports of several rounds hang together.
    """

    name: str
    epsilon: float
    delta: float
    epsilon_total: float | None
    linked: bool = False

    @classmethod
    def of(cls, task: Task) -> TaskCost:
        """Take it from a task."""
        privacy = task.privacy
        # What a later round does not cost anew was drawn with the first.
        linked = any(query.local_cost(1) < query.local_cost(0) for query in task.queries)
        return cls(task.name, privacy.epsilon, privacy.delta, privacy.epsilon_total, linked)


def local_cost(task: Task, answered: int) -> Fraction:
    """Return the local ε of answering one more round of a task after `answered` rounds, its queries' added exactly."""
    return sum((Fraction(query.local_cost(answered)) for query in task.queries), Fraction(0))


@dataclass(frozen=True)
class AnswerCost:
    """What the answers to a round are charged with: the price after so many rounds, the day, and the limits.

    `promise` are the values of the task's that `OF_PROMISE` names.
    """

    task_cost: TaskCost
    price: Callable[[int], Fraction]
    day: int
    limits: PrivacyLimits = NO_LIMITS
    promise: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, task: Task, now: float, limits: PrivacyLimits = NO_LIMITS) -> AnswerCost:
        """Return the cost of answers that are drawn at `now` (seconds since 1970)."""
        promise = {name: float(getattr(task.privacy, name)) for name in OF_PROMISE}
        return cls(TaskCost.of(task), lambda answered: local_cost(task, answered), day_of(now), limits, promise)


@dataclass(frozen=True)
class Charges:
    """So many `rounds` of a task, between `first` and `last`, that were charged with `local` each on a day."""

    day: int
    local: Fraction
    rounds: int
    first: int
    last: int


@dataclass(frozen=True)
class ProvenLoss:
    """What a certificate proves of a task: ε at its minimum for the rounds up to `last`, but for `missing` of them."""

    last: int
    missing: int
    epsilon: Fraction


@dataclass(frozen=True)
class Account:
    """What a device has spent on a task; `exceeded`: the ε of rounds whose certificates state more than promised."""

    task_id: bytes
    task_cost: TaskCost
    charges: tuple[Charges, ...]
    proven: ProvenLoss | None = None
    exceeded: Mapping[int, Fraction] = field(default_factory=dict)

    def since(self, day: int) -> Account:
        """Return what was charged on that day, and on later ones: a clock that is set back brings no new budget."""
        return replace(self, charges=tuple(each for each in self.charges if each.day >= day))

    @property
    def rounds(self) -> int:
        """How many rounds were answered."""
        return sum(each.rounds for each in self.charges)

    @property
    def local(self) -> Fraction:
        """Their local ε, added exactly."""
        return sum((each.rounds * each.local for each in self.charges), Fraction(0))

    @property
    def central(self) -> tuple[Fraction, Fraction]:
        """Their central ε and its δ (see above)."""
        return min(self._bounds()) if self.charges else (Fraction(0), Fraction(0))

    def _bounds(self) -> list[tuple[Fraction, Fraction]]:
        task_cost = self.task_cost
        epsilon, delta, rounds = Fraction(task_cost.epsilon), Fraction(task_cost.delta), self.rounds
        excess = self._excess(epsilon)
        bounds = [] if task_cost.linked else [(rounds * epsilon + excess, rounds * delta)]
        if task_cost.epsilon_total is not None and not excess:
            bounds.append((Fraction(task_cost.epsilon_total), delta))
        if self.proven is not None:
            besides = self.proven.missing + max(0, max(each.last for each in self.charges) - self.proven.last)
            if besides < (1 if task_cost.linked else rounds):
                bounds.append((self.proven.epsilon + besides * epsilon + excess, (1 + besides) * delta))
        return [*bounds, (self.local, Fraction(0))]

    def _excess(self, epsilon: Fraction) -> Fraction:
        # Which of the rounds between first and last were answered is not kept: each of them may have been.
        answered = [
            above
            for number, above in self.exceeded.items()
            if any(each.first <= number <= each.last for each in self.charges)
        ]
        return sum((above - epsilon for above in answered), Fraction(0))


def check_limits(accounts: Sequence[Account], task_id: bytes, round_number: int, answer_cost: AnswerCost) -> None:
    """Return only if one more round of a task stays within the limits; `accounts` are all of the device's.

    Raises:
        OverLimit: naming the first limit that would be passed, what was spent on what, and what to do. First those
            on what the task promises.
    """
    _check_promise(round_number, answer_cost)
    if not answer_cost.limits.given:
        return
    own = next((each for each in accounts if each.task_id == task_id), Account(task_id, answer_cost.task_cost, ()))
    others = [each for each in accounts if each.task_id != task_id]
    added = Charges(answer_cost.day, answer_cost.price(own.rounds), 1, round_number, round_number)
    for name, limit in answer_cost.limits.given.items():
        scope = _Scope(name, limit, own, () if name.endswith("_per_task") else tuple(others), added)
        scope.check()


def _check_promise(round_number: int, answer_cost: AnswerCost) -> None:
    for name, limit in answer_cost.limits.promised.items():
        promised = answer_cost.promise[name]
        if promised > limit:
            raise OverLimit(
                f"round {round_number} of task {answer_cost.task_cost.name} is not answered: the task "
                f"promises {name} = "
                f"{promised:.9g}, and this device takes part under at most {name} = {limit:.9g}; have the operator "
                "plan a task that promises more privacy, or raise the limit",
                limit=name,
                value=limit,
                spent=0.0,
                cost=promised,
                frees_up=None,
            )


@dataclass(frozen=True)
class _Scope:
    """A limit, and what counts against it: this task's account, those of others, and the round asked for."""

    name: str
    limit: float
    own: Account
    others: tuple[Account, ...]
    added: Charges

    def check(self) -> None:
        after = self._with_added(self.added.day)
        if after > Fraction(self.limit):
            before = _total(self._amounts(self.own, self.added.day))
            raise OverLimit(
                self._words(before, after),
                limit=self.name,
                value=self.limit,
                spent=rounded_up(before),
                cost=rounded_up(after - before),
                frees_up=self._frees_up(),
            )

    @property
    def _daily(self) -> bool:
        return self.name.endswith("_per_day")

    def _with_added(self, day: int) -> Fraction:
        """What would count if the round were answered on that day."""
        own = replace(self.own, charges=(*self.own.charges, replace(self.added, day=day)))
        return _total(self._amounts(own, day))

    def _amounts(self, own: Account, day: int) -> list[tuple[Account, Fraction]]:
        """What each task has spent, from that day on where the limit is a day's."""
        found = [each.since(day) if self._daily else each for each in (own, *self.others)]
        if "local" in self.name:
            return [(each, each.local) for each in found]
        return [(each, each.central[0]) for each in found]

    def _frees_up(self) -> int | None:
        """When enough is taken off for the round that is asked for: at the end of a day of which something counts."""
        days = {each.day for account in (self.own, *self.others) for each in account.charges} if self._daily else set()
        for day in sorted(day for day in days if day >= self.added.day):
            if self._with_added(day + 1) <= Fraction(self.limit):
                return (day + 1) * DAY_SECONDS
        return None

    def _words(self, before: Fraction, after: Fraction) -> str:
        of_what = "today (UTC), on all tasks" if self._daily else "on this task"
        kind = "local" if "local" in self.name else "central"
        amounts = f"{_shown(before)} is spent {of_what}{self._listed()}, and the round adds {_shown(after - before)}"
        return (
            f"round {self.added.first} of task {self.own.task_cost.name} is not answered: {amounts} of {kind} ε, above "
            f"the limit {self.name} = {self.limit:.9g}; {self._remedy()}"
        )

    def _listed(self) -> str:
        spent = [(amount, each.task_cost.name) for each, amount in self._amounts(self.own, self.added.day) if amount]
        if not self._daily or not spent:
            return ""
        spent.sort(reverse=True)
        words = [f"{name} {_shown(amount)}" for amount, name in spent[:LISTED]]
        more = "" if len(spent) <= LISTED else f" and {len(spent) - LISTED} more"
        return f" ({', '.join(words)}{more})"

    def _remedy(self) -> str:
        if not self._daily:
            return "a task's spending never frees up: raise the limit, or leave the task's other rounds unanswered"
        frees_up = self._frees_up()
        if frees_up is None:
            return "the round alone is above it, on any day: raise the limit, or leave this task unanswered"
        return f"it frees up at {_time(frees_up)}: answer then, if the round is still on, or raise the limit"


def _total(amounts: Sequence[tuple[Account, Fraction]]) -> Fraction:
    return sum((amount for _, amount in amounts), Fraction(0))


def _shown(amount: Fraction) -> str:
    return f"{rounded_up(amount):.9g}"


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
