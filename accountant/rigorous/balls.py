"""Turns exact numbers into balls, and bounds the cut tails of binomials.

Needs the extra `hubbub[rigorous]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hubbub.accountant.errors import AccountingError, needs_extra

try:
    from flint import arb, ctx, fmpq
except ImportError as missing:
    raise AccountingError(needs_extra("a proof in ball arithmetic", "python-flint", "rigorous")) from missing

__all__ = ["Enclosure", "arb", "ball", "binomial_mass", "cut", "precision", "window", "written"]

precision = ctx.workprec
"""`with precision(bits):` sets the number of bits of every midpoint."""


@dataclass(frozen=True)
class Enclosure:
    """Two balls: the enclosed number is at least some number in `lower` and at most some number in `upper`.

    `terms` counts the summands that were computed.
    """

    lower: arb
    upper: arb
    terms: int


def written(value: float) -> Fraction:
    """Return the decimal number that `value` is printed as, exactly as a certificate states it."""
    return Fraction(str(float(value)))


def ball(value: Fraction | int) -> arb:
    """Return a ball around an exact number, as narrow as the precision allows."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def binomial_mass(trials: int, at: int, chance: Fraction) -> arb:
    """Return P(B(trials, chance) = at), for 0 ≤ at ≤ trials and 0 < chance < 1."""
    ways = arb(trials + 1).lgamma() - arb(at + 1).lgamma() - arb(trials - at + 1).lgamma()
    return (ways + at * ball(chance).log() + (trials - at) * ball(1 - chance).log()).exp()


def cut(trials: int, chance: Fraction, low: int, high: int) -> arb:
    """Return an upper bound of P(B < low) + P(B > high), B ~ B(trials, chance): Chernoff's exp(−trials · KL) each."""
    total = arb(0)
    if low > 0:
        total += _chernoff(trials, trials - low + 1, 1 - chance)
    if high < trials:
        total += _chernoff(trials, high + 1, chance)
    return total


def _chernoff(trials: int, least: int, chance: Fraction) -> arb:
    """Return an upper bound of P(B(trials, chance) ≥ least)."""
    if least > trials or chance == 0:
        return arb(0 if least > 0 else 1)
    # Up to the mean Chernoff's bound is trivial.
    if Fraction(least) <= trials * chance:
        return arb(1)
    rate = least * ball(Fraction(least) / (trials * chance)).log()
    if least < trials:
        rate += (trials - least) * ball(Fraction(trials - least) / (trials * (1 - chance))).log()
    return (-rate).exp()


def window(trials: int, chance: Fraction, nats: float) -> tuple[int, int]:
    """Return a window around the mean of B(trials, chance) whose outside has about e^−nats; `cut` bounds it."""
    if chance in (0, 1):
        return int(trials * chance), int(trials * chance)
    mean = trials * chance
    p, q = float(chance), float(1 - chance)
    low = _edge(lambda x: _rate(trials, x, p, q) < nats, math.floor(mean), 0)
    return low, _edge(lambda x: _rate(trials, x, p, q) < nats, math.ceil(mean), trials)


def _edge(inside: Callable[[int], bool], start: int, end: int) -> int:
    """Return the last number from `start` towards `end` that is inside, or one next to it."""
    if inside(end):
        return end
    while abs(end - start) > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if inside(middle) else (start, middle)
    return end


def _rate(trials: int, at: int, p: float, q: float) -> float:
    """Return roughly trials · KL, to choose a window; it certifies nothing."""
    rate = at * math.log(at / (trials * p)) if at else 0.0
    return rate + ((trials - at) * math.log((trials - at) / (trials * q)) if at < trials else 0.0)
