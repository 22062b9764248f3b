"""The inputs of a certificate, as values: the promise of a task, and the counts of its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hubbub.accountant.mechanisms import LocalMechanism, WithNoise


class Admission(Protocol):
    """A task's policy of admission; the accountant needs this member only."""

    @property
    def assumed(self) -> bool:
        """Whether nobody checks who submits."""


class PrivacyPromise(Protocol):
    """A task or a draft. The accountant imports neither; it needs these members only."""

    @property
    def minimum_reports(self) -> int:
        """The fewest reports that are released in a round."""

    @property
    def privacy(self) -> object:
        """An object with the attributes `epsilon` to `epsilon_total` of the `Terms`, without the minimum."""

    @property
    def horizon(self) -> int | None:
        """How many rounds are promised together; None if none are."""

    @property
    def shufflers(self) -> int:
        """How many shufflers permute each batch, as far as is known: the first one and the hops."""

    @property
    def admission(self) -> Admission:
        """Who may submit."""


@dataclass(frozen=True)
class Terms:
    """A task's promise: (ε, δ) of everything one person sends in a round, the cap on ε_local, the honest share, n.

    Each query's batch has `dummies` dummies in addition to the reports of people. `epsilon_total` caps ε at δ over all
    rounds of the task; None means no cap. `horizon` is the number of rounds whose joint cost a certificate states
    beforehand, which a longitudinal query requires; None means that it states none.

    No ε depends on the last two, but the words do that say who must be honest for it: the number of `shufflers` in the
    chain, and whether it is `assumed` who submits, as nobody checks it.
    """

    epsilon: float
    delta: float
    epsilon_local: float
    honest_share: float
    minimum_reports: int
    dummies: int = 0
    epsilon_total: float | None = None
    horizon: int | None = None
    shufflers: int = 1
    assumed: bool = False

    @classmethod
    def of(cls, task: PrivacyPromise) -> Terms:
        """Read the terms of a task or a draft."""
        names = ("epsilon", "delta", "epsilon_local", "honest_share", "dummies", "epsilon_total")
        promised = {name: getattr(task.privacy, name) for name in names}
        return cls(
            minimum_reports=task.minimum_reports,
            horizon=task.horizon,
            shufflers=task.shufflers,
            assumed=task.admission.assumed,
            **promised,
        )

    def uniform_dummies(self, mechanism: LocalMechanism) -> int:
        """Return how many uniform dummies hide people in a batch: none beside noise, drawn in place of them."""
        return 0 if isinstance(mechanism, WithNoise) or not mechanism.counts_dummies else self.dummies


@dataclass(frozen=True)
class QueryCount:
    """One query's batch: the reports delivered, how many of them are valid, and the others by reason.

    `valid` is the number of reports that the analyzer could open and read. It is not a sum of counts: a unary report
    adds to as many counts as it has bits set, so that sum does not give the number of reports. For a round that was
    never counted both are the task's minimum, and `released` is how many reports the shuffler released; otherwise it
    is None. `noise` is the sum of what all shufflers drew as noise, by their records; no ε depends on it.
    """

    name: str
    mechanism: LocalMechanism
    reports: int
    valid: int
    left_out: Mapping[str, int]
    released: int | None = None
    noise: int = 0


@dataclass(frozen=True)
class RoundCounts:
    """One round's batches, in the task's order of queries."""

    round: int
    queries: tuple[QueryCount, ...]
