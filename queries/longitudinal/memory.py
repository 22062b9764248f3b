"""Memory: what a device keeps of a question over time from one round to the next.

It holds the person's last state in the clear, and what was drawn once for the whole horizon. A second draw would be a
second release, so it is stored in the transaction that stores the report drawn from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hubbub.queries.errors import AnswerError

Memory = Mapping[str, int]
"""What a query keeps: whole numbers by name."""

ERASED: Memory = {"erased": 1}
"""What is left where a device erased its memory: that there was one."""


@dataclass(frozen=True)
class Moment:
    """The round that is answered, and what the query kept of the last one; None where it keeps nothing yet."""

    round: int
    memory: Memory | None = None


@dataclass(frozen=True)
class Encoded:
    """The symbol that encodes an answer, and what is to be kept for the next round; None where nothing is."""

    symbol: int
    memory: Memory | None = None


@dataclass(frozen=True)
class Stream:
    """A person's stream of states, as their device saw it up to `period` (from 1; 0 before the first answer).

    A state is carried over periods without an answer, and is False before the first. Of its `changes`, further ones
    than the question's are clipped: the state stays.
    """

    period: int = 0
    state: int = 0
    changes: int = 0

    @classmethod
    def read(cls, memory: Memory) -> Stream:
        """Take the stream from a memory."""
        return cls(memory["period"], memory["state"], memory["changes"])

    def content(self) -> dict[str, int]:
        """Return the stream as members of a memory."""
        return {"changes": self.changes, "period": self.period, "state": self.state}

    def at(self, period: int, state: int | None, most: int) -> Stream:
        """Return the stream with the state at a later period, clipped to `most` changes; None is no news.

        Raises:
            AnswerError: where that period is not later.
        """
        if period <= self.period:
            raise AnswerError(
                f"round {period - 1} comes too late: this device answered round {self.period - 1}, and a question over "
                "time is answered in the order of its rounds; answer a later one"
            )
        if state is None or state == self.state or self.changes >= most:
            return Stream(period, self.state, self.changes)
        return Stream(period, state, self.changes + 1)
