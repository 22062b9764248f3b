"""The limits that an application sets on what its device spends, and on the (ε, δ) of a task.

Without a limit, nothing is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hubbub.client.validation import as_float, is_number
from hubbub.protos.errors import UsageError

OF_PROMISE = ("epsilon", "delta", "epsilon_local")
"""The limits on a task's promise; they have the names of the keys in its table `privacy`."""


@dataclass(frozen=True)
class PrivacyLimits:
    """The most ε that one device may spend, and the largest (ε, δ) that a task may have.

    None, or infinity, sets no limit. A day is a UTC day by the device's clock. A daily limit counts all tasks that
    share the state file. A task's limit counts all rounds of the task, and never resets.

    Attributes:
        epsilon_local_per_day: local ε of all answers that are randomized in a day. It bounds what is learned even if
            shuffler and analyzer collude.
        epsilon_per_day: central ε of the rounds answered in a day. It is a bound only if they do not collude
            (`Budget`).
        epsilon_local_per_task: local ε of all rounds of one task.
        epsilon_per_task: central ε of all rounds of one task.
        epsilon: the ε that a task promises for a round; its operator chose it.
        delta: the δ of that promise.
        epsilon_local: the cap on the local ε of a round that the task states.

    Raises:
        UsageError: if a limit is neither None nor a number, 0 or more.
    """

    epsilon_local_per_day: float | None = None
    epsilon_per_day: float | None = None
    epsilon_local_per_task: float | None = None
    epsilon_per_task: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    epsilon_local: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not (is_number(value) and value >= 0):
                raise UsageError(f"limit {name} is {value!r:.80}; give a number, 0 or more, or None for no limit")

    @property
    def given(self) -> Mapping[str, float]:
        """The limits on spending that are set, by name."""
        return {name: value for name, value in self._set.items() if name not in OF_PROMISE}

    @property
    def promised(self) -> Mapping[str, float]:
        """The limits on a task's promise that are set, by name."""
        return {name: value for name, value in self._set.items() if name in OF_PROMISE}

    @property
    def any(self) -> bool:
        """Whether any limit is set."""
        return bool(self._set)

    @property
    def _set(self) -> Mapping[str, float]:
        return {
            name: as_float(value)
            for name, value in vars(self).items()
            if value is not None and as_float(value) < math.inf
        }


NO_LIMITS = PrivacyLimits()
"""No limits: nothing is refused."""
