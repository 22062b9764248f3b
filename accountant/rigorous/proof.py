"""The result of a proof, and the error where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hubbub.accountant.errors import AccountingError

Progress = Callable[[str], None]
"""Told in a few words what is tried."""


class NotProvenError(AccountingError):
    """A stated number that the balls do not confirm; `refuted` where they exclude it."""

    def __init__(self, message: str, refuted: bool) -> None:
        super().__init__(message)
        self.refuted = refuted


@dataclass(frozen=True)
class Proof:
    """δ(`epsilon`) ≤ `delta` is proven, both exact; `route` names the theorem that was summed.

    `epsilon` is the one stated, or at most 1.01 times that. `terms` summands were looked at.
    """

    epsilon: Fraction
    delta: Fraction
    stated: Fraction
    route: str
    terms: int

    @property
    def looser(self) -> float:
        """How much larger the proven ε is than the stated one, relatively; 0.0 where it is the same."""
        return float(self.epsilon / self.stated - 1) if self.stated else 0.0


def quiet(_: str) -> None:
    """No progress."""
