"""What `million.py` has asked so far: cases by kind, the least distances from the truth, and violations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

NOTHING = Fraction(1, 10**70)
"""e^ε has 80 digits: a truth below this may be 0."""


@dataclass
class Found:
    """What a run found, kind by kind."""

    cases: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    margins: dict[str, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def above(self, kind: str, upper: float, truth: Fraction) -> bool:
        """Count a case; return whether `upper` is not below `truth`, and keep the least distance."""
        self.cases[kind] += 1
        if truth > NOTHING and upper < 1:
            share = float(Fraction(upper) / truth) - 1 if truth > Fraction(1, 10**290) else math.inf
            self.margins[kind] = min(self.margins.get(kind, math.inf), share)
        return Fraction(upper) + NOTHING >= truth


@dataclass(frozen=True)
class Claims:
    """Where a kind that is no question to a bound says what it claims: each claim is a case."""

    kind: str
    found: Found
    report: Callable[[str], None]

    def above(self, about: str, upper: float, truth: Fraction, words: str = "") -> None:
        """Claim that `upper` is not below `truth`."""
        if not self.found.above(f"{self.kind}, {about}", upper, truth):
            self.report(f"{about} is {upper!r}, in truth {float(truth)!r} {words}".rstrip())

    def holds(self, about: str, true: bool, words: str) -> None:
        """Claim that something is so; `words` say what it is if it is not."""
        self.found.cases[f"{self.kind}, {about}"] += 1
        if not true:
            self.report(f"{about}: {words}")

    def refuses(self) -> None:
        """Count a question to which no number was given."""
        self.found.refused[self.kind] += 1
