"""Masses of binomials against ball arithmetic, where the mean is near 10^13 and doubles have no digits to spare."""

from fractions import Fraction

import numpy as np
import pytest

from hubbub.accountant.divergence import binomials
from hubbub.accountant.divergence.binomials import MASS_ERROR, Binomial

flint = pytest.importorskip("flint")

BITS = 300


def true_bin(law: Binomial, left: int, width: int) -> tuple[flint.arb, flint.arb]:
    """Mass and Σ (x − left)·mass of [left, left + width), term by term."""
    trials, p = law.trials, law.probability
    ratio = flint.fmpq(p.numerator, p.denominator - p.numerator)
    logs = [flint.arb(flint.fmpq(each.numerator, each.denominator)).log() for each in (p, 1 - p)]
    counts = (flint.arb(trials + 1), flint.arb(left + 1), flint.arb(trials - left + 1))
    ways = counts[0].lgamma() - counts[1].lgamma() - counts[2].lgamma()
    mass = (ways + logs[0] * left + logs[1] * (trials - left)).exp()
    total, moment = flint.arb(0), flint.arb(0)
    for x in range(left, left + width):
        total, moment = total + mass, moment + mass * (x - left)
        mass = mass * flint.arb(trials - x) / flint.arb(x + 1) * flint.arb(ratio)
    return total, moment


def apart(found: float, true: flint.arb) -> float:
    return float((flint.arb(found) / true - 1).abs_upper())


@pytest.mark.parametrize(
    ("trials", "probability"),
    [
        (10**10, Fraction(1, 10**5)),
        (10**10, 1 - Fraction(1, 10**5)),
        (10**12, 1 - Fraction(1, 10**7)),
        (10**13, 1 - Fraction(1, 10**8)),
        (10**13, 1 - Fraction(1, 10**3)),
        (10**13, Fraction(1, 2)),
        (10**12, Fraction(2, 3)),
    ],
)
@pytest.mark.parametrize("deviations", [-14, -3, 0, 3, 14])
def test_sums_over_bins_keep_their_accuracy(trials: int, probability: Fraction, deviations: int) -> None:
    flint.ctx.prec, before = BITS, flint.ctx.prec
    try:
        law = Binomial(trials, probability)
        width = min(1000, int(0.3 * law.deviation))
        first = int(law.mean + deviations * law.deviation)
        # So many bins that they are summed by quadrature, not term by term.
        edges = first + width * np.arange(binomials.DIRECT_POINTS // width + 3, dtype=np.int64)
        masses, moments = law.bins(edges)
        true_mass, true_moment = true_bin(law, first, width)
        assert apart(float(masses[0]), true_mass) < MASS_ERROR
        assert apart(float(moments[0]), true_moment) < MASS_ERROR
    finally:
        flint.ctx.prec = before


def test_fair_masses_between_integers_keep_their_accuracy() -> None:
    trials, offset = 10**13, 0.3
    place = np.array([5e12 + 3e6])
    found = float(binomials.fair_mass(place, np.array([1e13]), offset)[0])
    flint.ctx.prec, before = BITS, flint.ctx.prec
    try:
        x = flint.arb(int(place[0])) + flint.arb(offset)
        ways = flint.arb(trials + 1).lgamma() - (x + 1).lgamma() - (trials - x + 1).lgamma()
        assert apart(found, (ways - trials * flint.arb(2).log()).exp()) < 1e-11
    finally:
        flint.ctx.prec = before
