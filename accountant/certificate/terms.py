"""What a certificate is about, as values: what a task promises, and what was counted in its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hubbub.accountant.mechanisms import LocalMechanism


class PrivacyPromise(Protocol):
    """What promises privacy: a task, or a draft. The accountant imports neither and needs these two members only."""

    @property
    def minimum_reports(self) -> int:
        """Fewest reports a round is released with."""

    @property
    def privacy(self) -> object:
        """What has an attribute for each of the `Terms` but the minimum and the horizon."""

    @property
    def horizon(self) -> int | None:
        """How many rounds are promised together; None where none are."""


@dataclass(frozen=True)
class Terms:
    """What a task promises: (ε, δ) for everything one person sends in a round, the cap on ε_local, who is honest, n.

    `dummies` reports that nobody's answer went into are in each query's batch beside those of people; `epsilon_total`
    caps ε at δ over all rounds of the task, with None it is not capped. `horizon` is how many rounds a certificate
    states the cost of beforehand, as a question over time asks for; None states it of none.
    """

    epsilon: float
    delta: float
    epsilon_local: float
    honest_share: float
    minimum_reports: int
    dummies: int = 0
    epsilon_total: float | None = None
    horizon: int | None = None

    @classmethod
    def of(cls, task: PrivacyPromise) -> Terms:
        """Take them from a task, or a draft of one."""
        names = ("epsilon", "delta", "epsilon_local", "honest_share", "dummies", "epsilon_total")
        promised = {name: getattr(task.privacy, name) for name in names}
        return cls(minimum_reports=task.minimum_reports, horizon=task.horizon, **promised)


@dataclass(frozen=True)
class QueryCount:
    """One query's batch: the reports delivered, how many of them are valid, and the others by reason.

    `valid` is the number of reports that opened and could be read, as the analyzer tallied them. It is not a sum of
    counts: a unary report adds to as many counts as it has bits set, so their sum says nothing about how many came.
    A round that was never counted stands at the task's minimum in both; `released` is then how many reports the
    shuffler released it with, None of any other.
    """

    name: str
    mechanism: LocalMechanism
    reports: int
    valid: int
    left_out: Mapping[str, int]
    released: int | None = None


@dataclass(frozen=True)
class RoundCounts:
    """One round's batches, in the task's order of queries."""

    round: int
    queries: tuple[QueryCount, ...]
