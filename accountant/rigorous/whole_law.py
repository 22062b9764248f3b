"""Bounds δ from above in balls by all that others send: of RAPPOR, and of a small finite law.

The bound is that of `divergence.whole_law`: the sum over nodes is an upper bound for any tilt, smoothing and step, and
for any M below the laws of all values. These are chosen in floating point, the laws are built here anew.

At every node v, G_z is the mean of e^{(θ+iv)·V}, V = μ − e^ε μ' over R_z, less its mean 1 − e^ε; β of it is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import acb

from hubbub.accountant.mechanisms import Finite
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, precision

_BITS = 192

_SMOOTHING, _OF_TILT = 0.015, 0.02
"""The added normal's deviation: a share of that of the tilted sum, or over the tilt. Finer than the fast path's."""

_FAR, _APART = 12.0, 6.0
"""An alias is as far away: over the tilt, and in deviations of the tilted sum."""


Points = list[tuple[Fraction, Fraction, Fraction]]
"""(μ, μ', R_z) of reports, without the hidden part of each."""


def whole_delta(hidden: Fraction, laws: Sequence[Points], reports: int, epsilon: Fraction) -> Enclosure:
    """Bound δ(`epsilon`) of two answers of the victim; each other person has one of `laws`. β is `hidden`.

    A batch is a post-processing of the batch without one of the others. Of an even number, one fewer may show less.
    """
    found = _of_all(hidden, laws, reports, epsilon)
    if reports % 2 or reports > _FEW:
        return found
    fewer = _of_all(hidden, laws, reports - 1, epsilon)
    with precision(_BITS):
        return Enclosure(arb(0), found.upper.min(fewer.upper), found.terms + fewer.terms)


def _of_all(hidden: Fraction, laws: Sequence[Points], reports: int, epsilon: Fraction) -> Enclosure:
    with precision(_BITS):
        power = ball(epsilon).exp()
        contour = _AbsoluteContour.of(*_tilt(laws, reports, math.exp(epsilon)))
        upper = arb(0)
        for points in laws:
            upper = upper.max(_bound(points, hidden, reports, power, contour))
        nobody = ball(1 - hidden) ** reports
        return Enclosure(arb(0), upper + nobody, sum(len(points) for points in laws) * contour.nodes)


_FEW = 1000
"""Up to so many reports one fewer is tried, too."""

ROOM = 7
"""(1 − β)ⁿ is to be e^−7 of δ."""

MOST_INPUTS, MOST_VALUES = 12, 48
"""Most inputs of a law that is bounded so, and most values of others over all pairs of answers."""


def is_whole(mechanism: Finite) -> bool:
    """Whether all inputs of the law are listed and few enough, so that the bound is stated for it."""
    inputs = len(mechanism.law)
    return mechanism.blanket is None and inputs <= MOST_INPUTS and mechanism.likelihood_ratio > 1


def finite_whole_delta(mechanism: Finite, reports: int, epsilon: Fraction, delta: Fraction) -> Enclosure | None:
    """Bound δ(`epsilon`), which is about `delta`; None if it is not stated for the law."""
    if not is_whole(mechanism):
        return None
    with precision(_BITS):
        if bool(ball(epsilon).exp() >= ball(mechanism.neighbor_ratio)):
            return Enclosure(arb(0), arb(0), 0)
    nats = math.log(delta.denominator) - math.log(delta.numerator) + ROOM
    rows = [*mechanism.law, *([] if mechanism.dummy is None else [mechanism.dummy])]
    part = _part(rows, min(Fraction(1), Fraction(math.ceil(nats), reports)))
    groups = {frozenset(tuple(law) for law in laws): laws for laws in _pairs(mechanism, rows, part)}
    if sum(len(laws) for laws in groups.values()) > MOST_VALUES:
        return None
    found = [whole_delta(sum(part, Fraction(0)), laws, reports, epsilon) for laws in groups.values()]
    upper = arb(0)
    for each in found:
        upper = upper.max(each.upper)
    return Enclosure(arb(0), upper, sum(each.terms for each in found))


def _part(rows: Sequence[tuple[Fraction, ...]], wanted: Fraction) -> tuple[Fraction, ...]:
    """Return M: outputs that are equally likely in every row, and if these are too few a share of the rest."""
    columns = list(zip(*rows, strict=True))
    silent = sum((column[0] for column in columns if len(set(column)) == 1), Fraction(0))
    rest = sum((min(column) for column in columns if len(set(column)) > 1), Fraction(0))
    share = min(Fraction(1, 2), max(wanted - silent, Fraction(0)) / rest) if rest else Fraction(0)
    return tuple(min(column) * (1 if len(set(column)) == 1 else share) for column in columns)


def _pairs(mechanism: Finite, rows: Sequence[tuple[Fraction, ...]], part: tuple[Fraction, ...]) -> list[list[Points]]:
    found = []
    for x, other in mechanism.neighboring:
        if mechanism.law[x] == mechanism.law[other]:
            continue
        laws = {
            tuple(
                (one - cut, two - cut, mass - cut)
                for one, two, mass, cut in zip(mechanism.law[x], mechanism.law[other], row, part, strict=True)
                if mass > cut
            )
            for row in rows
        }
        found.append([list(law) for law in sorted(laws)])
    return found


@dataclass(frozen=True)
class _AbsoluteContour:
    tilt: Fraction
    smoothing: Fraction
    step: Fraction
    nodes: int

    @classmethod
    def of(cls, tilt: float, spread: float) -> _AbsoluteContour:
        """Choose it for a tilted sum of the deviation `spread`."""
        smoothing, period = max(_SMOOTHING * spread, _OF_TILT / tilt), _FAR / tilt + _APART * spread
        step = 2 * math.pi / period
        return cls(Fraction(tilt), Fraction(smoothing), Fraction(step), math.ceil(_FAR / (smoothing * step)))


def _bound(points: Points, hidden: Fraction, reports: int, power: arb, contour: _AbsoluteContour) -> arb:
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


def _tilt(laws: Sequence[Points], reports: int, power: float) -> tuple[float, float]:
    """Return roughly the best tilt of the worst law, and the deviation of its tilted sum, in floating point."""
    best, found = (1.0, 0.0), -math.inf
    for points in laws:
        masses = [float(mass) for _, _, mass in points]
        values = [float((a - Fraction(power) * b) / mass) - (1 - power) for a, b, mass in points]
        largest = max(abs(value) for value in values)
        if largest == 0:
            continue
        top = 300.0 / largest

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
