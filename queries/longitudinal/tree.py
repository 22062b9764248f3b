"""The tree strategy: in every round a device sends its change within the longest node that ends then, also if it is 0.

[1, t] is divided into the nodes of t's binary ones, and each of them is the longest node that ends with its last
period. So one report a round is enough for every count, and a node's value is estimated from its own reports only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from hubbub.accountant.mechanisms import TreeNodes
from hubbub.accountant.mechanisms.longitudinal import Horizon, Tree
from hubbub.queries.estimation.estimates import Estimate, Row
from hubbub.queries.fields import DENOMINATOR, Fields
from hubbub.queries.longitudinal import sampling
from hubbub.queries.longitudinal.over_rounds import Batch, Encoded, Memory
from hubbub.queries.longitudinal.randomized_step import SendingDrawn
from hubbub.queries.longitudinal.stream import Stream
from hubbub.queries.randomizers.randomizer import beside_noise, check_sum
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.randomizers.randomizer import Tally
    from hubbub.queries.randomizers.randomizer import Vector as Weights


@dataclass(frozen=True)
class SendingNodes(SendingDrawn):
    """Sends the value of a node, −1, 0 or 1, by one `Node`, which is the same for every level."""

    kind: ClassVar[str] = TreeNodes.kind
    in_words: ClassVar[str] = (
        "a device sends how its answer changed over the last rounds, or by chance something else (randomized "
        "response on a dyadic tree)"
    )
    most_symbols: ClassVar[int] = 3
    needs_known_domain: ClassVar[bool] = True
    one_symbol_per_report: ClassVar[bool] = True

    mechanism: TreeNodes

    @property
    def horizon(self) -> Horizon:
        """The periods and changes."""
        return self.mechanism.horizon

    @cached_property
    def strategy(self) -> Tree:  # type: ignore[override]
        """The strategy's local ε and errors."""
        return Tree(self.horizon, self.mechanism.node)

    @property
    def symbols(self) -> int:
        """One symbol for each value of a node, the least first."""
        return len(self.mechanism.node.values)

    @classmethod
    def read_task(cls, fields: Fields, horizon: Horizon) -> SendingNodes:
        """Read γ and b, each as [w, 2³²]."""
        gamma = fields.ratio("gamma", "at 0 there is no privacy, at 1 no answer")
        side = fields.ratio("side", "at 0 a change would be certain")
        return cls(TreeNodes(horizon.periods, horizon.changes, gamma, side))

    def content(self) -> dict[str, Any]:
        """Return γ and b."""
        return {"gamma": [self.mechanism.gamma, DENOMINATOR], "side": [self.mechanism.side, DENOMINATOR]}

    def check_steady_people(self, table: str, honest: int, share: float | None, delta: float) -> None:
        """Every round is a separate batch, so nobody has to answer all of them."""

    # On the device

    def step(self, memory: Memory | None, before: Stream, after: Stream, random: Random) -> Encoded:
        """Return the report of the node that ends with the period.

        `bases` has a bit for each level: the state before the start of the level's node that contains the period.
        """
        bases, period = 0 if memory is None else memory["bases"], after.period
        for level in range(self.horizon.levels):
            # If the node began since the last answer, its start has the last known state.
            if before.period <= (period - 1) >> level << level:
                bases = bases & ~(1 << level) | before.state << level
        level, _ = self.horizon.ending(period)
        value = after.state - (bases >> level & 1)
        return Encoded(self._drawn(value, random), {**after.content(), "bases": bases})

    def erased(self, random: Random) -> int:
        """Return a report of the value 0."""
        return self._drawn(0, random)

    def _drawn(self, value: int, random: Random) -> int:
        node = self.mechanism.node
        return sampling.node_value(node, value, random) - node.values[0]

    # At the shuffler

    @property
    def report_symbols(self) -> int:
        """A report is a value of a node."""
        return self.symbols

    def reports_of(self, counts: Sequence[int]) -> bytes:
        """Return so many reports of each value, the least value first."""
        return self._symbols.reports_of(counts)

    # Estimates

    def debias(self, tally: Tally, dummies: int, noise: ChainNoise | None = None) -> tuple[Weights, Weights]:
        """Return the values' counts less the mean number of dummies of each, which noise draws for −1 and +1 alone."""
        if noise is None:
            return super().debias(tally, dummies)
        import numpy as np

        law = beside_noise(self, noise.law)
        mean = noise.shufflers * np.array(law.by_symbol([noise.law.reach] * law.draws))
        counts = np.asarray(tally.counts - mean, dtype=np.float64)
        return counts, np.zeros(len(counts))

    def noise_variance(self, period: int, noise: ChainNoise) -> float:
        """Return that of all nodes of the count: of each a number of +1 is drawn, and one of −1 if there is one."""
        return len(self.horizon.cover(period)) * self._noise_of_node(noise)

    def _noise_of_node(self, noise: ChainNoise) -> float:
        sides, truthful = self.symbols - 1, float(1 - self.mechanism.node.blanket)
        return sides * float(noise.variance) / truthful**2

    def rows(self, number: int, batches: Mapping[int, Batch], noise: ChainNoise | None = None) -> tuple[Row, ...]:
        """Return the count after the round and how many answered it; if states change once, also the series so far.

        The count has no value if the last round of one of its nodes was not published. There are as many nodes as
        counts, so only the fact that a count cannot fall can improve an estimate.
        """
        from hubbub.queries.longitudinal.monotone import rising_rows

        never_falls = self.horizon.changes == 1
        needed = range(number + 1) if never_falls else self._ends(number)
        nodes = {place: self._node(batches[place], noise) for place in needed if place in batches}
        counts = {place: self._count(place, nodes) for place in (range(number + 1) if never_falls else (number,))}
        known = {place: count for place, count in counts.items() if count is not None}
        people = float(batches[number].tally.valid - batches[number].dummies)
        answered = Row("answered", Estimate(people, 0.0, people, people))
        return (Row("count", counts[number]), answered, *(rising_rows(known) if never_falls else ()))

    def _ends(self, number: int) -> list[int]:
        """Return the last rounds of the nodes of the count after a round."""
        return [(place << level) - 1 for level, place in self.horizon.cover(number + 1)]

    def _count(self, number: int, nodes: Mapping[int, tuple[float, float]]) -> Estimate | None:
        """Return the count after a round, from its nodes' values and variances; None if one of them is unknown."""
        from hubbub.queries.estimation.bands import Z_95

        ends = self._ends(number)
        if not all(end in nodes for end in ends):
            return None
        value, error = sum(nodes[end][0] for end in ends), math.sqrt(sum(nodes[end][1] for end in ends))
        return Estimate(value, error, value - Z_95 * error, value + Z_95 * error)

    def _node(self, batch: Batch, noise: ChainNoise | None) -> tuple[float, float]:
        """Return a node's estimated sum of values, and its variance at the estimated number of nonzero values."""
        if noise is not None:
            check_sum(self, noise, batch.dummies)
        node, people = self.mechanism.node, batch.tally.valid - batch.dummies
        counts = dict(zip(node.values, map(int, batch.tally.counts), strict=True))
        plus, minus = counts[1], counts.get(-1, 0)
        # The mean number of dummies of −1 and of +1. Uniform ones are each value alike.
        each = batch.dummies / self.symbols if noise is None else float(noise.mean)
        truthful, edge, sides = float(1 - node.blanket), float(node.blanket * node.edge), self.symbols - 1
        # Dummies of −1 and of +1 cancel in the mean.
        mean = 0.0 if node.signed else each
        value = (plus - minus - people * float(node.bias) - mean) / truthful
        nonzero = (plus + minus - sides * (people * edge + each)) / truthful
        squares = batch.dummies * (2 / 3 if node.signed else 1 / 4) / truthful**2
        if noise is not None:
            squares = self._noise_of_node(noise)
        return value, float(node.variance(people, round(min(max(nonzero, 0.0), people)))) + squares
