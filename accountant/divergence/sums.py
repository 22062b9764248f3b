"""Builds the sums whose positive part is a divergence: δ(ε) = E[(Y₁ + … + Yₙ)₊] / n, Y with three values and a rest.

A victim's two laws μ, μ' against n − 1 others with the exact law ω (μ, μ' ≪ ω), all reports permuted: the
hockey-stick divergence of the two views is (1/n)·E[(Σᵢ (μ − e^ε μ')(Wᵢ)/ω(Wᵢ))₊] over n i.i.d. Wᵢ ~ ω
(balle-2019, proof of Lemma 5.3: permute, then integrate out who the victim is). Every pair here has this shape:

* blanket (balle-2019, Lemma 5.3): with B ~ B(n−1, γ) blankets among the others, ω uniform, this is
  (1/(γn))·E[(Σ_{i≤M} Lᵢ)₊], M ~ B(n, γ). So Y = L/γ with probability γ, else 0;
* stronger clones (docs/explanation/accounting-clones.md): ω = (p, p, 1−2p), μ = (Ep, p, 0), p = 1/(E+1), E = e^ε₀;
* clones (feldman-2022, Thm B.1): ω = (r/2, r/2, 1−r), r = 1/E, μ = (q, 1−q, 0), q = E/(E+1);
* RAPPOR, Laplace and Gaussian noise: see `blankets`;
* the kRR attack (feldman-2022, Thm 5.3): ω = (p, p, 1−2p), μ = (Ep, p, 1−(E+1)p), p = 1/(E+k−1);
* attacks on unknown randomizers (`binary_sum`, and of a small ε₀ `four_outputs_sum`).

All values are computed as fractions, with 80 digits of e^ε, and rounded once: each double here has an error of at most
half an ulp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from hubbub.accountant.mechanisms import KRR, LocalMechanism, exp_decimal

_NOTHING_LEFT = Fraction(1, 10**50)
"""Masses of laws with 80 digits sum to 1 up to this."""


@dataclass(frozen=True)
class IidSum:
    """S = Σ Yᵢ over `draws` i.i.d. copies; Y is `rest` + step with the probability of that step, else `rest`.

    Each of `steps` has its probability in `masses`, `rest_mass` is the probability of resting; all doubles are within
    half an ulp of the exact values. δ is `scale` times E[S₊]; `best` is Y's largest value: if it is not above 0, δ is
    exactly 0.
    """

    draws: int
    steps: tuple[float, ...]
    masses: tuple[float, ...]
    rest: float
    rest_mass: float
    best: float
    scale: float


def _build(draws: int, values: tuple[Fraction, ...], masses: tuple[Fraction, ...], rest: Fraction) -> IidSum:
    # A step of mass 0 is removed: its logarithm is −∞, and `best` must be a value that can be drawn.
    kept = [(value, mass) for value, mass in zip(values, masses, strict=True) if mass > 0]
    # Subtracted as fractions: the difference of two rounded doubles would be off by more than half an ulp.
    steps = tuple(float(value - rest) for value, _ in kept)
    left = 1 - sum(mass for _, mass in kept)
    best = max([value for value, _ in kept] + ([rest] if left > 0 else []))
    chances = tuple(float(mass) for _, mass in kept)
    return IidSum(draws, steps, chances, float(rest), float(left), float(best), 1.0 / draws)


@dataclass(frozen=True, eq=False)
class SumPoints:
    """Points (a, a', mass) as whole numbers, from which the sum at any ε is quickly computed: no fraction is reduced.

    Attributes:
        firsts: a's numerators over the point's own denominator.
        seconds: those of a'.
        denominators: the denominators.
        masses: to half an ulp.
        likeliest: the points' places, by falling mass.
        left: the remaining mass, exact.
    """

    firsts: tuple[int, ...]
    seconds: tuple[int, ...]
    denominators: tuple[int, ...]
    masses: tuple[float, ...]
    likeliest: tuple[int, ...]
    left: Fraction

    @classmethod
    def of(cls, points: Sequence[tuple[Fraction, Fraction, Fraction]]) -> SumPoints:
        """Return the points with a mass above 0."""
        kept = [point for point in points if point[2] > 0]
        masses = [float(mass) for _, _, mass in kept]
        # Over one denominator: a sum of fractions would compute a common divisor at every step.
        whole = lcm(*{mass.denominator for _, _, mass in kept})
        total = sum(mass.numerator * (whole // mass.denominator) for _, _, mass in kept)
        return cls(
            tuple(first.numerator * second.denominator for first, second, _ in kept),
            tuple(second.numerator * first.denominator for first, second, _ in kept),
            tuple(first.denominator * second.denominator for first, second, _ in kept),
            tuple(masses),
            tuple(sorted(range(len(kept)), key=lambda place: -masses[place])),
            1 - Fraction(total, whole),
        )

    def exchanged(self) -> SumPoints:
        """Return the points with a and a' exchanged."""
        return replace(self, firsts=self.seconds, seconds=self.firsts)

    def variance(self) -> float:
        """Return E[(a − a')²], about the value 0 of the remaining mass."""
        values = zip(self.firsts, self.seconds, self.denominators, self.masses, strict=True)
        return sum(mass * ((first - second) / below) ** 2 for first, second, below, mass in values)

    def sum(self, draws: int, epsilon: float) -> IidSum:
        """Return the sum of `draws` copies of a − e^ε·a'; Y is 0 with the remaining mass.

        If no mass remains, Y rests at the point of largest mass other than the highest one.
        """
        power = Fraction(exp_decimal(epsilon))
        grown, scale = power.numerator, power.denominator
        # a − e^ε·a' is one of these over its point's denominator times `scale`. A quotient of two whole numbers is
        # rounded once, and no common divisor is ever computed.
        values = [first * scale - second * grown for first, second in zip(self.firsts, self.seconds, strict=True)]
        drawn = [value / (below * scale) for value, below in zip(values, self.denominators, strict=True)]
        most = max(drawn)
        if self.left >= _NOTHING_LEFT:
            return IidSum(draws, tuple(drawn), self.masses, 0.0, float(self.left), max(most, 0.0), 1.0 / draws)
        # Rounding is charged on steps away from the resting value, so the likeliest point rests. Not the highest one:
        # the contour scales its tilts by the largest step, which must be above 0. (If all are equal, none is above 0.)
        resting = self._resting(values, drawn)
        value, below = values[resting], self.denominators[resting]
        # Subtracted before the division: the difference of two rounded doubles would be off by more than half an ulp.
        steps = [
            (one * below - value * each) / (each * below * scale)
            for one, each in zip(values, self.denominators, strict=True)
        ]
        kept = [place for place in range(len(steps)) if place != resting]
        return IidSum(
            draws,
            tuple(steps[place] for place in kept),
            tuple(self.masses[place] for place in kept),
            drawn[resting],
            self.masses[resting],
            most,
            1.0 / draws,
        )

    def _resting(self, values: Sequence[int], drawn: Sequence[float]) -> int:
        """Return the likeliest place below the highest value; the doubles in `drawn` may be equal for the two."""
        most = max(drawn)
        # The denominators' common further factor does not matter for the order.
        highest = max(Fraction(values[at], self.denominators[at]) for at, value in enumerate(drawn) if value == most)

        def is_below(at: int) -> bool:
            return drawn[at] < most or Fraction(values[at], self.denominators[at]) < highest

        return next((at for at in self.likeliest if is_below(at)), self.likeliest[0])


def points_sum(draws: int, points: Sequence[tuple[Fraction, Fraction, Fraction]], epsilon: float) -> IidSum:
    """Return the sum of `draws` copies of a − e^ε·a' over points (a, a', mass); 0 with the remaining mass."""
    return SumPoints.of(points).sum(draws, epsilon)


def blanket_sum(mechanism: KRR, reports: int, epsilon: float) -> IidSum:
    """Balle's blanket sum for kRR: L/γ with probability γ; the best of all decompositions (arXiv 2504.07414)."""
    blank, whole, categories = mechanism.gamma.numerator, mechanism.gamma.denominator, mechanism.categories
    values, scale = _blanket_values(mechanism, epsilon)
    # Quotients of whole numbers are rounded once, and a search for γ builds a thousand sums: no fraction is reduced.
    steps = tuple(value / (blank * scale) for value in values)
    each, rest = blank / (whole * categories), blank * (categories - 2) / (whole * categories)
    kept = 3 if rest else 2
    best = max(0, *values[:kept]) / (blank * scale) if blank < whole else max(steps[:kept])
    return IidSum(reports, steps[:kept], (each, each, rest)[:kept], 0.0, (whole - blank) / whole, best, 1.0 / reports)


def blanket_draws_sum(mechanism: KRR, draws: int, epsilon: float) -> IidSum:
    """Return the sum of L over exactly `draws` blanket reports, of which draws - 1 are known blankets of others."""
    values, scale = _blanket_values(mechanism, epsilon)
    up, down, base = (Fraction(value, mechanism.gamma.denominator * scale) for value in values)
    each = Fraction(1, mechanism.categories)
    # Without a third value, a report is either the first value or the second: at the second, Y rests.
    if mechanism.categories == 2:
        return _build(draws, (up,), (each,), down)
    return _build(draws, (up, down), (each, each), base)


def _blanket_values(mechanism: KRR, epsilon: float) -> tuple[tuple[int, int, int], int]:
    """Return the values of L times γ's denominator times a scale, and that scale."""
    factor = Fraction(exp_decimal(epsilon))
    power, scale = factor.numerator, factor.denominator
    true_part = (mechanism.gamma.denominator - mechanism.gamma.numerator) * mechanism.categories
    base = mechanism.gamma.numerator * (scale - power)
    return (base + true_part * scale, base - true_part * power, base), scale


def _pair_sum(reports: int, others: Fraction, first: Fraction, second: Fraction, epsilon: float) -> IidSum:
    """Victim (first, second, remainder) or its swap, over others (others, others, remainder)."""
    factor = Fraction(exp_decimal(epsilon))
    # With `others` = 1/2 no report ever rests, and the quotient would be 0/0.
    rest = (1 - first - second) * (1 - factor) / (1 - 2 * others) if others < Fraction(1, 2) else Fraction(0)
    up, down = (first - factor * second) / others, (second - factor * first) / others
    return _build(reports, (up, down), (others, others), rest)


def stronger_clones_sum(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    """The stronger-clone pair, for any ε₀-LDP randomizers of the places (docs/explanation/accounting-clones.md)."""
    ratio = mechanism.likelihood_ratio
    return _pair_sum(reports, 1 / (ratio + 1), ratio / (ratio + 1), 1 / (ratio + 1), epsilon)


def clones_sum(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    """The clone pair, for the same (feldman-2022, Thm B.1)."""
    ratio = mechanism.likelihood_ratio
    return _pair_sum(reports, 1 / (2 * ratio), ratio / (ratio + 1), 1 / (ratio + 1), epsilon)


def half_clones_sum(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    """koskela-2021, (6.1): as the clone pair, but a victim's report that is not a clone of its own value vanishes.

    For ε ≥ 0 it is above the clone pair, and so valid whenever that is. Both sums have mean 1 − α, α = e^ε. The values
    are, with probability 1/(2E) each, up' = 2E(E−α)/(E+1) and down' = 2E(1−αE)/(E+1), else 0, for the clones, and
    up = 2E²/(E+1) ≥ up', down = −2αE²/(E+1) ≤ down', else v = (1−α)E/(E²−1) ≤ 0, here. E(·−c)₊ is convex and piecewise
    linear in c. Here it is at least as large as for the clones: at c ≥ 0, as only the largest values count there; at
    c ≤ down', as the clones' equals its mean minus c there; and at c = v, by 1/(E+1). Between these points the clones'
    is linear, so this is true everywhere. That is the convex order of one draw, hence of sums.
    """
    ratio = mechanism.likelihood_ratio
    return _pair_sum(reports, 1 / (2 * ratio), ratio / (ratio + 1), Fraction(0), epsilon)


def given_swap_sum(mechanism: KRR, reports: int, epsilon: float) -> IidSum:
    """kRR, everyone's blanket bit known, the victim truthful: counts of its two values (koskela-2021, Def. 8)."""
    return _pair_sum(reports, mechanism.other, Fraction(1), Fraction(0), epsilon)


def attack_sum(mechanism: KRR, reports: int, epsilon: float) -> IidSum:
    """The attack on kRR, k ≥ 3: all others have a third value (feldman-2022, Thm 5.3)."""
    others = 1 / (mechanism.likelihood_ratio + mechanism.categories - 1)
    return _pair_sum(reports, others, mechanism.likelihood_ratio * others, others, epsilon)


def own_value_sum(mechanism: KRR, reports: int, epsilon: float) -> IidSum:
    """The attack on kRR, k ≥ 3, by a missing value: all others have the value of the victim under P, ω = μ."""
    ratio, other = mechanism.likelihood_ratio, mechanism.other
    one = Fraction(1)
    points = ((one, ratio, other), (one, 1 / ratio, mechanism.truthful), (one, one, 1 - other - mechanism.truthful))
    return points_sum(reports, points, epsilon)


def _ratio_below(mechanism: LocalMechanism) -> Fraction:
    """Return e^ε₀ rounded down: a randomizer of a larger ratio would be another one."""
    return Fraction(exp_decimal(mechanism.epsilon_local)) * (1 - _NOTHING_LEFT)


def binary_points(mechanism: LocalMechanism) -> SumPoints:
    """An attack on an unknown ε₀-LDP randomizer: it may be binary response, and all others have the victim's answer.

    So ω = μ = (E, 1)/(E + 1) and μ' = (1, E)/(E + 1), and one report's part varies by e^{2ε}(E − 1)²/E. That is e^{2ε}
    times what four outputs have.
    """
    ratio = _ratio_below(mechanism)
    one = 1 / (ratio + 1)
    return SumPoints.of(((Fraction(1), 1 / ratio, ratio * one), (Fraction(1), ratio, one)))


def binary_sum(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    """Return the sum of that attack."""
    return binary_points(mechanism).sum(reports, epsilon)


def four_outputs_points(mechanism: LocalMechanism) -> SumPoints:
    """An attack on an unknown ε₀-LDP randomizer: it may have four outputs, and all others a third input.

    Its rows are (E, 1, E, 1), (1, E, 1, E) and, for the others, (1, 1, E, E), each over 2(E + 1): no output is more
    than E times as likely for one input as for another. One report's part varies by Σ (μ − μ')²/ω = (E − 1)²/E. That
    is more than the 2(E − 1)²/(E + 2) of kRR on three values if E < 2.
    """
    ratio = _ratio_below(mechanism)
    one = 1 / (2 * (ratio + 1))
    points = (
        (ratio, Fraction(1), one),
        (Fraction(1), ratio, one),
        (Fraction(1), 1 / ratio, ratio * one),
        (1 / ratio, Fraction(1), ratio * one),
    )
    return SumPoints.of(points)


def four_outputs_sum(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    """Return the sum of that attack."""
    return four_outputs_points(mechanism).sum(reports, epsilon)
