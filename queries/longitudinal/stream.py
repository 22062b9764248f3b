"""A person's stream of states as their device saw it; it is kept in the clear, on the device only."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.queries.errors import AnswerError
from hubbub.queries.longitudinal.over_rounds import Memory


@dataclass(frozen=True)
class Stream:
    """A stream up to `period` (from 1; 0 before the first answer).

    A state continues over periods without an answer, and is 0 before the first. Changes beyond the number that the
    question allows are clipped: the state stays.
    """

    period: int = 0
    state: int = 0
    changes: int = 0

    @classmethod
    def read(cls, memory: Memory) -> Stream:
        """Read the stream from a memory."""
        return cls(memory["period"], memory["state"], memory["changes"])

    def content(self) -> dict[str, int]:
        """Return the stream as members of a memory."""
        return {"changes": self.changes, "period": self.period, "state": self.state}

    def at(self, period: int, state: int | None, most: int) -> Stream:
        """Return the stream with the state at a later period, clipped to `most` changes; None keeps the last state.

        Raises:
            AnswerError: if that period is not later.
        """
        if period <= self.period:
            raise AnswerError(
                f"round {period - 1} comes too late: this device answered round {self.period - 1}, and a longitudinal "
                "question is answered in the order of its rounds; answer a later one"
            )
        if state is None or state == self.state or self.changes >= most:
            return Stream(period, self.state, self.changes)
        return Stream(period, state, self.changes + 1)
