"""The bits of a number: what hides one person, by brute force, and how much noise and ε_local each bit gets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import cosh, exp, fsum, inf, log, log1p, sinh, sqrt

import pytest

from hubbub.accountant.calibration.digits import (
    LARGEST_BIT,
    MOST_DIGITS,
    DigitsTarget,
    least_noise_of_bits,
    shares_of_local,
    variance_of_laws,
    weights_of,
)
from hubbub.accountant.composition import compose_delta, compose_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR, NoiseLaw, WithNoise, exp_decimal
from hubbub.accountant.pairs import Part

PLAIN = KRR.from_numerator(2, 1)
"""A bit as good as plain: the noise alone hides it."""

Law = dict[tuple[int, ...], Fraction]


def ones(mechanism: WithNoise, bit: int) -> list[Fraction]:
    """The law of a bit's count of ones, beside others that are known, if the person's bit is `bit`."""
    krr, weights = mechanism.krr, mechanism.noise.weights
    one = krr.truthful if bit else krr.other
    pairs = zip((0, *weights), (*weights, 0), strict=True)
    return [(one * shifted + (1 - one) * same) / 2**128 for shifted, same in pairs]


def view(mechanisms: tuple[WithNoise, ...], number: Fraction) -> Law:
    """The law of all counts for a person's number in [0, 1], rounded once at random."""
    steps = 2 ** len(mechanisms) - 1
    below, part = divmod(number * steps, 1)
    found: Law = {}
    for rounded, chance in ((int(below), 1 - part), (int(below) + 1, part)):
        if not chance:
            continue
        bits = [rounded >> place & 1 for place in reversed(range(len(mechanisms)))]
        laws = [ones(mechanism, bit) for mechanism, bit in zip(mechanisms, bits, strict=True)]
        for counts in itertools.product(*(range(len(law)) for law in laws)):
            mass = chance
            for law, count in zip(laws, counts, strict=True):
                mass *= law[count]
            found[counts] = found.get(counts, Fraction(0)) + mass
    return found


def divergence(first: Law, second: Law, epsilon: float) -> Fraction:
    factor = Fraction(exp_decimal(epsilon)) if epsilon else Fraction(1)
    return sum((max(Fraction(0), mass - factor * second[counts]) for counts, mass in first.items()), Fraction(0))


TINY = [
    (WithNoise(KRR(2, Fraction(1, 4)), NoiseLaw.of("geometric", Fraction(1, 2), 3)), (Fraction(1, 3), 5)),
    (WithNoise(KRR(2, Fraction(1, 50)), NoiseLaw.of("geometric", Fraction(3, 5), 4)), (Fraction(3, 4), 5)),
    (WithNoise(KRR(2, Fraction(1, 10)), NoiseLaw.of("gaussian", Fraction(3), 4)), (Fraction(6), 5)),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("first", "second"), TINY)
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.8])
def test_no_two_numbers_are_told_apart_better_than_certified(
    first: WithNoise, second: tuple[Fraction, int], epsilon: float
) -> None:
    """Every pair of numbers, on a grid finer than the steps: rounding is a mixture, so it tells nothing more."""
    last = WithNoise(first.randomizer, NoiseLaw.of(first.noise.family, *second))
    bits = first, last
    certified = compose_delta([Part(each, 1) for each in bits], epsilon).delta_upper
    laws = {Fraction(place, 12): view(bits, Fraction(place, 12)) for place in range(13)}
    worst = max(divergence(laws[x], laws[y], epsilon) for x, y in itertools.permutations(laws, 2))
    assert worst <= certified
    # Numbers whose bits all differ, such as 0 and 1, are the worst: no bound is smaller, so this one is tight.
    assert worst == divergence(laws[Fraction(0)], laws[Fraction(1)], epsilon)
    assert worst >= certified * (1 - 0.02)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_three_digits_are_told_apart_no_better_than_certified(epsilon: float) -> None:
    laws = [NoiseLaw.of("geometric", Fraction(share, 10), 2) for share in (4, 6, 7)]
    bits = tuple(WithNoise(KRR(2, Fraction(1, 5 * place)), law) for place, law in enumerate(laws, 1))
    certified = compose_delta([Part(each, 1) for each in bits], epsilon).delta_upper
    views = {x: view(bits, x) for x in (Fraction(place, 14) for place in range(15))}
    worst = max(divergence(views[x], views[y], epsilon) for x, y in itertools.permutations(views, 2))
    assert certified * (1 - 0.02) <= worst <= certified


def test_one_rounding_for_each_bit_would_tell_no_more_but_cost_far_more() -> None:
    """Why all bits come from one draw: halfway between two steps, each bit alone would be a coin."""
    steps, middle = 3, Fraction(1, 2)
    # Once: 1/3 or 2/3. Bit by bit: any of four values, as both bits differ between 01 and 10.
    once = sum((Fraction(y, steps) - middle) ** 2 for y in (1, 2)) / 2
    apart = sum((Fraction(y, steps) - middle) ** 2 for y in range(4)) / 4
    assert (once, apart) == (Fraction(1, 36), Fraction(5, 36))


@pytest.mark.parametrize("cap", [0.5, 5.0, 22.0, 55.0])
def test_shares_of_local_epsilon_are_the_least_variance(cap: float) -> None:
    weights, found = weights_of(4), shares_of_local(4, cap)
    assert fsum(found) == pytest.approx(cap, rel=1e-6)
    assert fsum(found) <= cap * (1 + 1e-12)

    def variance(shares: tuple[float, ...]) -> float:
        pairs = zip(weights, shares, strict=True)
        return fsum(weight**2 / (4 * sinh(share / 2) ** 2) for weight, share in pairs)

    # It is convex, so a point from which no exchange between two bits leads down is the least one.
    for one, other in itertools.permutations(range(4), 2):
        moved = list(found)
        step = 0.01 * found[one]
        moved[one], moved[other] = moved[one] - step, moved[other] + step
        assert variance(tuple(moved)) > variance(found)


def test_a_large_cap_is_shared_up_to_what_a_bit_can_have() -> None:
    assert shares_of_local(3, 1e9) == (LARGEST_BIT,) * 3
    assert KRR.from_numerator(2, 1).epsilon_local == pytest.approx(LARGEST_BIT)


def least_deviation(weights: Sequence[float], epsilon: float) -> float:
    """The least standard error that uncut geometric laws of ratios e^−a_j can have if Σ a_j is `epsilon`."""

    def ratio_at(level: float, weight: float) -> float:
        """The a at which the variance w²/(2·sinh²(a/2)) falls at that rate."""
        low, high = 1e-9, 50.0
        for _ in range(100):
            a = (low + high) / 2
            falls = weight**2 * cosh(a / 2) / (2 * sinh(a / 2) ** 3)
            low, high = (a, high) if falls > level else (low, a)
        return low

    low, high = log(1e-12), log(1e12)
    for _ in range(100):
        level = (low + high) / 2
        low, high = (level, high) if fsum(ratio_at(exp(level), each) for each in weights) > epsilon else (low, level)
    spent = [ratio_at(exp(high), each) for each in weights]
    return sqrt(fsum(each**2 / (2 * sinh(a / 2) ** 2) for each, a in zip(weights, spent, strict=True)))


def test_eight_bits_have_the_least_error_that_geometric_noise_allows() -> None:
    """It is 3.027 widths of the range. 3.02 is what the weights 2^−j have, whose range is a 256th less than 1."""
    epsilon, delta = 1.0, 1e-6
    laws = least_noise_of_bits((PLAIN,) * 8, DigitsTarget(epsilon, delta))
    assert {law.family for law in laws} == {"geometric"}
    # All bits are at their largest loss at least once in 2^8, so Σ a_j is hardly above ε (accounting-noise-digits.md).
    most = epsilon - log1p(-(2**8) * delta)
    least = least_deviation(weights_of(8), most)
    assert 3.027 < least <= sqrt(variance_of_laws(laws)) < 1.0005 * least
    assert least_deviation([2.0**-place for place in range(1, 9)], epsilon) == pytest.approx(3.016, abs=5e-4)


FIGURES = [
    # (ε, δ, n): the standard error of 8 bits in units of the range, reports as good as plain (rounding included).
    (1.0, 1e-6, 10_000, 3.03),
    (1.0, 1e-6, 1_000_000, 3.60),
    (0.5, 1e-8, 10_000, 6.05),
    (0.5, 1e-8, 1_000_000, 6.36),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("epsilon", "delta", "reports", "error"), FIGURES)
def test_eight_bits_reach_the_error_of_central_noise_up_to_a_factor(
    epsilon: float, delta: float, reports: int, error: float
) -> None:
    laws = least_noise_of_bits((PLAIN,) * 8, DigitsTarget(epsilon, delta))
    assert sqrt(variance_of_laws(laws) + reports / (4 * 255**2)) == pytest.approx(error, rel=0.02)
    parts = [Part(WithNoise(PLAIN, law), 1) for law in laws]
    assert epsilon * 0.99 <= compose_upper(parts, delta) <= epsilon


def test_one_bit_is_two_symbols_beside_noise() -> None:
    (law,) = least_noise_of_bits((PLAIN,), DigitsTarget(1.0, 1e-6))
    assert sqrt(law.variance) == pytest.approx(1.36, rel=0.02)


def test_all_rounds_keep_their_total() -> None:
    target = DigitsTarget(1.0, 1e-6, rounds=4, total=1.5)
    laws = least_noise_of_bits((PLAIN,) * 2, target)
    parts = [Part(WithNoise(PLAIN, law), 1, 4) for law in laws]
    assert compose_upper(parts, 1e-6) <= 1.5
    alone = least_noise_of_bits((PLAIN,) * 2, DigitsTarget(1.0, 1e-6, rounds=4))
    assert variance_of_laws(alone) < variance_of_laws(laws)
    assert compose_upper([Part(WithNoise(PLAIN, law), 1) for law in alone], 1e-6) <= 1.0


def test_private_reports_need_less_noise() -> None:
    private = tuple(KRR.from_numerator(2, 2**31) for _ in range(2))
    target = DigitsTarget(0.5, 1e-6)
    assert variance_of_laws(least_noise_of_bits(private, target)) < variance_of_laws(
        least_noise_of_bits((PLAIN,) * 2, target)
    )


def test_what_cannot_be_had_is_refused() -> None:
    with pytest.raises(AccountingError, match="epsilon is 0, which no noise reaches"):
        DigitsTarget(0.0, 1e-6)
    with pytest.raises(AccountingError, match="delta"):
        DigitsTarget(1.0, 2.0)
    with pytest.raises(AccountingError, match=r"epsilon of all rounds is 0\.0; give a number above 0"):
        DigitsTarget(1.0, 1e-6, 2, 0.0)
    with pytest.raises(AccountingError, match="digits"):
        shares_of_local(MOST_DIGITS + 1, 8.0)
    with pytest.raises(AccountingError, match=r"the cap on epsilon_local is 0\.0; give a number above 0"):
        shares_of_local(4, 0.0)
    with pytest.raises(AccountingError, match="no noise with a reach of at most 100000 meets epsilon 1e-05"):
        least_noise_of_bits((PLAIN,), DigitsTarget(1e-5, 1e-9))
    assert DigitsTarget(1.0, 1e-6, 5).limits == ((1.0, 1),)
    assert DigitsTarget(1.0, 1e-6, 5, inf).limits == ((1.0, 1),)
