"""Reports a device's budget: the ε that it has spent today and on each task, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hubbub.client.limits import PrivacyLimits
from hubbub.client.privacy.ledger import DAY_SECONDS, Account, rounded_up


@dataclass(frozen=True)
class Epsilon:
    """The privacy spent in `rounds` rounds, rounded up: local ε, and central (ε, δ).

    Local ε bounds what is learned even if shuffler and analyzer collude. Central ε is a bound only if they do not, and
    if the honest share of the reports is at least that of the task.
    """

    rounds: int
    epsilon_local: float
    epsilon: float
    delta: float


@dataclass(frozen=True)
class TaskBudget:
    """The privacy that a device has spent on a task in all, and today.

    Attributes:
        task: its name.
        task_id: its id in hex (64 digits).
        total: the cost of all rounds that were answered, whether or not the answers left the device.
        today: the cost of the rounds that were answered today.
        certified: the last round with an added certificate that proves a central ε for all rounds so far; None if there
            is none.
        exceeded: rounds whose certificates state a larger ε than the task promises; the larger ε is counted.
    """

    task: str
    task_id: str
    total: Epsilon
    today: Epsilon
    certified: int | None
    exceeded: tuple[int, ...]


@dataclass(frozen=True)
class Budget:
    """The privacy that a device has spent on all tasks of its state file.

    Attributes:
        day: when today began (seconds since 1970, UTC).
        frees_up: when tomorrow begins.
        today: the privacy spent today on all tasks.
        tasks: each task that was answered, in the order of their ids.
        limits: the application's limits.
        left: for each limit, how much of it is left: for today, or for the task of this device.
    """

    day: int
    frees_up: int
    today: Epsilon
    tasks: tuple[TaskBudget, ...]
    limits: PrivacyLimits
    left: Mapping[str, float]


def budget_of(accounts: Sequence[Account], task_id: bytes, day: int, limits: PrivacyLimits) -> Budget:
    """Return the budget of a device with these accounts, on a UTC day; `task_id` is the task of the limits per task."""
    today = _added([each.since(day) for each in accounts])
    own = _added([each for each in accounts if each.task_id == task_id])
    return Budget(
        day=day * DAY_SECONDS,
        frees_up=(day + 1) * DAY_SECONDS,
        today=today,
        tasks=tuple(_task(each, day) for each in accounts),
        limits=limits,
        left={name: _left(name, limit, today, own) for name, limit in limits.given.items()},
    )


def _task(account: Account, day: int) -> TaskBudget:
    return TaskBudget(
        task=account.task_cost.name,
        task_id=account.task_id.hex(),
        total=_added([account]),
        today=_added([account.since(day)]),
        certified=None if account.proven is None else account.proven.last,
        exceeded=tuple(sorted(account.exceeded)),
    )


def _added(accounts: Sequence[Account]) -> Epsilon:
    central = [each.central for each in accounts]
    return Epsilon(
        rounds=sum(each.rounds for each in accounts),
        epsilon_local=rounded_up(sum((each.local for each in accounts), Fraction(0))),
        epsilon=rounded_up(sum((epsilon for epsilon, _ in central), Fraction(0))),
        delta=rounded_up(sum((delta for _, delta in central), Fraction(0))),
    )


def _left(name: str, limit: float, today: Epsilon, own: Epsilon) -> float:
    counted = today if name.endswith("_per_day") else own
    spent = counted.epsilon_local if "local" in name else counted.epsilon
    return max(0.0, limit - spent)
