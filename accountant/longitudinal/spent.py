"""What is to be composed for one round of a longitudinal query, for the rounds so far, and for the whole horizon.

The parts are for `accountant.composition`, alone or beside those of other queries. docs/accounting.md proves why they
cover what a person sends. To add a strategy, add a class here and a line to `SPENDINGS`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms import Finite, Generic
from hubbub.accountant.mechanisms.longitudinal import AnyStrategy, Direct, Horizon, Node, Sampled, Tree, Vector
from hubbub.accountant.mechanisms.longitudinal.tree import Differences, differences
from hubbub.accountant.pairs import Part, one_round
from hubbub.accountant.pairs.doubles import covered, single, spared

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
        """Return as many rounds at the smallest number of reports."""
        fewest = min(_of(batches, 0) for batches in rounds)
        return (Part(self.strategy.mechanism, fewest, self.strategy.horizon.until(len(rounds))),)


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
        fewest = min(_fewest(self.strategy.horizon, rounds).values())
        return (Part(Generic(self.strategy.epsilon_local(len(rounds))), fewest),)


@dataclass(frozen=True)
class TreeSpending:
    """Every node is a batch; streams differ in few nodes of a level."""

    strategy: Tree
    cover: Callable[[Node, int], bool] = covered

    def round(self, period: int, batches: Batches) -> tuple[Part, ...]:
        """Return every node that ends with `period`: streams can differ in all of them."""
        horizon, nodes = self.strategy.horizon, self.strategy.nodes
        by_one = [place == 1 or horizon.changes == 1 for _, place in horizon.ending(period)]
        return _joined(
            Part(single(nodes[level]) if one else Finite(nodes[level].law), _of(batches, level))
            for (level, _), one in zip(horizon.ending(period), by_one, strict=True)
        )

    def so_far(self, rounds: Sequence[Batches]) -> tuple[Part, ...]:
        """Return for each level as many nodes as streams can differ in, at its smallest number of reports."""
        found: list[Part] = []
        for level, fewest in _fewest(self.strategy.horizon, rounds).items():
            found += _level_parts(self.strategy.nodes[level], fewest, self._differences(level, len(rounds)), self.cover)
        return _joined(found)

    def _differences(self, level: int, period: int) -> Differences:
        return differences(self.strategy.horizon, level, period)


def _level_parts(node: Node, reports: int, slots: Differences, cover: Callable[[Node, int], bool]) -> list[Part]:
    """Return one level's batches. A pair is two single differences where these cover a double one.

    Else it is a single one and anything: together these cover both.
    """
    anything, singles, pairs = slots.anything, slots.singles, 0
    if slots.pairs and cover(node, reports):
        pairs = 2 * slots.pairs
    else:
        anything, singles = anything + slots.pairs, singles + slots.pairs
    counted = [(Finite(node.law), reports, anything), (single(node), reports, singles)]
    counted.append((single(node), spared(reports), pairs))
    return [Part(mechanism, people, rounds) for mechanism, people, rounds in counted if rounds]


SPENDINGS: Mapping[type, Callable[[Any], Spending]] = {
    Direct: DirectSpending,
    Sampled: SignsSpending,
    Vector: SignsSpending,
    Tree: TreeSpending,
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
    return spending(strategy).so_far(_all_rounds(strategy.horizon, reports))


def assumed_parts(strategy: AnyStrategy, reports: int) -> tuple[Part, ...]:
    """Return what `parts_of_horizon` returns if single differences cover double ones: quick, certifies nothing."""
    if not isinstance(strategy, Tree):
        return parts_of_horizon(strategy, reports)
    return TreeSpending(strategy, lambda *_: True).so_far(_all_rounds(strategy.horizon, reports))


def _all_rounds(horizon: Horizon, reports: int) -> list[Batches]:
    return [dict.fromkeys(range(horizon.levels), reports)] * horizon.periods


def _of(batches: Batches, level: int) -> int:
    if level not in batches:
        raise AccountingError(f"batches are of levels {sorted(batches)}, must have level {level}; give its reports")
    return batches[level]


def _fewest(horizon: Horizon, rounds: Sequence[Batches]) -> dict[int, int]:
    """Return the smallest batch of each level that has a node that ended, in the rounds in which one did."""
    fewest: dict[int, int] = {}
    for end in range(1, horizon.until(len(rounds)) + 1):
        for level, _ in horizon.ending(end):
            reports = _of(rounds[end - 1], level)
            fewest[level] = min(reports, fewest.get(level, reports))
    return fewest


def _joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Join parts that differ in their rounds only."""
    rounds: dict[Part, int] = {}
    for part in parts:
        rounds[one_round(part)] = rounds.get(one_round(part), 0) + part.rounds
    return tuple(replace(part, rounds=count) for part, count in rounds.items())
