"""The result of a proof, and the error if there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hubbub.accountant.errors import AccountingError

Progress = Callable[[str], None]
"""A callback that gets a short text about the current attempt."""


class NotProvenError(AccountingError):
    """The balls do not confirm a stated number; `refuted` if they exclude it."""

    def __init__(self, message: str, refuted: bool) -> None:
        super().__init__(message)
        self.refuted = refuted


@dataclass(frozen=True)
class Proof:
    """δ(`epsilon`) ≤ `delta` is proven, both exact; `route` names the theorem whose sum was computed.

    `epsilon` is the stated ε, or at most 1.01 times that. The proof took `terms` summands.
    """

    epsilon: Fraction
    delta: Fraction
    stated: Fraction
    route: str
    terms: int

    @property
    def looser(self) -> float:
        """By which share the proven ε exceeds the stated one; 0.0 if they are equal."""
        return float(self.epsilon / self.stated - 1) if self.stated else 0.0


def quiet(_: str) -> None:
    """Report no progress."""
