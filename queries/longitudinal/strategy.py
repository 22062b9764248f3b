"""How a strategy sends a stream of states, a report a round; a randomizer whose rounds hang together.

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
    from hubbub.queries.questions.question import Value
    from hubbub.queries.randomizers.randomizer import RandomizerFamily


STEADY_MISSING = (
    "is certified by the people of one level who answer every round; say steady_share in the query, the share of the "
    "minimum's honest people who do"
)
"""What is told where a strategy needs to know who is steady, and nobody says it."""


class Sending(OverRounds):
    """A randomizer of a whole stream.

    The symbol of a round is made by `step`. Where that takes it from what was drawn once for all rounds, it is random
    already, and `randomize` sends it as it is; `mechanism` is then the law of everything that is sent over all rounds.
    """

    counts_on_steady: ClassVar[bool] = False
    """Whether its certificate over rounds rests on people who answer every round."""

    strategy: Strategy
    """Its exact law, its local ε and its errors."""

    @classmethod
    def read(cls, fields: Fields, symbols: int) -> Self:
        """Refuse: only a question over time is asked so.

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
            FieldError, AccountingError: naming the value that is not allowed.
        """

    @abstractmethod
    def step(self, memory: Memory | None, before: Stream, after: Stream, random: Random) -> Encoded:
        """Return the symbol of the round that `after` ends with, and what to keep, the stream included."""

    @abstractmethod
    def erased(self, random: Random) -> int:
        """Return a symbol that depends on nothing, for a device that erased what it kept."""

    @property
    def rounds(self) -> int:
        """All periods."""
        return self.strategy.horizon.periods

    def encode_at(
        self, answer: Value, encode: Callable[[Value, Random], int], moment: RoundContext, random: Random
    ) -> Encoded:
        """Return the symbol of a round; where there is no answer, that of the last state."""
        state = None if answer is None else encode(answer, random)
        if moment.memory == ERASED:
            return Encoded(self.erased(random), ERASED)
        before = Stream() if moment.memory is None else Stream.read(moment.memory)
        after = before.at(moment.round + 1, state, self.strategy.horizon.changes)
        return self.step(moment.memory, before, after, random)
