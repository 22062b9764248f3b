"""Adds up exactly what a device has spent on all its tasks, and checks whether the limits allow one more round.

Local ε counts all answers that were randomized, whether or not they left the device. Central ε is the ε that a task
promises for each answered round, until the application adds a certificate (`certificates`). For n answered rounds of a
task, each promised (ε, δ), the ledger takes the smallest of these bounds. Each bounds all n rounds together:

- n·ε at n·δ, plus ε_r − ε for each round r whose certificate states ε_r > ε (fewer honest reports came than the task
  assumes). This is basic composition.
- the task's `epsilon_total` at δ, its cap on all rounds, if no known certificate breaks the promise.
- E + m·ε at (1+m)·δ, plus the same ε_r − ε, if a certificate states E at the minimum reports for the rounds of its
  history, whether or not this device answered them all. m counts the other rounds that the device may have answered:
  those missing from the history, and those after it. This bound is used only if 1 + m ≤ n, so that δ does not grow.
- the local ε, at δ = 0.

If reports of several rounds are linked (`TaskCost.linked`), the ε of single rounds do not add up to that of all rounds.
Then the first bound is left out, and the third is used only if m = 0. The smallest bound that remains is charged with
the first round.

A certificate's ε at the reports that came never lowers a number: how many came may depend on earlier results, and such
numbers do not add up (docs/explanation/accounting-rounds.md). It raises a number if it is above the promise.
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
"""The day of old charges; they count for their task, and for no day."""

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
    """A task's promise: (ε, δ) of a round, and the cap on all rounds.

    `linked` is whether reports of several rounds depend on a common draw.
    """

    name: str
    epsilon: float
    delta: float
    epsilon_total: float | None
    linked: bool = False

    @classmethod
    def of(cls, task: Task) -> TaskCost:
        """Return the promise of a task."""
        privacy = task.privacy
        # If a later round costs less than the first, it reuses what was drawn with the first.
        linked = any(query.local_cost(1) < query.local_cost(0) for query in task.queries)
        return cls(task.name, privacy.epsilon, privacy.delta, privacy.epsilon_total, linked)


def local_cost(task: Task, answered: int) -> Fraction:
    """Return the local ε of one more round of a task after `answered` rounds, summed exactly over its queries."""
    return sum((Fraction(query.local_cost(answered)) for query in task.queries), Fraction(0))


@dataclass(frozen=True)
class AnswerCost:
    """The charge for the answers to a round, and the limits to check.

    Attributes:
        task_cost: the task's promise.
        price: returns the local ε of one more round after so many answered rounds.
        day: the UTC day to charge.
        limits: the application's limits.
        promise: the task's values of the names in `OF_PROMISE`.
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
    """The `rounds` rounds of a task, between `first` and `last`, that were charged on a day, with `local` each."""

    day: int
    local: Fraction
    rounds: int
    first: int
    last: int


@dataclass(frozen=True)
class ProvenLoss:
    """The ε that a certificate proves at the task's minimum, for the rounds up to `last` except `missing` of them."""

    last: int
    missing: int
    epsilon: Fraction


@dataclass(frozen=True)
class Account:
    """A device's charges for a task. `exceeded` is the ε of each round whose certificate exceeds the promise."""

    task_id: bytes
    task_cost: TaskCost
    charges: tuple[Charges, ...]
    proven: ProvenLoss | None = None
    exceeded: Mapping[int, Fraction] = field(default_factory=dict)

    def since(self, day: int) -> Account:
        """Return the account with the charges of that day and later: a clock that is set back gives no new budget."""
        return replace(self, charges=tuple(each for each in self.charges if each.day >= day))

    @property
    def rounds(self) -> int:
        """How many rounds were answered."""
        return sum(each.rounds for each in self.charges)

    @property
    def local(self) -> Fraction:
        """The local ε of these rounds, added exactly."""
        return sum((each.rounds * each.local for each in self.charges), Fraction(0))

    @property
    def central(self) -> tuple[Fraction, Fraction]:
        """The central ε of these rounds, and its δ: the smallest bound of the module's docstring."""
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
        # The file does not store which rounds between first and last were answered: assume that each was.
        answered = [
            above
            for number, above in self.exceeded.items()
            if any(each.first <= number <= each.last for each in self.charges)
        ]
        return sum((above - epsilon for above in answered), Fraction(0))


def check_limits(accounts: Sequence[Account], task_id: bytes, round_number: int, answer_cost: AnswerCost) -> None:
    """Return only if one more round of a task stays within the limits; `accounts` are all of the device's accounts.

    Raises:
        OverLimit: for the first limit that would be exceeded, the limits on the promise first. The message names it,
            the amount spent on each task, and what to do.
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
                f"round {round_number} of task {answer_cost.task_cost.name} is not answered: the task has {name} = "
                f"{promised:.9g}, and this device allows at most {name} = {limit:.9g}; ask the operator for a task "
                f"whose {name} is smaller, or raise the limit",
                limit=name,
                value=limit,
                spent=0.0,
                cost=promised,
                frees_up=None,
            )


@dataclass(frozen=True)
class _Scope:
    """A limit, and the charges that count against it: this task's, those of other tasks, and the round's."""

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
        """Return the amount that would count if the round were answered on that day."""
        own = replace(self.own, charges=(*self.own.charges, replace(self.added, day=day)))
        return _total(self._amounts(own, day))

    def _amounts(self, own: Account, day: int) -> list[tuple[Account, Fraction]]:
        """Return the amount spent on each task; if the limit is daily, from that day on."""
        found = [each.since(day) if self._daily else each for each in (own, *self.others)]
        if "local" in self.name:
            return [(each, each.local) for each in found]
        return [(each, each.central[0]) for each in found]

    def _frees_up(self) -> int | None:
        """Return when enough is freed for the round: at the end of a day with charges; None if never."""
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
