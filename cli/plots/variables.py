"""The variables that a plot can vary, and their ranges; it imports little, because `hubbub account` loads it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import exp, isfinite, log

from hubbub.cli.plots.plan import Axis, Scale
from hubbub.protos.errors import UsageError

POINTS_LIMIT = 1000
"""Most points of a curve; a screen cannot show more."""


class Variable(StrEnum):
    """What can be varied, as the command line spells it."""

    REPORTS = "reports"
    LOCAL_EPSILON = "local-epsilon"
    DELTA = "delta"
    CATEGORIES = "categories"
    CELLS = "cells"
    ROUNDS = "rounds"


@dataclass(frozen=True)
class _VariableKind:
    label: str
    sign: str
    scale: Scale
    whole: bool


KINDS = {
    Variable.REPORTS: _VariableKind("reports in the batch, n", "n", "log", True),
    Variable.LOCAL_EPSILON: _VariableKind("local ε₀ (nats)", "ε₀", "linear", False),
    Variable.DELTA: _VariableKind("δ", "δ", "log", False),
    Variable.CATEGORIES: _VariableKind("categories, k", "k", "log", True),
    Variable.CELLS: _VariableKind("cells of a hash, g", "g", "log", True),
    Variable.ROUNDS: _VariableKind("rounds, T", "T", "log", True),
}
"""Each variable's axis: its label, its default scale, and whether its values are whole numbers."""


@dataclass(frozen=True)
class Range:
    """The values of a variable: `points` of them from `first` to `last`, evenly on `scale`."""

    variable: Variable
    first: float
    last: float
    points: int = 25
    scale: Scale | None = None

    @property
    def axis(self) -> Axis:
        """The axis of these values."""
        kind = KINDS[self.variable]
        return Axis(kind.label, self.scale or kind.scale)

    def values(self) -> tuple[float, ...]:
        """Return the values in order, each once, rounded if the variable takes whole numbers.

        Raises:
            UsageError: a range that is empty, or has no logarithm.
        """
        if not (isfinite(self.first) and isfinite(self.last) and self.first < self.last):
            raise UsageError(f"the range from {self.first:g} to {self.last:g} is empty; give a --from below --to")
        if not 2 <= self.points <= POINTS_LIMIT:
            raise UsageError(f"--points is {self.points}; give a number from 2 to {POINTS_LIMIT}")
        if self.axis.scale == "log" and self.first <= 0:
            raise UsageError(f"--from is {self.first:g}; give a number above 0, or use --axis linear")
        values = [self._value(place / (self.points - 1)) for place in range(self.points)]
        return tuple(sorted({float(round(value)) for value in values} if KINDS[self.variable].whole else set(values)))

    def _value(self, share: float) -> float:
        # The ends are what was asked for; those in between are rounded to digits that people can read.
        if share in (0.0, 1.0):
            return self.last if share else self.first
        if self.axis.scale == "log":
            ratio = self.last / self.first
            # The ratio of the ends may be too large for a double; all values between them are not.
            between = (
                self.first * ratio**share
                if isfinite(ratio)
                else exp(log(self.first) * (1 - share) + log(self.last) * share)
            )
            return float(f"{between:.6g}")
        return float(f"{self.first + (self.last - self.first) * share:.12g}")
