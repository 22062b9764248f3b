"""Defines the privacy amplification variable of balle-2019, which Lemmas 5.5 and 5.6 need of a mechanism.

L = (μ(W) − e^ε μ'(W))/ω(W), with W drawn from the blanket ω and μ, μ' the laws of one report for two inputs; its mean
is 1 − e^ε for every mechanism. Everything is rounded so that bounds made of it only grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hubbub.accountant.numbers import fraction_down, fraction_up

PAD = Fraction(1, 10**60)
"""Relative room around 80-digit exponentials."""


@dataclass(frozen=True)
class Amplification:
    """The privacy amplification variable L at one ε, for any two inputs of the mechanism.

    Attributes:
        gamma: a probability with which a report is drawn from the blanket, never above the true one: there are
            B(n, gamma) blanket reports, or more.
        lowest: never above the least value of L.
        highest: never below the largest value of L.
        second_moment: never below E[L²].
    """

    gamma: float
    lowest: float
    highest: float
    second_moment: float

    @classmethod
    def rounded(cls, gamma: Fraction, lowest: Fraction, highest: Fraction, second_moment: Fraction) -> Amplification:
        """Return the four exact numbers as doubles, each on its safe side."""
        return cls(fraction_down(gamma), fraction_down(lowest), fraction_up(highest), fraction_up(second_moment))


def around(power: Fraction) -> tuple[Fraction, Fraction]:
    """Return numbers above and below e^ε, which `power` gives to 80 digits."""
    return power * (1 + PAD), power * (1 - PAD)
