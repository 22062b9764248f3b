"""Computes in balls by how much a fair coin's count exceeds a threshold: blankets of kRR and RAPPOR reduce to it."""

from __future__ import annotations

from fractions import Fraction

from hubbub.accountant.rigorous.balls import arb
from hubbub.accountant.rigorous.tails import BinomialTail

_HALF = Fraction(1, 2)


class Excess:
    """E[(N₁ − t)₊] and P(N₁ ≥ ⌈t⌉) for N₁ ~ B(s, ½) and t = offset + slope·s, updated from s to s + 1.

    `offset` and `slope` are whole multiples of 2^−`bits`, so that ⌈t⌉ is known exactly.
    """

    def __init__(self, bits: int, offset: int, slope: int, s: int) -> None:
        self._slope, self.bits = slope, bits
        self._t = offset + slope * s
        self._law = BinomialTail(_HALF, s, -(-self._t >> self.bits))

    def step(self) -> None:
        """Go to the next s."""
        self._t += self._slope
        self._law.grow()
        while self._t > self._law.at << self.bits:
            self._law.advance()

    @property
    def s(self) -> int:
        """The present s."""
        return self._law.trials

    def value(self) -> arb:
        """E[(N₁ − t)₊], times 2^bits."""
        law, half = self._law, self.bits - 1
        return law.mass * (law.at << half) + law.tail * ((law.trials << half) - self._t)

    def chance(self) -> arb:
        """P(N₁ ≥ ⌈t⌉), the rate at which the value falls as t grows."""
        return self._law.tail
