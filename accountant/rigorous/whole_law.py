"""Bounds δ of RAPPOR by all that the others send, in balls: the sum of `divergence.whole_law`, from the bits alone.

That sum is an upper bound for any tilt, smoothing and step; they are chosen in floating point. A report is hidden if
neither bit of the victim's two values is set, with the chance β = (1 − p₁)(1 − p₀) of a victim's report. For each value
z that the others may have, the laws of three bits give V = μ − e^ε μ' over R_z, less its mean 1 − e^ε. At every node v,
G_z is the mean of e^{(θ+iv)·V}, and the hidden part of it is β. Nothing here bounds δ from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from flint import acb

from hubbub.accountant.mechanisms import RAPPOR
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, precision

_BITS = 192

_SMOOTHING, _OF_TILT = 0.015, 0.02
"""The added normal's deviation: a share of that of the tilted sum, or over the tilt. Finer than the fast path's."""

_FAR, _APART = 12.0, 6.0
"""An alias is as far away: over the tilt, and in deviations of the tilted sum."""


def whole_law_delta(mechanism: RAPPOR, reports: int, epsilon: Fraction) -> Enclosure:
    """Bound δ(`epsilon`) of `reports` reports, dummies among them: each is a report of a random value."""
    with precision(_BITS):
        if bool(ball(epsilon).exp() >= ball(mechanism.likelihood_ratio)):
            return Enclosure(arb(0), arb(0), 0)
        hidden, laws = _laws(mechanism)
        power = ball(epsilon).exp()
        contour = _Contour.of(*_tilt(laws, reports, math.exp(epsilon)))
        upper = arb(0)
        for points in laws:
            upper = upper.max(_bound(points, hidden, reports, power, contour))
        nobody = ball(1 - hidden) ** reports
        return Enclosure(arb(0), upper + nobody, sum(len(points) for points in laws) * contour.nodes)


Points = list[tuple[Fraction, Fraction, Fraction]]
"""(μ, μ', R_z) of reports, without the hidden part of each."""


def _laws(mechanism: RAPPOR) -> tuple[Fraction, list[Points]]:
    """Return β, and the points of others who have x, x' or a third value."""
    one, other = mechanism.truthful, mechanism.other
    kinds = min(mechanism.categories, 3)
    hidden = (1 - one) * (1 - other)
    # Given that neither bit is set, the third bit of a hidden report is as the victim's.
    found: list[Points] = []
    for z in range(kinds):
        points = []
        for bits in product((0, 1), repeat=kinds):
            first, second, third = (_chance(bits, x, one, other) for x in (0, 1, z))
            kept = hidden * _chance(bits[2:], -1, one, other) if bits[:2] == (0, 0) else Fraction(0)
            if third - kept > 0:
                points.append((first - kept, second - kept, third - kept))
        found.append(points)
    return hidden, found


def _chance(bits: tuple[int, ...], x: int, one: Fraction, other: Fraction) -> Fraction:
    chances = [one if place == x else other for place in range(len(bits))]
    found = Fraction(1)
    for bit, chance in zip(bits, chances, strict=True):
        found *= chance if bit else 1 - chance
    return found


@dataclass(frozen=True)
class _Contour:
    tilt: Fraction
    smoothing: Fraction
    step: Fraction
    nodes: int

    @classmethod
    def of(cls, tilt: float, spread: float) -> _Contour:
        """Choose it for a tilted sum of the deviation `spread`."""
        smoothing, period = max(_SMOOTHING * spread, _OF_TILT / tilt), _FAR / tilt + _APART * spread
        step = 2 * math.pi / period
        return cls(Fraction(tilt), Fraction(smoothing), Fraction(step), math.ceil(_FAR / (smoothing * step)))


def _bound(points: Points, hidden: Fraction, reports: int, power: arb, contour: _Contour) -> arb:
    """Return the sum over nodes, all others alike."""
    even = (reports - 1) // 2 * 2
    theta, smoothing, step = ball(contour.tilt), ball(contour.smoothing), ball(contour.step)
    mean, beta = 1 - power, ball(hidden)
    values = [(ball(first) - power * ball(second)) / ball(mass) - mean for first, second, mass in points]
    masses = [ball(mass) * (theta * value).exp() for value, (_, _, mass) in zip(values, points, strict=True)]
    turns = [(acb(0, 1) * step * value).exp() for value in values]
    phases, total, first = [acb(1)] * len(values), arb(0), arb(0)
    for node in range(contour.nodes + 1):
        if node % 16 == 0:
            phases = [(acb(0, 1) * (step * node) * value).exp() for value in values]
        rest = sum((phase * mass for phase, mass in zip(phases, masses, strict=True)), acb(0))
        inner = _inner(rest, beta, even)
        place = step * node
        if node == 0:
            first = inner
        total += inner * (-((smoothing * place) ** 2) / 2).exp() / (theta**2 + place**2) * (2 if node else 1)
        phases = [phase * turn for phase, turn in zip(phases, turns, strict=True)]
    end = step * contour.nodes
    beyond = first * (-((smoothing * end) ** 2) / 2).exp() / (arb.pi() * smoothing**2 * end**3)
    whole = total * step / (2 * arb.pi()) + beyond
    if even < reports - 1:
        whole *= sum(masses, beta)
    return (whole * (theta * reports * mean + (smoothing * theta) ** 2 / 2).exp()).upper()


def _inner(rest: acb, beta: arb, even: int) -> arb:
    """Return an upper bound of ∫₀¹ β|h + tβ|^N dt, h = `rest` and N = `even`."""
    whole, part = (rest + beta).abs_upper(), rest.abs_upper()
    largest = whole.max(part)
    found = largest**even * beta
    apart = abs(2 * (rest + beta).real - beta)
    if bool(apart > 0):
        chord = largest ** (even + 1) * (whole + part) / ((even + 1) * apart)
        found = found.upper().min(chord.upper())
    return found.upper()


def _tilt(laws: list[Points], reports: int, power: float) -> tuple[float, float]:
    """Return roughly the best tilt of the worst law, and the deviation of its tilted sum, in floating point."""
    best, found = (1.0, 0.0), -math.inf
    for points in laws:
        masses = [float(mass) for _, _, mass in points]
        values = [float((a - Fraction(power) * b) / mass) - (1 - power) for a, b, mass in points]
        top = 300.0 / max(abs(value) for value in values)

        def size_at(log_tilt: float, law: tuple[tuple[float, float], ...]) -> float:
            inner = math.fsum(mass * math.expm1(math.exp(log_tilt) * value) for value, mass in law)
            return reports * (math.log1p(inner) + math.exp(log_tilt) * (1 - power)) - 2 * log_tilt

        law = tuple(zip(values, masses, strict=True))
        low, high, ratio = math.log(top) - 40, math.log(top), (math.sqrt(5) - 1) / 2
        while high - low > 1e-4:
            left, right = high - ratio * (high - low), low + ratio * (high - low)
            low, high = (low, right) if size_at(left, law) < size_at(right, law) else (left, high)
        size, tilt = size_at(low, law), math.exp(low)
        if size > found:
            found, squares = size, (mass * value**2 for value, mass in zip(values, masses, strict=True))
            best = tilt, math.sqrt(reports * sum(squares))
    return best
