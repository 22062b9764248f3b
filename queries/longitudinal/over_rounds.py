"""What a randomizer has besides where its reports of several rounds hang together.

A device then keeps something of one round for the next. What was drawn once for all rounds must not be drawn again, as
that would be a second release: it is stored in the transaction that stores the report made from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hubbub.queries.estimation.estimates import Row
from hubbub.queries.fields import Fields
from hubbub.queries.randomizers.randomizer import Randomizer, Tally
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.queries.questions.question import Value

Memory = Mapping[str, int]
"""What a device keeps of a query: whole numbers by name."""

ERASED: Memory = {"erased": 1}
"""What is left where a device erased its memory: that there was one."""


@dataclass(frozen=True)
class RoundContext:
    """The round that is answered, and what the device kept of the query; None where it keeps nothing yet."""

    round: int
    memory: Memory | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Encoded:
    """The symbol that encodes an answer, and what is to be kept for the next round; None where nothing is.

    Neither is ever printed: this is an answer before it is randomized.
    """

    symbol: int = field(repr=False)
    memory: Memory | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Batch:
    """One round's tally of a query, with `dummies` among the valid reports."""

    tally: Tally
    dummies: int = 0


class OverRounds(ABC):
    """A randomizer whose reports of several rounds hang together."""

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How many rounds are promised together."""

    @abstractmethod
    def encode_at(
        self, answer: Value, encode: Callable[[Value, Random], int], moment: RoundContext, random: Random
    ) -> Encoded:
        """Return the symbol of a round, and what to keep; `encode` is the question's.

        Raises:
            AnswerError: where the answer does not fit, or a later round was answered before.
        """

    @abstractmethod
    def rows(self, number: int, batches: Mapping[int, Batch]) -> tuple[Row, ...]:
        """Return the estimates after round `number`, from the published batches of the rounds up to it."""

    @abstractmethod
    def check_steady_people(self, table: str, honest: int, share: float | None, delta: float) -> None:
        """Return only if it counts on no more people than `share` of the `honest` ones at the minimum can be.

        Raises:
            FieldError: where it counts on more, or on some while the task states no share.
        """

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return its parameters as members of a task's query."""


@runtime_checkable
class OfRounds(Protocol):
    """A question that not every number of rounds can ask."""

    def check_rounds(self, table: str, rounds: int) -> None:
        """Return only if a task of so many rounds can ask it.

        Raises:
            FieldError: where it cannot.
        """


@runtime_checkable
class ByRound(OfRounds, Protocol):
    """A question whose answers are encoded otherwise in each round; every round's report stands for itself."""

    def encode_in(self, answer: Value, number: int, random: Random) -> int:
        """Return the symbol that encodes an answer, which is not None, in round `number`.

        Raises:
            AnswerError: where it does not fit; the message never repeats it.
        """


@runtime_checkable
class Repeated(OfRounds, Protocol):
    """A question whose rounds hang together: it knows the randomizers that it can be asked through."""

    def check_promise(self, table: str, randomizer: Randomizer, honest: int, delta: float) -> None:
        """Return only if a frozen task's randomizer promises no more than `honest` people at the minimum give.

        Raises:
            FieldError: where it does.
        """

    def read_randomizer(self, fields: Fields) -> Randomizer:
        """Read the randomizer of a frozen task's query.

        Raises:
            FieldError: naming the value that is not allowed.
        """
