"""What is to be composed for one round of a longitudinal query, for the rounds so far, and for the whole horizon.

The parts are for `accountant.composition`, alone or beside those of other queries. docs/accounting.md proves why they
cover what a person sends. To add a strategy, add a class here and a line to `SPENDINGS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms import Generic
from hubbub.accountant.mechanisms.longitudinal import AnyStrategy, Direct, Sampled, Vector
from hubbub.accountant.pairs import Part

Batches = Mapping[int, int]
"""Reports of each level's batch, by level; of `direct`, which has one batch a period, those of level 0."""


class Spending(Protocol):
    """What one strategy's rounds cost a person."""

    def round(self, period: int, batches: Batches) -> tuple[Part, ...]:
        """Return what the round of `period` reveals by itself; empty where nobody sends anything."""

    def so_far(self, rounds: Sequence[Batches]) -> tuple[Part, ...]:
        """Return what all rounds from the first one reveal together."""


@dataclass(frozen=True)
class DirectSpending:
    """Every period is a round of binary randomized response."""

    strategy: Direct

    def round(self, period: int, batches: Batches) -> tuple[Part, ...]:
        """Return one round at its number of reports."""
        self.strategy.horizon.until(period)
        return (Part(self.strategy.mechanism, _of(batches, 0)),)

    def so_far(self, rounds: Sequence[Batches]) -> tuple[Part, ...]:
        """Return each round at its number of reports."""
        return _joined([self.round(place, batches)[0] for place, batches in enumerate(rounds, 1)])


@dataclass(frozen=True)
class SignsSpending:
    """One level's signs: a device's whole sequence is one report, common to its level."""

    strategy: Sampled | Vector

    def round(self, period: int, batches: Batches) -> tuple[Part, ...]:
        """Return one sign, at the smallest of the levels that send one."""
        levels = [level for level, _ in self.strategy.horizon.ending(period)]
        return (Part(Generic(self.strategy.epsilon_sign), min(_of(batches, level) for level in levels)),)

    def so_far(self, rounds: Sequence[Batches]) -> tuple[Part, ...]:
        """Return whole sequences so far; a level hides by those of its devices who took part in every round so far.

        So that is what `rounds` must give (a fixed minimum), not how many reports each round had. Everybody is in one
        level only: the smallest one and the largest local ε cover every level.
        """
        horizon = self.strategy.horizon
        periods = range(1, horizon.until(len(rounds)) + 1)
        fewest = min(_of(rounds[end - 1], level) for end in periods for level, _ in horizon.ending(end))
        return (Part(Generic(self.strategy.epsilon_local(len(rounds))), fewest),)


SPENDINGS: Mapping[type, Callable[[Any], Spending]] = {
    Direct: DirectSpending,
    Sampled: SignsSpending,
    Vector: SignsSpending,
}
"""What is known of each strategy's cost, by its type."""


def spending(strategy: AnyStrategy) -> Spending:
    """Return what `strategy` costs; raises AccountingError for anything else."""
    known = SPENDINGS.get(type(strategy))
    if known is None:
        raise AccountingError(f"strategy is {shown(strategy)}, must be one of {[each.__name__ for each in SPENDINGS]}")
    return known(strategy)


def parts_of_round(strategy: AnyStrategy, period: int, batches: Batches) -> tuple[Part, ...]:
    """Return what the round of `period` alone reveals, each level's batch having at least so many reports."""
    return spending(strategy).round(period, batches)


def parts_so_far(strategy: AnyStrategy, rounds: Sequence[Batches]) -> tuple[Part, ...]:
    """Return what the rounds of periods 1, 2, …, len(rounds) reveal together.

    Numbers of reports must not depend on what was published before: where they may, give the minimum that was fixed
    beforehand. For `sampled` and `vector` only devices count that took part in every one of these rounds.
    """
    return spending(strategy).so_far(rounds)


def parts_of_horizon(strategy: AnyStrategy, reports: int) -> tuple[Part, ...]:
    """Return what the whole horizon reveals, with at least `reports` in each batch."""
    horizon = strategy.horizon
    return spending(strategy).so_far([dict.fromkeys(range(horizon.levels), reports)] * horizon.periods)


def _of(batches: Batches, level: int) -> int:
    if level not in batches:
        raise AccountingError(f"batches are of levels {sorted(batches)}, must have level {level}; give its reports")
    return batches[level]


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Join parts that differ in their rounds only."""
    rounds: dict[Part, int] = {}
    for part in parts:
        rounds[part] = rounds.get(part, 0) + 1
    return tuple(Part(part.mechanism, part.reports, count) for part, count in rounds.items())
