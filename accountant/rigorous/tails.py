"""Computes tails of a binomial X in balls, updated by single steps, and by how much a fair coin's count exceeds a line.

The blankets of kRR and RAPPOR reduce to the latter.
"""

from __future__ import annotations

from fractions import Fraction

from hubbub.accountant.rigorous.balls import arb, ball, binomial_mass


class BinomialTail:
    """X ~ B(trials, chance), 0 < chance < 1: `mass` is P(X = at), `tail` is P(X ≥ at), both balls.

    A step costs a few operations. All steps follow from Pascal's rule, so balls stay enclosures after any number of
    steps; rounding adds to a radius in proportion to the largest tail on the way.
    """

    __slots__ = ("_odds", "_p", "_p_exact", "_q", "at", "mass", "tail", "trials")

    def __init__(self, chance: Fraction, trials: int, at: int) -> None:
        self._p_exact = chance
        self._p, self._q = ball(chance), ball(1 - chance)
        self._odds = ball(chance / (1 - chance))
        self._place(trials, at)

    def _place(self, trials: int, at: int) -> None:
        self.trials, self.at = trials, at
        if at < 0 or at > trials:
            self.mass, self.tail = arb(0), arb(1 if at < 0 else 0)
            return
        self.mass = binomial_mass(trials, at, self._p_exact)
        # Sum the side away from the mean: its terms fall from `at` on, so the sum can end early and bound the rest.
        self.tail = self._summed_up() if at > trials * self._p_exact else 1 - self._summed_down()

    def _summed_up(self) -> arb:
        """Return P(X ≥ at), at above the mean: terms fall faster than a geometric series, which bounds the rest."""
        total = term = self.mass
        least = self.mass * _negligible()
        for x in range(self.at, self.trials):
            term = term * self._odds * (self.trials - x) / (x + 1)
            if term < least:
                ratio = self._odds * (self.trials - x) / (x + 1)
                return total + _from_zero_to(term / (1 - ratio))
            total += term
        return total

    def _summed_down(self) -> arb:
        """Return P(X < at), at not above the mean."""
        total, term = arb(0), self.mass
        least = self.mass * _negligible()
        for x in range(self.at, 0, -1):
            term = term * x / (self._odds * (self.trials - x + 1))
            if term < least:
                ratio = ball(x) / (self._odds * (self.trials - x + 1))
                return total + _from_zero_to(term / (1 - ratio))
            total += term
        return total

    def grow(self) -> None:
        """Add one trial, keep `at`: P(X' ≥ at) = P(X ≥ at) + (at/trials')·P(X' = at)."""
        if self.at > self.trials:
            self._place(self.trials + 1, self.at)
            return
        self.trials += 1
        if self.at >= 0:
            self.mass = self.mass * self._q * self.trials / (self.trials - self.at)
            self.tail += self.mass * self.at / self.trials

    def drop(self) -> None:
        """Remove one trial, keep `at`: the inverse of `grow`."""
        if self.at >= self.trials:
            self._place(self.trials - 1, self.at)
            return
        if self.at >= 0:
            self.tail -= self.mass * self.at / self.trials
            self.mass = self.mass * (self.trials - self.at) / (self._q * self.trials)
        self.trials -= 1

    def advance(self) -> None:
        """Raise `at` by one."""
        if self.at < 0 or self.at >= self.trials:
            self._place(self.trials, self.at + 1)
            return
        self.tail -= self.mass
        self.mass = self.mass * self._odds * (self.trials - self.at) / (self.at + 1)
        self.at += 1

    def shrink(self) -> None:
        """Remove one trial and lower `at` by one: P(X' ≥ at−1) = P(X ≥ at) + (1−p)·P(X' = at−1)."""
        if self.at > self.trials:
            self._place(self.trials - 1, self.at - 1)
            return
        if self.at >= 0:
            self.mass = self.mass * self.at / (self._p * self.trials)
            self.tail += self.mass * self._q
        self.trials, self.at = self.trials - 1, self.at - 1

    def excess(self) -> arb:
        """Return E[(X − at)₊], from Σ_{x ≥ at} (x − trials·p)·P(X = x) = at·(1−p)·P(X = at)."""
        drift = self._p * self.trials - self.at
        return self.mass * self._q * self.at + drift * self.tail if self.at >= 0 else drift


def _negligible() -> arb:
    """Return two to the minus precision: a smaller term changes nothing."""
    return (arb(1) / 3).rad() / 2


def _from_zero_to(value: arb) -> arb:
    return arb(0).union(value)


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
