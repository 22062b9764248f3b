"""The base class of strategies: randomizers that send a stream of states, one report a round, with linked rounds.

To add a strategy, write a class with these members and a randomizer's, and add its line to `strategies`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from hubbub.accountant.mechanisms.longitudinal import Horizon, Strategy
from hubbub.queries.errors import FieldError, TaskError
from hubbub.queries.fields import Fields
from hubbub.queries.longitudinal.over_rounds import ERASED, Encoded, Memory, OverRounds, RoundContext
from hubbub.queries.longitudinal.stream import Stream
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.questions.question import Value
    from hubbub.queries.randomizers.randomizer import RandomizerFamily


COUNTS_ON_STEADY = "certified by the people of one level who answer every round"
"""The words of an error if a strategy needs the steady share, and nobody stated it."""

STEADY_MISSING = (
    f"is {COUNTS_ON_STEADY}; set steady_share in the query, the share of the minimum's honest people who do"
)
"""The words of an error if a query is without it."""


class Sending(OverRounds):
    """A randomizer of a whole stream.

    `step` makes the symbol of a round. If it uses values that were drawn once for all rounds, the symbol is random
    already, and `randomize` sends it unchanged. Then `mechanism` is the law of all reports over all rounds.
    """

    counts_on_steady: ClassVar[bool] = False
    """Whether its certificate over rounds rests on people who answer every round."""

    strategy: Strategy
    """The strategy's exact law, local ε and errors."""

    @classmethod
    def read(cls, fields: Fields, symbols: int) -> Self:
        """Refuse: only a longitudinal question has a strategy.

        Raises:
            FieldError: always.
        """
        problem = f"is for a longitudinal question, not for {symbols} symbols; choose another"
        raise FieldError(fields.table, "mechanism", problem)

    @classmethod
    def families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Refuse, as `read` does: a strategy is chosen over the whole horizon.

        Raises:
            TaskError: always.
        """
        raise TaskError(f"a strategy is for a longitudinal question, not for {symbols} symbols; choose a randomizer")

    @classmethod
    def shown_families(cls, symbols: int) -> Sequence[RandomizerFamily]:  # noqa: ARG003 - a randomizer's need it
        """Return none: no strategy is compared with randomizers of one round."""
        return ()

    @classmethod
    @abstractmethod
    def read_task(cls, fields: Fields, horizon: Horizon) -> Self:
        """Read the parameters in a frozen task's query.

        Raises:
            FieldError, AccountingError: if a value is not allowed; it is named.
        """

    @abstractmethod
    def step(self, memory: Memory | None, before: Stream, after: Stream, random: Random) -> Encoded:
        """Return the symbol of the last round of `after`, and the memory to keep, which includes the stream."""

    @abstractmethod
    def erased(self, random: Random) -> int:
        """Return a symbol that does not depend on any answer, for a device that erased its memory."""

    @abstractmethod
    def noise_variance(self, period: int, noise: ChainNoise) -> float:
        """Return the variance that the shufflers' noise adds to the estimated count after `period`.

        Raises:
            ValueError: if the shuffler cannot imitate the reports.
        """

    @property
    def rounds(self) -> int:
        """All periods."""
        return self.strategy.horizon.periods

    def encode_at(
        self, answer: Value, encode: Callable[[Value, Random], int], moment: RoundContext, random: Random
    ) -> Encoded:
        """Return the symbol of a round; without an answer, the symbol of the last state."""
        state = None if answer is None else encode(answer, random)
        if moment.memory == ERASED:
            return Encoded(self.erased(random), ERASED)
        before = Stream() if moment.memory is None else Stream.read(moment.memory)
        after = before.at(moment.round + 1, state, self.strategy.horizon.changes)
        return self.step(moment.memory, before, after, random)
