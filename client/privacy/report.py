"""What a device can say of its budget: the ε that it has spent today and on each task, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hubbub.client.limits import PrivacyLimits
from hubbub.client.privacy.ledger import DAY_SECONDS, Account, rounded_up


@dataclass(frozen=True)
class Epsilon:
    """What was spent, never below the truth: local ε, and central (ε, δ).

    Local ε bounds what is learned even if shuffler and analyzer work together. Central ε holds if they do not, and if
    as many of those who report are honest as the task says.
    """

    rounds: int
    epsilon_local: float
    epsilon: float
    delta: float


@dataclass(frozen=True)
class TaskBudget:
    """What a device has spent on a task in all, and today.

    Attributes:
        task: its name.
        task_id: its id (32 bytes).
        total: what all rounds cost that were answered, whether or not they left the device.
        today: what those cost that were answered today.
        certified: the last round of which a certificate was added that lowers the central ε; None without one.
        exceeded: rounds whose certificates state more than the task promises; what they state is counted.
    """

    task: str
    task_id: bytes
    total: Epsilon
    today: Epsilon
    certified: int | None
    exceeded: tuple[int, ...]


@dataclass(frozen=True)
class Budget:
    """What a device has spent on all tasks of its state file.

    Attributes:
        day: when today began (seconds since 1970, UTC).
        frees_up: when tomorrow begins.
        today: what was spent today on all tasks.
        tasks: each task that was answered, in the order of their ids.
        limits: what the application allows.
        left: by limit, how much of it is left: of a day, or of the task that the device is made for.
    """

    day: int
    frees_up: int
    today: Epsilon
    tasks: tuple[TaskBudget, ...]
    limits: PrivacyLimits
    left: Mapping[str, float]


def budget_of(accounts: Sequence[Account], task_id: bytes, day: int, limits: PrivacyLimits) -> Budget:
    """Return the budget of a device with these accounts, on a UTC day; `task_id` is the task whose limits are asked."""
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
        task_id=account.task_id,
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
