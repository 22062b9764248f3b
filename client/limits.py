"""Limits: the most that a device may spend, as its application sets it. Without one, nothing is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from hubbub.client.arguments import is_number
from hubbub.client.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """The most ε that one device may spend; None, or infinity, sets no limit.

    A day is a UTC day by the device's clock, and counts all tasks that share its state file. A task counts with all its
    rounds, for good.

    Attributes:
        epsilon_local_per_day: local ε of what is randomized in a day: it bounds what is learned even if shuffler and
            analyzer work together.
        epsilon_per_day: central ε of the rounds answered in a day: it holds if they do not (`Budget`).
        epsilon_local_per_task: local ε of all rounds of one task.
        epsilon_per_task: central ε of all rounds of one task.

    Raises:
        UsageError: where one is neither None nor a number, 0 or more.
    """

    epsilon_local_per_day: float | None = None
    epsilon_per_day: float | None = None
    epsilon_local_per_task: float | None = None
    epsilon_per_task: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (is_number(value) and value >= 0):
                raise UsageError(f"limit {name} is {value!r:.80}; give a number, 0 or more, or None for no limit")

    @property
    def given(self) -> Mapping[str, float]:
        """The limits that are set, by name."""
        return {name: float(value) for name, value in asdict(self).items() if value is not None and value < math.inf}


NO_LIMITS = Limits()
"""Nothing is refused."""
