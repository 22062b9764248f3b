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
from fractions import Fraction
from itertools import product

from hubbub.accountant.mechanisms import RAPPOR
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, binomial_mass, cut, precision, window
from hubbub.accountant.rigorous.blanket import spread_nodes
from hubbub.accountant.rigorous.tails import BinomialTail, Excess
from hubbub.accountant.rigorous.whole_law import Points, whole_delta

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


def whole_law_delta(mechanism: RAPPOR, reports: int, epsilon: Fraction) -> Enclosure:
    """Bound δ(`epsilon`) of `reports` reports by all that the others send; dummies are among them.

    A report is hidden if neither bit of the victim's two values is set, with the chance β = (1 − p₁)(1 − p₀) of a
    victim's report. For each value z that the others may have, the laws of three bits give V = μ − e^ε μ' over R_z,
    less its mean 1 − e^ε. At every node v, G_z is the mean of e^{(θ+iv)·V}, and the hidden part of it is β. The sum of
    `divergence.whole_law` is an upper bound for any tilt, smoothing and step; they are chosen in floating point.
    """
    with precision(192):
        if bool(ball(epsilon).exp() >= ball(mechanism.likelihood_ratio)):
            return Enclosure(arb(0), arb(0), 0)
    return whole_delta(*_laws(mechanism), reports, epsilon)


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
