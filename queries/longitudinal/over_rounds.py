"""The protocols of randomizers and questions whose reports of several rounds are linked.

A device then keeps a memory from one round to the next. A value that was drawn once for all rounds must not be drawn
again, because that would be a second release. So it is stored in the transaction that stores the report made from it.
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
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.questions.question import Value

Memory = Mapping[str, int]
"""The memory of a device for a query: whole numbers by name."""

ERASED: Memory = {"erased": 1}
"""The mark that a device erased its memory: it records only that there was one."""


@dataclass(frozen=True)
class RoundContext:
    """The round that is answered, and the device's memory of the query; None if there is none yet."""

    round: int
    memory: Memory | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Encoded:
    """The symbol that encodes an answer, and the memory for the next round; None if there is none.

    Neither is ever printed, because this is an answer before it is randomized.
    """

    symbol: int = field(repr=False)
    memory: Memory | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Batch:
    """One round's tally of a query, with `dummies` among the valid reports."""

    tally: Tally
    dummies: int = 0


class OverRounds(ABC):
    """A randomizer whose reports of several rounds are linked."""

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How many rounds the promise covers together."""

    @abstractmethod
    def encode_at(
        self, answer: Value, encode: Callable[[Value, Random], int], moment: RoundContext, random: Random
    ) -> Encoded:
        """Return the symbol of a round and the memory to keep; `encode` is the question's method.

        Raises:
            AnswerError: if the answer does not fit, or this or a later round was answered before.
        """

    @abstractmethod
    def rows(self, number: int, batches: Mapping[int, Batch], noise: ChainNoise | None = None) -> tuple[Row, ...]:
        """Return the estimates after round `number`, from the published batches of the rounds up to it.

        With `noise`, each shuffler drew the numbers of the batches' dummies from that law, in each round.

        Raises:
            ValueError: for noise beside a randomizer that the shuffler cannot imitate.
        """

    @abstractmethod
    def check_steady_people(self, table: str, honest: int, share: float | None, delta: float) -> None:
        """Return only if it assumes no more steady people than `share` of the `honest` ones at the minimum give.

        Raises:
            FieldError: if it assumes more, or assumes some while the task states no share.
        """

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return its parameters as members of a task's query."""


@runtime_checkable
class OfRounds(Protocol):
    """A question that limits the number of rounds of its task."""

    def check_rounds(self, table: str, rounds: int) -> None:
        """Return only if a task of so many rounds can ask it.

        Raises:
            FieldError: if it cannot.
        """


@runtime_checkable
class ByRound(OfRounds, Protocol):
    """A question that encodes answers differently in each round; the reports of different rounds are independent."""

    def encode_in(self, answer: Value, number: int, random: Random) -> int:
        """Return the symbol that encodes an answer, which is not None, in round `number`.

        Raises:
            AnswerError: if it does not fit; the message never repeats it.
        """


@runtime_checkable
class Repeated(OfRounds, Protocol):
    """A question whose rounds are linked; it reads its own randomizer."""

    def check_promise(self, table: str, randomizer: Randomizer, honest: int, delta: float) -> None:
        """Return only if a frozen task's randomizer promises no more than `honest` people at the minimum give.

        Raises:
            FieldError: if it promises more.
        """

    def read_randomizer(self, fields: Fields) -> Randomizer:
        """Read the randomizer of a frozen task's query.

        Raises:
            FieldError: if a value is not allowed; it is named.
        """
