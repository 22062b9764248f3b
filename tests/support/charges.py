"""What answers are charged with, in tests that store some without a device."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hubbub.client.limits import NO_LIMITS, PrivacyLimits
from hubbub.client.privacy.ledger import AnswerCost, TaskCost


def answer_cost(
    *prices: str,
    day: int = 0,
    limits: PrivacyLimits = NO_LIMITS,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    epsilon_total: float | None = None,
    name: str = "flights",
) -> AnswerCost:
    """A bill whose first rounds cost these, and every later one the last of them; 3/2 where there are none."""
    local: Sequence[Fraction] = [Fraction(price) for price in prices] or [Fraction(3, 2)]
    task_cost = TaskCost(name, epsilon, delta, epsilon_total)
    return AnswerCost(task_cost, lambda answered: local[min(answered, len(local) - 1)], day, limits)


BILL = answer_cost()
"""A round at ε_local = 3/2, promised (1, 1e-6), on day 0, without limits."""
