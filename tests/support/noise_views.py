"""What is released beside noise of the shuffler, exactly: views summed in fractions, outcome by outcome.

They come from the law's table and the randomizer's law alone; nothing of the accountant's bounds is used.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product

from hubbub.accountant.mechanisms import KRR, WithNoise
from hubbub.accountant.mechanisms.exact import exp_decimal

Law = tuple[Fraction, ...]
View = dict[tuple[int, ...], Fraction]


def added(view: View, report: Law) -> View:
    found: View = defaultdict(Fraction)
    for (counts, mass), (symbol, chance) in product(view.items(), enumerate(report)):
        if chance:
            found[(*counts[:symbol], counts[symbol] + 1, *counts[symbol + 1 :])] += mass * chance
    return found


def noise_view(mechanism: WithNoise) -> View:
    """The law of the numbers of dummies of each symbol."""
    chances = [Fraction(weight, 2**128) for weight in mechanism.noise.weights]
    if isinstance(mechanism.randomizer, KRR) and mechanism.randomizer.categories == 2:
        return {(mechanism.noise.largest - z, z): chance for z, chance in enumerate(chances)}
    found: View = {(): Fraction(1)}
    for _ in range(mechanism.symbols):
        found = {(*at, z): mass * chance for at, mass in found.items() for z, chance in enumerate(chances)}
    return found


def released(mechanism: WithNoise, reports: list[Law]) -> View:
    view = noise_view(mechanism)
    for report in reports:
        view = added(view, report)
    return view


def power(epsilon: float) -> Fraction:
    return Fraction(exp_decimal(epsilon)) if epsilon else Fraction(1)


def divergence(first: View, second: View, epsilon: float) -> Fraction:
    factor = power(epsilon)
    return sum((max(Fraction(0), p - factor * second.get(at, Fraction(0))) for at, p in first.items()), Fraction(0))


def above(upper: float, truth: Fraction) -> bool:
    return Fraction(float(upper)) >= truth


def answers_of(mechanism: KRR) -> list[Law]:
    return [mechanism.law(x) for x in range(mechanism.categories)]


def constant(symbol: int, symbols: int) -> Law:
    return tuple(Fraction(each == symbol) for each in range(symbols))
