"""Strategy: how a stream of states is sent over the rounds, and how its series is estimated from their counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from hubbub.queries.draws import Random
from hubbub.queries.fields import Fields
from hubbub.queries.longitudinal.memory import Encoded, Memory, Stream
from hubbub.queries.randomizer import Randomizer

if TYPE_CHECKING:
    from hubbub.queries.longitudinal.series import Batch
    from hubbub.queries.rows import Row


class Strategy(Randomizer, Protocol):
    """A randomizer whose reports of several rounds hang together.

    Its `symbol` of a round is made by `step`. Where that draws it from what was drawn once for all rounds, it is random
    already, and `randomize` sends it as it is; `mechanism` is then the law of everything sent over all rounds.
    """

    name: ClassVar[str]
    """The word for it in drafts and tasks."""

    @classmethod
    def planned(cls, fields: Fields, periods: int, changes: int) -> Self:
        """Read the strategy of a frozen task's query.

        Raises:
            FieldError: naming the value that is not allowed.
        """

    def content(self) -> dict[str, Any]:
        """Return its parameters as members of a task's query."""

    def step(self, memory: Memory | None, before: Stream, after: Stream, random: Random) -> Encoded:
        """Return the symbol of the round that `after` ends with, and what to keep, the stream included."""

    def erased(self, random: Random) -> int:
        """Return a symbol that depends on nothing, for a device that erased what it kept."""

    def rows(self, number: int, batches: Mapping[int, Batch]) -> tuple[Row, ...]:
        """Return the estimates after round `number`, from the published batches of the rounds up to it."""

    def variance(self, period: int, reports: int) -> float:
        """Return the variance of the count after `period` where `reports` people, all in state False, always answer."""
