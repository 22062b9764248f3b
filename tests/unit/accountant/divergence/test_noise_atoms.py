"""The pair of noise as atoms: what joining nearly equal ratios changes, with few symbols and with many."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from fractions import Fraction

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.divergence import noise_atoms
from hubbub.accountant.divergence.noise_atoms import WHOLE, _classes
from hubbub.accountant.mechanisms import KRR, NoiseLaw, WithNoise

Ratios = Sequence[tuple[Fraction, Fraction]]
"""Masses of z + 1 and of z, by values of the count."""


def exact(law: NoiseLaw) -> Ratios:
    weights = [Fraction(each, WHOLE) for each in law.weights]
    return list(zip([Fraction(0), *weights], [*weights, Fraction(0)], strict=True))


def joined(law: NoiseLaw) -> Ratios:
    upper = [(Fraction(p, WHOLE), Fraction(q, WHOLE)) for p, q in _classes(law)]
    return [*upper, *((q, p) for p, q in upper)]


def sums(one: Ratios, terms: int) -> dict[Fraction, Fraction]:
    """The law of a sum of so many ratios under z."""
    single = [(p / q, q) for p, q in one if q]
    found = {Fraction(0): Fraction(1)}
    for _ in range(terms):
        grown: dict[Fraction, Fraction] = {}
        for (at, mass), (ratio, chance) in ((a, b) for a in found.items() for b in single):
            grown[at + ratio] = grown.get(at + ratio, Fraction(0)) + mass * chance
        found = grown
    return found


def divergence(krr: KRR, one: Ratios, power: Fraction) -> Fraction:
    own, other = krr.truthful, krr.other
    alpha, beta, gamma = own - power * other, power * own - other, (power - 1) * other
    views = [(a, b, c, d) for a, b in one for c, d in one]
    return sum(
        (
            mass * max(Fraction(0), alpha * a * d - beta * b * c - gamma * at * b * d)
            for at, mass in sums(one, krr.categories - 2).items()
            for a, b, c, d in views
        ),
        Fraction(0),
    )


@pytest.mark.parametrize(("categories", "variance"), [(2, 60), (3, 60), (3, 200), (4, 60)])
def test_joining_nearly_equal_ratios_changes_no_divergence_by_more_than_is_charged(
    monkeypatch: pytest.MonkeyPatch, categories: int, variance: int
) -> None:
    """As if ratios were alike that differ by up to a sixteenth: the charge does not grow with the symbols."""
    law = NoiseLaw("gaussian", variance * 2**32, 3)
    whole = exact(law)
    _classes.cache_clear()
    monkeypatch.setattr(noise_atoms, "ALIKE", 16)
    fewer = joined(law)
    _classes.cache_clear()
    assert len(fewer) < len(whole)
    krr = KRR(categories, Fraction(1, 10))
    for power in (Fraction(1), Fraction(11, 10)):
        change = functools.partial(divergence, krr, power=power)
        # With so few counts all ratios of a class are within a sixteenth, and far less is changed than is charged.
        assert 0 <= change(whole) - change(fewer) <= Fraction(1, 16)


def test_ratios_of_a_class_are_near_that_of_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that is compared with its mean so far would drift, and the charge would grow with its length."""
    law = NoiseLaw("gaussian", 3000 * 2**32, 100)
    _classes.cache_clear()
    monkeypatch.setattr(noise_atoms, "ALIKE", 64)
    classes = _classes(law)
    _classes.cache_clear()
    ratios = [Fraction(p, q) for p, q in zip(law.weights[100:], law.weights[101:], strict=False)]
    place, share = 0, Fraction(1, 64)
    for p, q in classes[:-1]:
        seen = [ratio for ratio in ratios[place:] if abs(ratio - ratios[place]) < share * ratios[place]]
        assert abs(Fraction(p, q) - ratios[place]) < share * ratios[place]
        place += len(seen)
    assert len(classes) < 12


@pytest.mark.parametrize(
    "law", [NoiseLaw.of("geometric", Fraction(3, 5), 72), NoiseLaw.of("gaussian", Fraction(120), 90)]
)
def test_two_thousand_million_symbols_at_a_tiny_delta_are_near_the_attack(law: NoiseLaw) -> None:
    """What is charged for each symbol would exceed this δ."""
    found = epsilon_bracket(WithNoise(KRR.from_local_epsilon(2**31 - 1, 24.0), law), 1, 1e-15)
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= found.epsilon_upper <= 1.001 * found.epsilon_lower
