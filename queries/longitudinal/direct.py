"""Direct: the state itself, through kRR of two values, in every round anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hubbub.queries.draws import Random, uniform
from hubbub.queries.fields import DENOMINATOR, Fields
from hubbub.queries.krr import KRandomizedResponse
from hubbub.queries.longitudinal.memory import Encoded, Memory, Stream
from hubbub.queries.rows import Row

if TYPE_CHECKING:
    from hubbub.queries.longitudinal.series import Batch


@dataclass(frozen=True)
class Direct(KRandomizedResponse):
    """kRR of st(t) at every t. A person pays for every round, and a round that is missed costs the others nothing."""

    name: ClassVar[str] = "direct"

    @classmethod
    def planned(cls, fields: Fields, periods: int, changes: int) -> Direct:  # noqa: ARG003 - other strategies need them
        """Read γ as [w, 2³²]."""
        return cls(2, fields.ratio("gamma", "at 0 there is no privacy, at 1 no answer"))

    def content(self) -> dict[str, Any]:
        """Return γ."""
        return {"gamma": [self.gamma, DENOMINATOR]}

    def step(self, memory: Memory | None, before: Stream, after: Stream, random: Random) -> Encoded:  # noqa: ARG002
        """Return the state, which `randomize` randomizes."""
        return Encoded(after.state, after.content())

    def erased(self, random: Random) -> int:
        """Return a fair coin."""
        return uniform(2, random)

    def rows(self, number: int, batches: Mapping[int, Batch]) -> tuple[Row, ...]:
        """Return how many are in state True, of those who answered the round. No other round says anything of it."""
        from hubbub.queries.debiased import Debiased

        batch = batches[number]
        debiased = Debiased(self, batch.tally, batch.dummies)
        return (Row("count", debiased.every_symbol()[1]), Row("answered", debiased.answered(self.symbols)))

    def variance(self, period: int, reports: int) -> float:  # noqa: ARG002 - it is the same in every period
        """Return n·(γ/2)(1 − γ/2)/(1 − γ)²: both states have the same."""
        half = self.gamma / DENOMINATOR / 2
        return reports * half * (1 - half) / self.keep**2
