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
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.divergence.blankets import Point
from hubbub.accountant.divergence.contour import log_moment, saddle_point
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
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

_BLOCK = 16
"""Nodes of a block that are left out together if its middle shows that they are negligible."""

_QUIET = -40.5
"""Log of the size, relative to that at v = 0, up to which nodes are charged and not evaluated."""

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

_VERY_FEW, _NEAR = 100, 1.5
"""Beyond so many people one fewer shows more from so many deviations of the loss on."""

_ENOUGH = 0.05
"""Several further values are taken together if that adds no more than this to ln δ: 0.05 % of ε."""

_NEWTON = 3
"""Steps of Newton's method after the coarse search of a tilt."""

_SHARED = 2
"""Values are put on the steps of all of them if these are less than so many times those of one."""

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


class FoundLaw(Protocol):
    """A bound of which `log_delta` is found."""

    def variance(self) -> float:
        """Return the second moment of V at ε = 0."""

    def found(self, people: int, epsilon: float) -> LogBracket:
        """Return ln of a number never below δ(`epsilon`) of so many people."""


class Further(Protocol):
    """Further values of the others: so many that most are compared with those evaluated, and several at once."""

    def tops(self, tilt: float) -> Array:
        """Return a number never below n·ln E[e^{`tilt`·V}] for each."""

    def merged(self, places: Sequence[int]) -> IidSum:
        """Return the sum of a law that is in the convex order above those of all these values."""

    def merged_top(self, places: Sequence[int], tilt: float) -> float:
        """Return roughly what `tops` would be of that law: it only tells whether to ask for it."""


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
        found = nodes.parts([moving[place]], hidden)[0]
        lower, upper = max(lower, min(found.lower, most)), max(upper, min(found.upper, most))
    if further is not None:
        # How much the quick bound is above the sum depends little on the law.
        excess = nodes.at_most(float(tops.max()), people, mean) - upper
        lower, upper = _with_further(further, nodes, hidden, (people, mean, excess), (lower, upper))
    # No δ is above 1.
    lower, upper = (min(float(np.logaddexp(each, charge)), 0.0) for each in (lower, upper))
    return LogBracket(lower, upper)


def _with_further(
    further: Further, nodes: _WeightedNodes, hidden: float, asked: tuple[int, float, float], ends: tuple[float, float]
) -> tuple[float, float]:
    """Return (lower, upper) of ln of the largest sum if `further` values are looked at too.

    `asked` are the people, V's mean, and how much the quick bound is above the sum: by that it is guessed which values
    may be taken together. A wrong guess costs time, or some of `_ENOUGH`.
    """
    (people, mean, excess), (lower, upper) = asked, ends
    known = [nodes.at_most(top, people, mean) for top in further.tops(nodes.tilt).tolist()]
    enough = upper + _ENOUGH

    def apart(group: list[int]) -> list[list[int]]:
        """Return groups that are probably within what is enough, or single."""
        top = nodes.at_most(further.merged_top(group, nodes.tilt), people, mean) if len(group) > 1 else -inf
        return [group] if top - excess <= enough else [each for half in _halves(group) for each in apart(half)]

    places = [place for place, most in enumerate(known) if most > upper]
    groups = apart(places) if places else []
    while groups:
        left: list[list[int]] = []
        found = nodes.parts([further.merged(group) for group in groups], hidden)
        for group, each in zip(groups, found, strict=True):
            most = max(known[place] for place in group)
            value = min(each.upper, most)
            if value <= enough or len(group) == 1:
                lower, upper = max(lower, min(each.lower, most)), max(upper, value)
            else:
                left += _halves(group)
        groups = left
    return lower, upper


def _halves(group: list[int]) -> list[list[int]]:
    middle = len(group) // 2
    return [group[middle:], group[:middle]]


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
    return with_one_fewer(law, people, epsilon)


def with_one_fewer(law: FoundLaw, people: int, epsilon: float) -> LogBracket:
    """Return the smaller bound of those for all people and, of an even number, for one fewer.

    Both are valid: a batch is a post-processing of the batch without one of the others, whose report is added and
    shuffled in. Of an odd number of others one factor is taken at v = 0, so that among few one fewer may show less.
    Among more it does so near ε = 0 alone, and is not asked elsewhere.
    """
    here = law.found(people, epsilon)
    if people % 2 or people > _FEW or (people > _VERY_FEW and epsilon > _NEAR * sqrt(law.variance() / people)):
        return here
    return min(here, law.found(people - 1, epsilon), key=lambda each: each.upper)


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

    def parts(self, sums: Sequence[IidSum], hidden: float) -> list[LogBracket]:
        """Return ends of ln of the sum with all others alike, for each value."""
        people, mean = sums[0].draws, sums[0].rest
        draws = _TiltedValues.of(self.tilt, hidden, sums)
        power = (people - 1) // 2 * 2
        loud, quiet = self._loud(draws, power)
        places, top = self.places[loud], draws.log_top
        real, size, other = draws.sizes(places)
        largest, both = np.maximum(size, other), np.sqrt(1 + size) + np.sqrt(1 + other)
        chord = np.sqrt(1 + largest) * both / ((power + 1) * np.maximum(np.abs(2 * (1 + real) - hidden), 1e-300))
        inner = np.minimum(hidden, chord) * np.exp(power / 2 * np.log1p(largest) - (power + 1) * top[:, None])
        charge = people * draws.doubt(places, largest)
        # Beyond the last node the inner integral is at most its value at 0, and Σ at most ∫ of a falling function.
        last = float(self.places[-1])
        squared = self.smoothing**2
        beyond = float(np.exp(-squared * last**2 / 2)) / (pi * squared * last**3 * (power + 1))
        known = charge.max(axis=1) <= _LARGEST_CHARGE
        grown = inner * np.exp(np.minimum(charge, _LARGEST_CHARGE))
        totals = (grown * self.weights[loud]).sum(axis=1) * (1 + 1e-12) + quiet + beyond
        exponents = people * top, np.full(len(sums), self.tilt * people * mean + squared * self.tilt**2 / 2)
        sizes = np.abs(exponents[0]) + abs(self.tilt * people * mean) + squared * self.tilt**2 / 2
        doubt = _ROUNDING * (8 + sizes) + charge[:, 0]
        values = np.log(totals) + exponents[0] + exponents[1]
        ends = zip((values - doubt).tolist(), (values + doubt).tolist(), known.tolist(), strict=True)
        return [LogBracket(low, high) if sure else LogBracket(-inf, inf) for low, high, sure in ends]

    def _loud(self, draws: _TiltedValues, power: int) -> tuple[NDArray[np.bool_], Array]:
        """Return which nodes must be evaluated, and numbers never below the sums of all others: most are negligible.

        The inner integral is at most β·A^N. Both |G| and |h| change by at most D·|v − c| from the middle c of a block
        of nodes, D = Σ |u|·(mass of u), as each term is a mass times e^{ivu}. So A(c) + D·reach bounds A in the block.
        The first block has the largest node, so it is never left out.
        """
        starts = np.arange(0, len(self.places), _BLOCK, dtype=float)
        step = float(self.places[-1]) / max(len(self.places) - 1, 1)
        reach = (_BLOCK - 1) / 2 * step
        middles: Array = starts * step + reach
        _, size, other = draws.sizes(middles)
        largest = np.maximum(size, other)
        # A size of which nothing is known is taken for larger than any.
        most = np.sqrt(1 + largest) * np.exp(np.minimum(draws.doubt(middles, largest), _LARGEST_CHARGE))
        most += draws.slope[:, None] * (reach * (1 + 1e-9))
        # One is far more than rounding takes from the power.
        still = (power * (np.log(most) - draws.log_top[:, None]) <= _QUIET - 1).all(axis=0)
        still[0] = False
        quiet = np.repeat(still, _BLOCK)[: len(self.places)]
        return ~quiet, draws.hidden * np.exp(_QUIET - draws.log_top) * float(self.weights[quiet].sum())


@dataclass(frozen=True, eq=False)
class _TiltedValues:
    """Values of the others: for each the transform G of its V under a tilt θ, and h = G − β, at θ + iv.

    `steps` u are those of V, `masses` theirs before the tilt, a row for each value; the rest of the mass is at u = 0.
    If all values have the same steps, `steps` has one row: their sines and cosines are computed once.
    """

    tilt: float
    hidden: float
    steps: Array
    masses: Array

    @classmethod
    def of(cls, tilt: float, hidden: float, sums: Sequence[IidSum]) -> _TiltedValues:
        """Return them; a value with fewer steps has further ones without mass."""
        widest = max(len(each.steps) for each in sums)
        every = {step: place for place, step in enumerate(sorted({step for each in sums for step in each.steps}))}
        if len(sums) > 1 and len(every) < _SHARED * widest:
            found = np.zeros((len(sums), len(every)))
            for place, each in enumerate(sums):
                found[place, [every[step] for step in each.steps]] = each.masses
            return cls(tilt, hidden, np.array([list(every)]), found)
        steps, masses = np.zeros((2, len(sums), widest))
        for place, each in enumerate(sums):
            steps[place, : len(each.steps)], masses[place, : len(each.masses)] = each.steps, each.masses
        return cls(tilt, hidden, steps, masses)

    @cached_property
    def _grown(self) -> Array:
        return self.masses * np.exp(self.tilt * self.steps)

    @cached_property
    def _rise(self) -> Array:
        return np.asarray((self.masses * np.expm1(self.tilt * self.steps)).sum(axis=1))

    @cached_property
    def slope(self) -> Array:
        """Σ |u|·(mass of u): G and h have no larger derivative."""
        return np.asarray((np.abs(self.steps) * self._grown).sum(axis=1))

    @cached_property
    def _moved(self) -> Array:
        return np.asarray((np.abs(self.steps) * self.masses).sum(axis=1)) + self.slope

    @cached_property
    def log_top(self) -> Array:
        """Ln G at v = 0, where it is largest."""
        return np.asarray(np.log1p(np.maximum(2 * self._rise + self._rise**2, _FLOOR - 1)) / 2)

    def sizes(self, places: Array) -> tuple[Array, Array, Array]:
        """Return Re G − 1, |G|² − 1 and |h|² − 1 at places v; the last two none below the floor."""
        halves = self.steps[:, None, :] * (places / 2)[:, None]
        # G − 1 has small relative errors, G has not: e^{wu} − 1 by parts, cos a = 1 − 2·sin²(a/2).
        sine = np.sin(halves)
        # Not by BLAS: for products as small as these, its threads cost ten times what they do.
        real = self._rise[:, None] - 2 * np.einsum("lij,lij,lj->li", sine, sine, self._grown)
        imaginary = 2 * np.einsum("lij,lij,lj->li", sine, np.cos(halves), self._grown)
        size = np.maximum(2 * real + real**2 + imaginary**2, _FLOOR - 1)
        # |h|² = |G|² − β(2·Re G − β)
        between = self.hidden * (2 * (1 + real) - self.hidden)
        return real, size, np.maximum(size - between, _FLOOR - 1)

    def doubt(self, places: Array, largest: Array) -> Array:
        """Return the relative error of the larger of |G| and |h|, `largest` its square less 1."""
        moved = self._moved[:, None] * np.hypot(self.tilt, places)
        # Of |G|² the relative error is that of G over |G|; where |G| is small, over |G|² is more.
        found: Array = moved / np.minimum(np.sqrt(1 + largest), 1 + largest)
        found *= _ROUNDING * (1 + self.steps.shape[1] / 64)
        return found


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
