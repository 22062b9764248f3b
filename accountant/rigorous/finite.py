"""Bounds δ of a finite law's blanket from above in balls, by a contour integral for every two neighbors.

balle-2019, Lemma 5.3: δ(ε) ≤ E[S₊]/n, S the sum of n draws of Y = A_x − e^ε·A_x' with probability m, else 0, A_x the
law of x over the blanket m. For any θ > 0, h > 0, P > 0, with z = θ + it, M(z) = E[e^{zY}] and ξ standard normal,

    E[S₊] ≤ E[(S + hξ)₊] ≤ Σ_k e^{−θkP} E[(S + hξ + kP)₊] = (1/P) Σ_j f(2πj/P),    f(t) = M(z)ⁿ e^{h²z²/2}/z²:

x₊ is convex, all terms of the first sum are ≥ 0 and the wanted one is k = 0, and the equality is Poisson's summation.
As |f(t)| ≤ K·e^{−h²t²/2}/t², K = M(θ)ⁿe^{h²θ²/2}, the nodes beyond c add at most K·e^{−h²c²/2}/(π·h²c³). So the result
is an upper bound for any θ, h and P; they are chosen in floating point. If Chernoff's bound M(θ)ⁿ/(eθn) of two
neighbors is small enough, or below another's integral, their integral is not computed.

Nothing here bounds δ from below, so a claim is proven or left open, never refuted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from flint import acb

from hubbub.accountant.mechanisms import Finite
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, precision

Points = tuple[tuple[Fraction, Fraction, Fraction], ...]
"""(A_x, A_x', m) of outputs that differ in the first two."""

_BITS = 256

_CUT = 12.0
"""At the last node the smoothing factor is e^−72."""

_ALIAS = 36.0
"""Unwanted terms are reduced to about e^−36 of the wanted one."""


_AFRESH = 32
"""Number of nodes after which phases are recomputed: balls of products grow by half a bit each."""


@dataclass(frozen=True)
class _RationalContour:
    tilt: Fraction
    smoothing: Fraction
    period: Fraction
    nodes: int


def finite_delta(mechanism: Finite, reports: int, epsilon: Fraction, enough: Fraction, fineness: float) -> Enclosure:
    """Bound δ(`epsilon`) of `reports` reports; a smaller `fineness` is tighter: its relative error is about its square.

    A value that surely is at most `enough` is not refined. Dummies are counted among the reports: none of their
    probabilities is below the blanket's. The lower end is 0.
    """
    with precision(_BITS):
        if bool(ball(epsilon).exp() >= ball(mechanism.neighbor_ratio)):
            return Enclosure(arb(0), arb(0), 0)
        upper, terms, power = arb(0), 0, ball(epsilon).exp()
        sums = [_Sum(points, reports, power) for points in neighbors_points(mechanism)]
        # Start with the pair that probably has the largest δ: its integral may make the others unnecessary.
        for each in sorted(sums, key=lambda one: -one.estimate):
            ceiling = each.chernoff()
            terms += len(each.masses)
            if not bool(ceiling <= upper) and not bool(ceiling <= ball(enough)):
                found, summed = each.bound(fineness)
                terms, ceiling = terms + summed, ceiling.min(found)
            upper = upper.max(ceiling)
        return Enclosure(arb(0), upper, terms)


def neighbors_points(mechanism: Finite) -> list[Points]:
    """Return the points of every two neighbors, each set of points once; equal laws have none."""
    found: dict[Points, None] = {}
    for x, other in mechanism.neighboring:
        if mechanism.law[x] == mechanism.law[other]:
            continue
        masses: defaultdict[tuple[Fraction, Fraction], Fraction] = defaultdict(Fraction)
        for first, second, mass in zip(mechanism.law[x], mechanism.law[other], mechanism.masses, strict=True):
            if mass > 0:
                masses[first / mass, second / mass] += mass
        found[tuple(sorted((first, second, mass) for (first, second), mass in masses.items()))] = None
    return list(found)


class _Sum:
    """Two neighbors, a batch and e^ε."""

    def __init__(self, points: Points, reports: int, power: arb) -> None:
        self._reports = reports
        self._values = [ball(first) - power * ball(second) for first, second, _ in points]
        self.masses = [mass for _, _, mass in points]
        self._rest = ball(1 - sum(self.masses, Fraction(0)))
        near = float(power.mid())
        self._near = [(float(first) - near * float(second), float(mass)) for first, second, mass in points]
        self._tilt = self._saddle()
        self.estimate = self._log_size(self._tilt, 0.0) - math.log(self._tilt)

    def chernoff(self) -> arb:
        """Return an upper bound of δ: x₊ ≤ e^{θx}/(eθ)."""
        tilt = ball(Fraction(self._tilt))
        moment = sum(self._tilted(tilt), self._rest)
        return moment**self._reports / (tilt * arb(1).exp() * self._reports)

    def bound(self, fineness: float) -> tuple[arb, int]:
        """Return an upper bound of δ, and how many summands it took."""
        chosen = self._contour(fineness)
        tilt, smoothing, step = ball(chosen.tilt), ball(chosen.smoothing), 2 * arb.pi() / ball(chosen.period)
        tilted, square = self._tilted(tilt), smoothing * smoothing
        turns = [(acb(0, 1) * step * value).exp() for value in self._values]
        phases: list[acb] = []
        total, largest = arb(0), arb(0)
        for node in range(chosen.nodes + 1):
            if node % _AFRESH == 0:
                phases = [(acb(0, 1) * (step * node) * value).exp() for value in self._values]
            z = acb(tilt, step * node)
            moment = sum((phase * mass for phase, mass in zip(phases, tilted, strict=True)), acb(self._rest))
            term = moment**self._reports * (square * z * z / 2).exp() / (z * z)
            total += term.real * (2 if node else 1)
            if not node:
                largest = term.real * tilt * tilt
            phases = [phase * turn for phase, turn in zip(phases, turns, strict=True)]
        end = step * chosen.nodes
        beyond = largest * (-square * end * end / 2).exp() / (arb.pi() * square * end**3)
        return (total / ball(chosen.period) + beyond) / self._reports, (chosen.nodes + 1) * len(tilted)

    def _tilted(self, tilt: arb) -> list[arb]:
        return [ball(mass) * (tilt * value).exp() for mass, value in zip(self.masses, self._values, strict=True)]

    # In floating point: any choice gives a valid bound, a good one a tight bound.

    def _log_size(self, tilt: float, smoothing: float) -> float:
        inner = math.fsum(mass * math.expm1(tilt * value) for value, mass in self._near)
        return self._reports * math.log1p(max(inner, -1 + 1e-16)) + (smoothing * tilt) ** 2 / 2

    def _saddle(self) -> float:
        """Return roughly the θ that minimizes M(θ)ⁿ/θ², by golden section in ln θ."""
        top = 500.0 / max(abs(value) for value, _ in self._near)
        low, high, ratio = math.log(top) - 40, math.log(top), (math.sqrt(5) - 1) / 2

        def size(at: float) -> float:
            return self._log_size(math.exp(at), 0.0) - 2 * at

        while high - low > 0.01:
            left, right = high - ratio * (high - low), low + ratio * (high - low)
            low, high = (low, right) if size(left) < size(right) else (left, high)
        return math.exp(low)

    def _contour(self, fineness: float) -> _RationalContour:
        tilt = self._tilt
        smoothing = fineness / tilt
        here = self._log_size(tilt, smoothing)
        behind = max(0.0, -here) + _ALIAS
        larger = [tilt * (1 + 0.02 * 1.13**place) for place in range(60)]
        top = 600.0 / max(abs(value) for value, _ in self._near)
        ahead = [
            (self._log_size(s, smoothing) - here + _ALIAS + 4) / (s - tilt) for s in larger if s < max(top, 1.5 * tilt)
        ]
        period = max((behind + math.log1p(behind)) / tilt, min(ahead))
        nodes = math.ceil(_CUT / smoothing * period / (2 * math.pi))
        return _RationalContour(Fraction(tilt), Fraction(smoothing), Fraction(period), nodes)
