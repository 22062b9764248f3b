"""Bounds δ of RAPPOR from above in balls: by all that the others send, and by the counts of its blanket.

`whole_law_delta` is the one, `rappor_delta` the other.

A report has the bit of the victim's first value alone, that of the second alone, both, or neither, with masses p, p, b
and r under the blanket (`RAPPOR.kinds`), and relative densities (E, 1), (1, E), (E, E), (1, 1). With N₁ … N₄ such
reports, S = N₁ + N₂ and f = e^ε the bound (1/n)·E[(ΣY)₊] of balle-2019, Lemma 5.3 reads

    δ(ε) ≤ (E−1)(1+f)/n · E[(N₁ − t)₊],    t = βS + α(S + N₄ + E·N₃),    α = (f−1)/((E−1)(1+f)),    β = f/(1+f),

which is kRR's (`blanket`) except for the weight E of reports with both bits. S ~ B(n, 2p), N₁ given S is B(S, ½), N₃
given S is B(n − S, b/(1−2p)), and N₄ given both is B(n − S − N₃, r/(1−2p−b)).

* Given s and k = N₃, the expectation is convex in N₄ and falls: chords over a few nodes are above it.
* Given s, its mean f(k) over N₄ is convex in k and falls, too: going from k to k + 1 turns one X, the weight 0 or 1 of
  one of the others, into E ≥ 1 ≥ X. The second difference is E[g(z + 2E) − g(z+E+X) − g(z+E+X') + g(z+X+X')], g convex:
  the outer two places have the same sum as the inner two and are further apart, so it is not negative. Chords again.
* S runs through a window. Outside it ΣY ≤ (E−1)·N₁, and E[N₁·1(S ∉ W)] = np·P(1 + B(n−1, 2p) ∉ W): Chernoff bounds it.
* α, αE and β are rounded down, which lowers t and so raises the summands.

Nothing here bounds δ from below, so a claim is proven or left open, never refuted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from flint import acb

from hubbub.accountant.mechanisms import RAPPOR
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, binomial_mass, cut, precision, window
from hubbub.accountant.rigorous.blanket import spread_nodes
from hubbub.accountant.rigorous.tails import BinomialTail, Excess

_SPARE = 30.0
"""Windows leave out e^−30 of the δ in question."""


def rappor_delta(mechanism: RAPPOR, reports: int, epsilon: Fraction, delta: Fraction, nodes: int) -> Enclosure:
    """Bound δ(`epsilon`) of `reports` reports; `delta` is roughly the δ to compare with, more `nodes` are finer.

    Dummies are counted among the reports: each is a report of a random value. The lower end is 0.
    """
    nats = math.log(delta.denominator) - math.log(delta.numerator) + _SPARE
    bits = 192 + 2 * int(nats)
    with precision(bits):
        if bool(ball(epsilon).exp() >= ball(mechanism.likelihood_ratio)):
            return Enclosure(arb(0), arb(0), 0)
        return _Summed(mechanism, reports, epsilon, bits, nats).bound(nodes)


class _Summed:
    """One mechanism, batch and ε."""

    def __init__(self, mechanism: RAPPOR, reports: int, epsilon: Fraction, bits: int, nats: float) -> None:
        self._reports, self._bits, self._nats = reports, bits, nats
        ratio, factor = mechanism.likelihood_ratio, ball(epsilon).exp()
        (_, _, self._alone), _, (_, _, self._both), (_, _, self._neither) = mechanism.kinds
        self._growth = ball(ratio - 1)
        self._scale = self._growth * (1 + factor) * ball(Fraction(1, reports))
        alpha = (factor - 1) / (self._growth * (1 + factor))
        self._alpha, self._beta, self._weighted = (
            max(int((value.lower() * arb(2) ** bits).floor().fmpz()), 0)
            for value in (alpha, factor / (1 + factor), alpha * ball(ratio))
        )

    def bound(self, nodes: int) -> Enclosure:
        """Sum over S."""
        chance = 2 * self._alone
        low, high = window(self._reports, chance, self._nats)
        rows = self._rows(low, nodes)
        lanes = sum(len(row.lanes) for row in rows)
        mass, odds = binomial_mass(self._reports, low, chance), ball(chance / (1 - chance))
        total = arb(0)
        for s in range(low, high + 1):
            total += mass * _chords([(row.node, row.value(), row.beyond()) for row in rows])
            if s == high:
                break
            mass = mass * (self._reports - s) / (s + 1) * odds
            # A row of more reports than are left has no law; values beyond the remaining rows count at the last one.
            rows = [row for row in rows if row.node < self._reports - s]
            for row in rows:
                row.step()
        lost = cut(self._reports - 1, chance, low - 1, high - 1)
        upper = self._scale * total * arb(2) ** -self._bits + self._growth * ball(self._alone) * lost
        return Enclosure(arb(0), upper, (high - low + 1) * lanes)

    def _rows(self, low: int, nodes: int) -> list[_RapporRow]:
        """Return a row of lanes for every node of N₃, with its law given S = `low`."""
        left, rest = self._reports - low, 1 - 2 * self._alone
        places = [0] if self._both == 0 else spread_nodes(self._reports, self._both, max(nodes // 2, 2), self._nats)
        others = spread_nodes(self._reports, self._neither, nodes, self._nats)
        rows = []
        for place in places:
            if place > left:
                break
            law = None if self._both == 0 else BinomialTail(self._both / rest, left, place)
            lanes = [
                _RapporLane(
                    other,
                    Excess(self._bits, self._weighted * place + self._alpha * other, self._alpha + self._beta, low),
                    BinomialTail(self._neither / (rest - self._both), left - place, other),
                )
                for other in others
            ]
            rows.append(_RapporRow(place, law, lanes))
        return rows


class _RapporLane:
    """One node of N₄ given N₃: E[(N₁ − t)₊] at the node, and the law of N₄, both given S."""

    def __init__(self, node: int, excess: Excess, law: BinomialTail) -> None:
        self.node, self._excess, self._law = node, excess, law

    def step(self) -> None:
        """Go to the next s: one other report fewer."""
        self._excess.step()
        self._law.drop()

    def seen(self) -> tuple[int, arb, arb]:
        """Return (node, value times 2^bits, E[(N₄ − node)₊])."""
        return self.node, self._excess.value(), self._law.excess()


class _RapporRow:
    """One node of N₃: its lanes, and the law of N₃ given S; None if no report ever has both bits."""

    def __init__(self, node: int, law: BinomialTail | None, lanes: list[_RapporLane]) -> None:
        self.node, self.lanes, self._law = node, lanes, law

    def step(self) -> None:
        """Go to the next s."""
        for lane in self.lanes:
            lane.step()
        if self._law is not None:
            self._law.drop()

    def value(self) -> arb:
        """Return an upper bound of the mean over N₄, times 2^bits."""
        return _chords([lane.seen() for lane in self.lanes])

    def beyond(self) -> arb:
        """Return E[(N₃ − node)₊]."""
        return arb(0) if self._law is None else self._law.excess()


def _chords(places: Sequence[tuple[int, arb, arb]]) -> arb:
    """Return an upper bound of E[v(N)] from (node, v(node), E[(N − node)₊]), v convex and falling.

    It uses chords, flat after the last node.
    """
    total, before = arb(0), arb(1)
    for i in range(len(places) - 1):
        (node, value, beyond), (following, _, left) = places[i], places[i + 1]
        part = (beyond - left) / (following - node)
        total += value * (before - part)
        before = part
    return total + places[-1][1] * before


_BITS = 192

_SMOOTHING, _OF_TILT = 0.015, 0.02
"""The added normal's deviation: a share of that of the tilted sum, or over the tilt. Finer than the fast path's."""

_FAR, _APART = 12.0, 6.0
"""An alias is as far away: over the tilt, and in deviations of the tilted sum."""


def whole_law_delta(mechanism: RAPPOR, reports: int, epsilon: Fraction) -> Enclosure:
    """Bound δ(`epsilon`) of `reports` reports by all that the others send; dummies are among them.

    A report is hidden if neither bit of the victim's two values is set, with the chance β = (1 − p₁)(1 − p₀) of a
    victim's report. For each value z that the others may have, the laws of three bits give V = μ − e^ε μ' over R_z,
    less its mean 1 − e^ε. At every node v, G_z is the mean of e^{(θ+iv)·V}, and the hidden part of it is β. The sum of
    `divergence.whole_law` is an upper bound for any tilt, smoothing and step; they are chosen in floating point.
    """
    with precision(_BITS):
        if bool(ball(epsilon).exp() >= ball(mechanism.likelihood_ratio)):
            return Enclosure(arb(0), arb(0), 0)
        hidden, laws = _laws(mechanism)
        power = ball(epsilon).exp()
        contour = _AbsoluteContour.of(*_tilt(laws, reports, math.exp(epsilon)))
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
