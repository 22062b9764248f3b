"""The direct strategy: a device sends its state by kRR of two values, randomized afresh in every round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon
from hubbub.queries.estimation.estimates import Row
from hubbub.queries.fields import DENOMINATOR, Fields
from hubbub.queries.longitudinal.over_rounds import Batch, Encoded, Memory
from hubbub.queries.longitudinal.strategy import Sending
from hubbub.queries.longitudinal.stream import Stream
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.sampling import Random, uniform

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise


@dataclass(frozen=True)
class SendingStates(Sending, KRandomizedResponse):
    """kRR of st(t) at every t. Every round has its cost; a missed round does not affect the others."""

    in_words: ClassVar[str] = (
        "a device sends yes or no in every round, and by chance either of them (binary randomized response, krr)"
    )

    horizon: Horizon

    @classmethod
    def of(cls, strategy: Direct) -> SendingStates:
        """Return the randomizer of a strategy."""
        return cls(2, strategy.gamma, strategy.horizon)

    @property
    def strategy(self) -> Direct:  # type: ignore[override]
        """The strategy's law and errors."""
        return Direct(self.horizon, self.gamma)

    @classmethod
    def read_task(cls, fields: Fields, horizon: Horizon) -> SendingStates:
        """Read γ as [w, 2³²]."""
        return cls(2, fields.ratio("gamma", "at 0 there is no privacy, at 1 no answer"), horizon)

    def content(self) -> dict[str, Any]:
        """Return γ."""
        return {"gamma": [self.gamma, DENOMINATOR]}

    def check_steady_people(self, table: str, honest: int, share: float | None, delta: float) -> None:
        """Every round is a separate batch, so nobody has to answer all of them."""

    def step(self, memory: Memory | None, before: Stream, after: Stream, random: Random) -> Encoded:  # noqa: ARG002
        """Return the state, which `randomize` randomizes."""
        return Encoded(after.state, after.content())

    def erased(self, random: Random) -> int:
        """Return a fair coin."""
        return uniform(2, random)

    def noise_variance(self, period: int, noise: ChainNoise) -> float:  # noqa: ARG002 - every round has its own batch
        """Return Var z/(1 − γ)²: the number z of symbol 1 is drawn, and the total is fixed."""
        return float(noise.variance) / self.support_gap**2

    def rows(self, number: int, batches: Mapping[int, Batch], noise: ChainNoise | None = None) -> tuple[Row, ...]:
        """Return how many are in state yes, of those who answered the round; other rounds give no information on it."""
        from hubbub.queries.estimation.debiased import Debiased

        batch = batches[number]
        debiased = Debiased(self, batch.tally, batch.dummies, noise)
        count = replace(debiased.every_symbol()[1], interval=None)
        return (Row("count", count), Row("answered", debiased.answered(self.symbols)))
