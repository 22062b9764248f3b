"""Defines the results of the engines: logarithms, so that tiny numbers keep their relative precision."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class LogBracket:
    """Natural logarithms of a lower and an upper value; `lower` is -inf if nothing was shown."""

    lower: float
    upper: float


ZERO = LogBracket(-inf, -inf)
"""The number 0, exactly."""
