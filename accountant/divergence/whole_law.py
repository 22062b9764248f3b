"""Bounds δ by all that others send, not by the blanket alone: no data set shows more than a sum of some hundred terms.

The blanket counts only reports that say nothing of their sender. Here the rest of a report hides people, too.

**Hidden values.** Let R_z be the law of a report of the value z, and M a measure of mass β below every R_z. Another
person's report is *hidden* with probability β, drawn from M, and else drawn from R_z − M. The victim's report y has the
law μ = R_x (or μ' = R_x'); it is hidden with probability M(y)/μ(y). Let T be the other people whose reports are not
hidden. If the victim's is not hidden either, it picks one of the n − 1 − |T| people outside T, each as likely, and uses
their name. The observer is given more than the batch: names and reports of those that are not hidden, and all hidden
reports, shuffled. With S the set of the names, all densities relative to M and R_z − M, this view has the density

    (1/(n − |S|)) · (Σ_{i∈S} (μ − M)(y_i)/(R_{z_i} − M)(y_i) + Σ_{hidden} 1)

For if the victim has the name i, then T = S∖{i}, and of the n − |S| people outside T it picked i; if it is hidden, it
is at one of n − |S| places. So every data set has the same view but for the laws R_{z_i}. Only if nobody else is hidden
and the victim is not, is there no name to pick: (1 − β)ⁿ is added to δ for that. With Σ over all S of the n − 1 others,
c = n − |S| and ∫₀¹ t^{c−1} dt = 1/c,

    δ(ε) ≤ (1−β)ⁿ + E*[(ΣV)₊],    V = (μ − e^ε μ' − (1−e^ε)M)/(R_z − M) if not hidden, else 1 − e^ε,

where E* stands for ∫₀¹ β·Π_{others} (ν_z + tβ) dt, ν_z the law of V if not hidden (of mass 1 − β), and one V hidden.

**No mixture of values is worse than the worst value.** Adding a normal variable of deviation τ, which is independent,
only raises the mean of a positive part. For any tilt θ > 0, x₊ = (1/2π)∫ e^{wx}/w² dv, w = θ + iv. Let h_z(w) be the
transform of ν_z with V − (1−e^ε) for V, and take absolute values:

    E*[(ΣV)₊] ≤ (e^{θn(1−e^ε) + τ²θ²/2}/2π) ∫ e^{−τ²v²/2}/(θ²+v²) ∫₀¹ β·Π|h_z + tβ| dt dv.

A product of n − 1 numbers is at most the mean of their (n − 1)-th powers. So this is at most a mean over the others of
the same with all others alike, and at most its largest value over z, at one θ for all. Absolute values cost little:
at the saddle point the phase stands still. Mixtures of values need not be looked at.

**A sum is above the integral.** For an even power, |h + tβ|^N is a characteristic function times a positive number, and
so are the two other factors. So by Poisson's formula Δ·Σ_k F(kΔ) = Σ_m f(2πm/Δ), f ≥ 0 the density of which F is the
transform; and ∫F = f(0). So the sum is never below the integral. (If n − 1 is odd, one factor is taken at v = 0.)
For the inner integral, |h + tβ| is convex in t, hence below its chord; with G = h + β and A ≥ B the larger and the
smaller of |G|, |h|,

    ∫₀¹ β|h + tβ|^N dt ≤ β(A^{N+1} − B^{N+1})/((N+1)(A − B)) ≤ A^N·min(β, A(A + B)/((N+1)·|2Re G − β|)).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from math import ceil, expm1, inf, log, log1p, pi, sqrt
from typing import Protocol

import numpy as np

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.divergence.blankets import Point
from hubbub.accountant.divergence.contour import log_moment, saddle_point
from hubbub.accountant.divergence.logs import ZERO, LogBracket
from hubbub.accountant.divergence.sums import IidSum, SumPoints
from hubbub.accountant.mechanisms import RAPPOR
from hubbub.accountant.numbers import UNIT_ROUNDOFF

SMOOTHING, OF_TILT = 0.03, 0.04
"""The deviation τ of the added normal: this share of that of the tilted sum, or this over θ if that is more.

The one adds half a thousandth to ε, the other a thousandth to δ.
"""

FAR, APART = 9.0, 4.5
"""The density's first alias is 9/θ and 4.5 deviations away: it is e^−9 of the density. Nodes end at 9/τ."""

_ROUNDING = 64 * UNIT_ROUNDOFF
"""Relative error of a node's exponent: a dozen operations, none of which is wrong by more than a few units."""

_FLOOR = 1e-4
"""Squared sizes are raised to this: a tiny one is not known relatively, and a larger one is safe."""

_LARGEST_CHARGE = 300.0
"""A charge of more says that nothing is known."""

_LARGEST_EXPONENT = 150.0
"""Largest exponent of a tilted step, so that squares are doubles."""

_FARTHEST = 40.0
"""Largest tilt in units of the sum's deviation, if further values are tilted as some are: δ is e^−800 there."""

_FEW = 1000
"""Beyond so many people one person changes δ by less than a thousandth."""

_ENOUGH = 0.05
"""Several further values are taken together if that adds no more than this to ln δ: 0.05 % of ε."""

_NEWTON = 3
"""Steps of Newton's method after the coarse search of a tilt."""

_STEPS_LIMIT = 1e60
"""Above this ratio of two laws nothing is computed."""


class Whole(Hashable, Protocol):
    """A bound by all that the others send, of one mechanism."""

    def variance(self) -> float:
        """Return the second moment of V at ε = 0, the largest that others can make it."""

    def sum_at_zero(self, people: int) -> IidSum:
        """Return a sum of that variance, for a first guess."""

    def log_delta(self, people: int, epsilon: float) -> LogBracket:
        """Return ln of a number never below δ(`epsilon`); both ends are of that number."""

    def near(self, people: int, delta: float) -> Callable[[float], LogBracket]:
        """Return `log_delta` as a smooth function of ε, good where δ is about `delta`."""


class Further(Protocol):
    """Further values of the others: so many that most are compared with those evaluated, and several at once."""

    def tops(self, tilt: float) -> Array:
        """Return a number never below n·ln E[e^{`tilt`·V}] for each."""

    def merged(self, places: Sequence[int]) -> IidSum:
        """Return the sum of a law that is in the convex order above those of all these values."""


@dataclass(frozen=True, eq=False)
class WholeLaw:
    """Two answers of the victim, and what the others may send.

    Attributes:
        hidden: β, the mass of M.
        values: for each value z of the others, points (V's parts (μ − M)/(R_z − M) − 1 and (μ' − M)/(R_z − M) − 1, and
            the mass under R_z − M); values with the same points are one.
    """

    hidden: Fraction
    values: tuple[tuple[Point, ...], ...]

    @cached_property
    def _points(self) -> tuple[SumPoints, ...]:
        return tuple(SumPoints.of([(at.first, at.second, at.mass) for at in points]) for points in self.values)

    def variance(self) -> float:
        """Return the largest of the values' second moments at ε = 0."""
        return max(points.variance() for points in self._points)

    def sum_at_zero(self, people: int) -> IidSum:
        """Return the sum of the value with the largest variance at ε = 0, for a first guess."""
        return max(self._points, key=SumPoints.variance).sum(people, 0.0)

    def log_charge(self, people: int) -> float:
        """Return ln of the chance that nobody is hidden, (1 − β)ⁿ, rounded up."""
        # If nearly all are hidden, 1 − β is subtracted exactly: β as a double has lost its digits.
        seldom = self.hidden > Fraction(1, 2)
        return people * (log(float(1 - self.hidden)) if seldom else log1p(-float(self.hidden))) * (1 - 1e-14)

    def log_delta(self, people: int, epsilon: float) -> LogBracket:
        """Return ln of a number never below δ(`epsilon`): both ends are of that number, which is a finite sum."""
        return _log_delta(self, people, epsilon)

    def near(self, people: int, delta: float) -> Callable[[float], LogBracket]:  # noqa: ARG002 - M is the same for all
        """Return `log_delta`."""
        return partial(self.log_delta, people)

    def found(self, people: int, epsilon: float) -> LogBracket:
        """Return what `log_delta` caches."""
        # The rest is V = 1 − e^ε: hidden, in every sum.
        mean = -expm1(epsilon)
        sums = [replace(points.sum(people, epsilon), rest=mean) for points in self._points]
        return bound(float(self.hidden), sums, self.log_charge(people))


def bound(hidden: float, sums: Sequence[IidSum], charge: float, further: Further | None = None) -> LogBracket:
    """Return ln of the largest sum over the others' values, with e^`charge` added; each of `sums` is a value's V.

    Of `further` values those are looked at that may show more.

    A value that leaves V at its mean is left out: it is the least in the convex order, so no data set shows less if
    another value is in its place.
    """
    people, mean = sums[0].draws, sums[0].rest
    moving = [each for each in sums if any(each.steps)]
    if not moving:
        # Every report has the same law, for either answer.
        return ZERO
    highest = max(abs(step) for each in moving for step in each.steps)
    if highest > _STEPS_LIMIT:
        return LogBracket(-inf, inf)
    laws = [(np.array(each.steps), np.array(each.masses)) for each in moving]
    top = _LARGEST_EXPONENT / highest
    if further is not None:
        # Where these values show next to nothing, further ones must not be tilted out of all proportion.
        most = max(float(masses @ steps**2) for steps, masses in laws)
        top = min(top, _FARTHEST / sqrt(people * most))
    nodes = _WeightedNodes.of(*_tilt(moving, laws, top))
    tilt = np.array([nodes.tilt])
    tops = np.array([float(log_moment(each, *law, tilt)[0]) for each, law in zip(moving, laws, strict=True)])
    lower = upper = -inf
    for place in np.argsort(-tops, kind="stable").tolist():
        most = nodes.at_most(float(tops[place]), people, mean)
        if most <= lower:
            break
        found = nodes.part(moving[place], hidden)
        lower, upper = max(lower, min(found.lower, most)), max(upper, min(found.upper, most))
    if further is not None:
        known = [nodes.at_most(top, people, mean) for top in further.tops(nodes.tilt).tolist()]
        places = [place for place, most in enumerate(known) if most > upper]
        groups, enough = [places] if places else [], upper + _ENOUGH
        while groups:
            group = groups.pop()
            found, most = nodes.part(further.merged(group), hidden), max(known[place] for place in group)
            value = min(found.upper, most)
            if value <= enough or len(group) == 1:
                lower, upper = max(lower, min(found.lower, most)), max(upper, value)
            else:
                middle = len(group) // 2
                groups += [group[middle:], group[:middle]]
    return LogBracket(float(np.logaddexp(lower, charge)), float(np.logaddexp(upper, charge)))


def _tilt(sums: Sequence[IidSum], laws: Sequence[tuple[Array, Array]], top: float) -> tuple[float, float]:
    """Return the saddle point of the value whose integrand is the largest there, and the tilted sum's deviation.

    Any tilt is valid; it is at most `top`.
    """
    best, largest = (1.0, 0.0), -inf
    for each, (steps, masses) in zip(sums, laws, strict=True):
        tilt = min(saddle_point(each, steps, masses), top)
        for _ in range(_NEWTON):
            # To many digits, so that δ is a smooth function of ε.
            grown = masses * np.exp(tilt * steps)
            total = each.rest_mass + float(grown.sum())
            slope = float(grown @ steps) / total
            spread = float(grown @ steps**2) / total - slope**2
            fall = tilt * (each.draws * (slope + each.rest) - 2 / tilt)
            tilt = min(tilt * (1 - fall / (each.draws * spread * tilt**2 + abs(fall) + 2)), top)
        found = float(log_moment(each, steps, masses, np.array([tilt]))[0]) - 2 * log(tilt)
        if found > largest:
            best, largest = (tilt, sqrt(each.draws * max(spread, 0.0))), found
    return best


@lru_cache(maxsize=4096)
def _log_delta(law: WholeLaw, people: int, epsilon: float) -> LogBracket:
    """Cached: a curve needs its upper ends first, and then the lower ones at the same ε."""
    return with_one_fewer(law.found, people, epsilon)


def with_one_fewer(found: Callable[[int, float], LogBracket], people: int, epsilon: float) -> LogBracket:
    """Return the smaller bound of those for all people and, of an even number, for one fewer.

    Both are valid: a batch is a post-processing of the batch without one of the others, whose report is added and
    shuffled in. Of an odd number of others one factor is taken at v = 0, so that among few one fewer may show less.
    """
    here = found(people, epsilon)
    if people % 2 or people > _FEW:
        return here
    return min(here, found(people - 1, epsilon), key=lambda each: each.upper)


@dataclass(frozen=True)
class _WeightedNodes:
    """The nodes kΔ for a tilt θ, and e^{−τ²v²/2}/(θ²+v²) there, times Δ/2π and for k and −k together."""

    tilt: float
    places: Array
    weights: Array
    smoothing: float

    @classmethod
    def of(cls, tilt: float, spread: float) -> _WeightedNodes:
        deviation, step = max(SMOOTHING * spread, OF_TILT / tilt), 2 * pi / (FAR / tilt + APART * spread)
        places = step * np.arange(ceil(FAR / (deviation * step)) + 1, dtype=float)
        weights = np.exp(-((deviation * places) ** 2) / 2) / (tilt**2 + places**2) * (step / pi)
        weights[0] /= 2
        return cls(tilt, places, weights, deviation)

    def at_most(self, top: float, people: int, mean: float) -> float:
        """Return a number never below ln of the sum of a value, n·ln E[e^{θV}] of which is `top`.

        For the inner integral is at most ∫ β(h + tβ)^N dt at the real tilt, and that is at most G^{N+1}/(N + 1).
        """
        power = (people - 1) // 2 * 2
        known = top + float(np.log(self.weights.sum())) - log(power + 1) + (self.smoothing * self.tilt) ** 2 / 2
        resting = abs(self.tilt * people * mean)
        return known + 1e-9 * (1 + abs(top) + resting)

    def part(self, sums: IidSum, hidden: float) -> LogBracket:
        """Return ends of ln of the sum with all others alike."""
        people, mean = sums.draws, sums.rest
        steps, masses = np.array(sums.steps), np.array(sums.masses)
        power = (people - 1) // 2 * 2
        exponents, halves = self.tilt * steps, np.multiply.outer(self.places, steps / 2)
        # G − 1 has small relative errors, G has not: e^{wu} − 1 by parts, cos a = 1 − 2·sin²(a/2).
        grown, sine = masses * np.exp(exponents), np.sin(halves)
        # Not by BLAS: for products as small as these, its threads cost ten times what they do.
        real = float(masses @ np.expm1(exponents)) - 2 * np.einsum("ij,ij,j->i", sine, sine, grown)
        imaginary = 2 * np.einsum("ij,ij,j->i", sine, np.cos(halves), grown)
        size = np.maximum(2 * real + real**2 + imaginary**2, _FLOOR - 1)
        # |h|² = |G|² − β(2·Re G − β)
        between = hidden * (2 * (1 + real) - hidden)
        other = np.maximum(size - between, _FLOOR - 1)
        largest, both = np.maximum(size, other), np.sqrt(1 + size) + np.sqrt(1 + other)
        top = float(np.log1p(size[0])) / 2
        ratio = np.sqrt(1 + largest)
        chord = ratio * both / ((power + 1) * np.maximum(np.abs(2 * (1 + real) - hidden), 1e-300))
        inner = np.minimum(hidden, chord) * np.exp(power / 2 * np.log1p(largest) - (power + 1) * top)
        moved = float((np.abs(steps) * (masses + grown)).sum())
        charge = _ROUNDING * (1 + len(steps) / 64) * people * moved * np.hypot(self.tilt, self.places)
        # Of |G|² the relative error is that of G over |G|; where |G| is small, over |G|² is more.
        charge /= np.minimum(ratio, 1 + largest)
        if float(charge.max()) > _LARGEST_CHARGE:
            return LogBracket(-inf, inf)
        # Beyond the last node the inner integral is at most its value at 0, and Σ at most ∫ of a falling function.
        last = float(self.places[-1])
        squared = self.smoothing**2
        beyond = float(np.exp(-squared * last**2 / 2)) / (pi * squared * last**3 * (power + 1))
        total = float(self.weights @ (inner * np.exp(charge))) * (1 + 1e-12) + beyond
        exponent = people * top, self.tilt * people * mean, squared * self.tilt**2 / 2
        doubt = _ROUNDING * (8 + sum(abs(each) for each in exponent)) + float(charge[0])
        value = log(total) + sum(exponent)
        return LogBracket(value - doubt, value + doubt)


@lru_cache(maxsize=64)
def rappor_whole_law(mechanism: RAPPOR) -> WholeLaw:
    """Return RAPPOR's: a report is hidden if neither bit of the victim's two values is set, as far as M permits.

    M is μ = μ' on these reports. It is below every R_z there: equal for x and x', and for a third value z, if its own
    bit is not set. Three bits of a report are all that counts: those of x, x' and z. All pairs x, x' are alike, and so
    are all third values.
    """
    one, other = mechanism.truthful, mechanism.other
    hidden = (1 - one) * (1 - other)
    ratio = mechanism.likelihood_ratio
    own = ((Fraction(1), 1 / ratio, one * (1 - other)), (Fraction(1), ratio, other * (1 - one)))
    both = (Fraction(1), Fraction(1), one * other)
    values = [[*own, both], [(second, first, mass) for first, second, mass in own] + [both]]
    if mechanism.categories > 2:
        values.insert(0, _third_value(one, other, hidden))
    return WholeLaw(hidden, tuple(tuple(Point(a - 1, b - 1, mass) for a, b, mass in each) for each in values))


def _third_value(one: Fraction, other: Fraction, hidden: Fraction) -> list[tuple[Fraction, Fraction, Fraction]]:
    """Return (μ/R_z, μ'/R_z, R_z) for a third value z: the bits of x and x', and then that of z."""
    set_, unset = one / other, (1 - one) / (1 - other)
    points = []
    for seen, others in ((one, other), (1 - one, 1 - other)):
        rare = others / seen
        points += [
            (set_ * rare, unset * rare, other * (1 - other) * seen),
            (unset * rare, set_ * rare, other * (1 - other) * seen),
            (set_ * rare, set_ * rare, other**2 * seen),
        ]
    # The rest of the reports with neither bit: the victim's are all hidden, so none of them is its own.
    return [*points, (Fraction(0), Fraction(0), (1 - other) ** 2 - hidden)]
