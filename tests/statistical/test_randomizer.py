"""Reports drawn from the operating system follow the randomizer's law, and a test that can tell says so.

The laws themselves are enumerated exactly in tests/unit/queries; here the whole way, with real randomness, meets a χ²
test. Every test rejects the right law with probability `FALSE_ALARM`, and a wrong law with probability above `POWER`,
which is computed from the noncentral χ² law and asserted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
from scipy import stats

from hubbub.accountant.mechanisms import KRR, RAPPOR
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.sampling import Random
from hubbub.queries.randomizers.unary import UnaryEncoding
from support.krr_queries import krr_query
from support.krr_queries import symbol as symbol_of

FALSE_ALARM = 1e-9
"""Probability that one test fails although the code is right: all tests here together fail once in 5·10⁷ runs."""

POWER = 1 - 1e-9
"""Least probability with which a wrong law below is noticed."""

REPORTS = 100_000
GAMMA = DENOMINATOR // 4
SYMBOLS = 6

Randomizer = Callable[[int, int, int, Random], int]


def randomize(symbol: int, symbols: int, gamma: int, random: Random) -> int:
    """The symbol that the device's kRR reports."""
    return symbol_of(KRandomizedResponse(symbols, gamma).randomize(symbol, random))


def statistic(randomizer: Randomizer, symbol: int, law: Sequence[Fraction]) -> float:
    """Pearson's χ² of `REPORTS` reports for `symbol` against `law`."""
    counts = Counter(randomizer(symbol, SYMBOLS, GAMMA, os.urandom) for _ in range(REPORTS))
    return sum((counts[report] - REPORTS * float(p)) ** 2 / (REPORTS * float(p)) for report, p in enumerate(law))


def threshold() -> float:
    return float(stats.chi2.isf(FALSE_ALARM, SYMBOLS - 1))


def power(right: Sequence[Fraction], wrong: Sequence[Fraction]) -> float:
    """Probability that the test for `right` rejects reports that follow `wrong`."""
    distance = REPORTS * sum(float((q - p) ** 2 / p) for p, q in zip(right, wrong, strict=True))
    return float(stats.ncx2.sf(threshold(), SYMBOLS - 1, distance))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("symbol", range(SYMBOLS))
def test_reports_follow_the_law(symbol: int) -> None:
    law = KRR.from_numerator(SYMBOLS, GAMMA).law(symbol)
    assert statistic(randomize, symbol, law) < threshold()


def lies_always(symbol: int, symbols: int, gamma: int, random: Random) -> int:
    """Wrong: the blanket never draws the truth, which is another, less private mechanism than the one computed for."""
    while True:
        report = randomize(symbol, symbols, DENOMINATOR, random)
        if report != symbol:
            return report if int.from_bytes(random(4), "big") < gamma else symbol


def blanket_too_thin(symbol: int, symbols: int, gamma: int, random: Random) -> int:
    """Wrong: γ is a tenth too small, as if ε_local were a tenth higher."""
    return randomize(symbol, symbols, gamma * 9 // 10, random)


def modulo_of_four_bits(symbol: int, symbols: int, gamma: int, random: Random) -> int:
    """Wrong: four bits modulo 6, without rejection, prefer the first four symbols (3 of 16 draws against 2)."""
    if int.from_bytes(random(4), "big") < gamma:
        return random(1)[0] % 16 % symbols
    return symbol


def law_of(name: str, symbol: int) -> list[Fraction]:
    """The exact law of a wrong randomizer."""
    gamma = Fraction(GAMMA, DENOMINATOR)
    if name == "lies_always":
        return [1 - gamma if report == symbol else gamma / (SYMBOLS - 1) for report in range(SYMBOLS)]
    if name == "blanket_too_thin":
        return list(KRR.from_numerator(SYMBOLS, GAMMA * 9 // 10).law(symbol))
    blanket = [Fraction(len(range(report, 16, SYMBOLS)), 16) for report in range(SYMBOLS)]
    return [gamma * share + (1 - gamma) * (report == symbol) for report, share in enumerate(blanket)]


@pytest.mark.parametrize(
    "wrong", [lies_always, blanket_too_thin, modulo_of_four_bits], ids=lambda wrong: wrong.__name__
)
def test_a_wrong_law_is_noticed(wrong: Randomizer) -> None:
    law = KRR.from_numerator(SYMBOLS, GAMMA).law(0)
    assert power(law, law_of(wrong.__name__, 0)) > POWER
    assert statistic(wrong, 0, law) > threshold()


@pytest.mark.parametrize("answer", [-30.0, 0.1, 71.0, 179.9])
def test_rounding_keeps_the_mean(answer: float) -> None:
    """The number rounded up is binomial: a two-sided exact test at `FALSE_ALARM`."""
    query = krr_query(Number("delay", -30.0, 180.0), 1, levels=7)
    scaled = (Fraction(answer) + 30) * 7 / 210
    below = scaled.numerator // scaled.denominator
    ups = sum(query.encode(answer, os.urandom) - below for _ in range(REPORTS // 5))
    assert stats.binomtest(ups, REPORTS // 5, float(scaled - below)).pvalue > FALSE_ALARM


# Unary encoding

UNARY = UnaryEncoding(3, 3 * 2**30, 2**30)


def unary_law(held: int, mechanism: RAPPOR = UNARY.mechanism) -> list[Fraction]:
    """The exact probability of each report, as the number that it is."""
    return [mechanism.probability(held, (report & 1, report >> 1 & 1, report >> 2 & 1)) for report in range(8)]


def unary_statistic(reports: bytes, law: Sequence[Fraction]) -> float:
    counts = Counter(reports)
    return sum((counts[report] - REPORTS * float(p)) ** 2 / (REPORTS * float(p)) for report, p in enumerate(law))


@pytest.mark.parametrize("symbol", range(3))
def test_unary_reports_follow_the_law(symbol: int) -> None:
    reports = b"".join(UNARY.randomize(symbol, os.urandom) for _ in range(REPORTS))
    assert unary_statistic(reports, unary_law(symbol)) < stats.chi2.isf(FALSE_ALARM, 7)


def uniform_law() -> list[Fraction]:
    return [sum(each, Fraction(0)) / 3 for each in zip(*(unary_law(held) for held in range(3)), strict=True)]


def test_unary_dummies_follow_the_law_of_a_uniform_symbol_s_report() -> None:
    assert unary_statistic(UNARY.dummies(REPORTS, os.urandom), uniform_law()) < stats.chi2.isf(FALSE_ALARM, 7)


def test_unary_dummies_of_independent_bits_would_be_noticed() -> None:
    """Wrong: bits of the right means, 5/12 each, drawn independently of each other, are no report of anyone."""
    independent = RAPPOR(3, Fraction(5, 12), Fraction(5, 12))
    wrong = [float(p) for p in unary_law(0, independent)]
    right = uniform_law()
    distance = REPORTS * sum((q - float(p)) ** 2 / float(p) for p, q in zip(right, wrong, strict=True))
    assert stats.ncx2.sf(stats.chi2.isf(FALSE_ALARM, 7), 7, distance) > POWER
    fair = (sum((random_bit() << place) for place in range(3)) for _ in range(REPORTS))
    assert unary_statistic(bytes(fair), right) > stats.chi2.isf(FALSE_ALARM, 7)


def random_bit() -> int:
    """1 with probability 5/12, to 2⁻³²."""
    return int(int.from_bytes(os.urandom(4), "big") < 5 * 2**32 // 12)
