"""The most that a device may spend, and the weakest promise that it takes part under, as its application says.

Without one, nothing is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from hubbub.client.validation import is_number
from hubbub.protos.errors import UsageError

OF_PROMISE = ("epsilon", "delta", "epsilon_local")
"""The limits on what a task promises; their names are those of its table `privacy`."""


@dataclass(frozen=True)
class PrivacyLimits:
    """The most ε that one device may spend, and that a task may promise; None, or infinity, sets no limit.

    A day is a UTC day by the device's clock, and counts all tasks that share its state file. A task counts with all its
    rounds, for good.

    Attributes:
        epsilon_local_per_day: local ε of what is randomized in a day: it bounds what is learned even if shuffler and
            analyzer work together.
        epsilon_per_day: central ε of the rounds answered in a day: it holds if they do not (`Budget`).
        epsilon_local_per_task: local ε of all rounds of one task.
        epsilon_per_task: central ε of all rounds of one task.
        epsilon: the ε that a task promises for a round, which its operator chose.
        delta: the δ of that promise.
        epsilon_local: the cap on the local ε of a round that the task states.

    Raises:
        UsageError: where one is neither None nor a number, 0 or more.
    """

    epsilon_local_per_day: float | None = None
    epsilon_per_day: float | None = None
    epsilon_local_per_task: float | None = None
    epsilon_per_task: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    epsilon_local: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (is_number(value) and value >= 0):
                raise UsageError(f"limit {name} is {value!r:.80}; give a number, 0 or more, or None for no limit")

    @property
    def given(self) -> Mapping[str, float]:
        """The limits on what is spent that are set, by name."""
        return {name: value for name, value in self._set.items() if name not in OF_PROMISE}

    @property
    def promised(self) -> Mapping[str, float]:
        """The limits on what a task may promise that are set, by name."""
        return {name: value for name, value in self._set.items() if name in OF_PROMISE}

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        return bool(self._set)

    @property
    def _set(self) -> Mapping[str, float]:
        return {name: float(value) for name, value in asdict(self).items() if value is not None and value < math.inf}


NO_LIMITS = PrivacyLimits()
"""Nothing is refused."""
