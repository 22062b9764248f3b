"""Encloses δ of kRR's blanket (balle-2019, Lemma 5.3) in balls, by summing over the counts themselves.

Of M blanket reports, S fell on the victim's two values, N₁ of them on the first: S ~ B(n, 2γ/k), M − S given S is
B(n − S, γ(1−2/k)/(1−2γ/k)), N₁ given S is B(S, ½). With E = e^ε₀ = 1 + k(1−γ)/γ and f = e^ε the lemma reads

    δ(ε) = (E−1)(1+f)/n · E[(N₁ − t)₊],    t = αM + βS,  α = (f−1)/((E−1)(1+f)),  β = f/(1+f).

* Given s and m, E[(N₁ − t)₊] = (j/2)·P(N₁ = j) + (s/2 − t)·P(N₁ ≥ j) with j = ⌈t⌉, exactly.
* It is convex and falls in m. On a few nodes m₀ = 0 < m₁ < … its chords, continued flat beyond the last node, are above
  it; in every (mᵢ, mᵢ₊₁] the tangent at mᵢ₊₁ is below it. Both need only E[(M − mᵢ)₊] and P(M > mᵢ) given s.
* s runs through a window W. Outside it Σ L ≤ (1−γ)k·N₁, and E[S·1(S ∉ W)] = n(2γ/k)·P(1 + B(n−1, 2γ/k) ∉ W). So the
  cut part is at most (1−γ)·P(1 + B(n−1, 2γ/k) ∉ W), which Chernoff bounds.
* α and β are rounded down to whole multiples of 2^−w, so j is exact; E[(N₁ − t)₊] changes by at most as much as t.

From s to s + 1 everything is updated by Pascal's rule (`tails`): only the dependence on m is approximated.

With dummies the number of blankets is m = B + D + 1, B ~ B(n−1, γ), and δ = E[g(m)], g(m) = E[(L₁+…+L_m)₊]/m. g falls
with m, since the mean of m exchangeable draws is a reverse martingale: a bin of B counts at its smallest m, and for the
lower end at the next bin's. g(m) is the same sum for one m, S ~ B(m, 2/k).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, binomial_mass, cut, precision, window
from hubbub.accountant.rigorous.tails import BinomialTail, Excess

_SPARE = 30.0
"""Windows leave out e^−30 of the δ in question."""


@dataclass(frozen=True)
class _BlanketSetting:
    """One mechanism at one ε: f = e^ε, E − 1, and α, β rounded down to whole multiples of 2^−bits."""

    mechanism: KRR
    factor: arb
    growth: arb
    alpha: int
    beta: int
    doubt: arb
    bits: int

    @property
    def confused(self) -> Fraction:
        """Chance that a blanket report falls on one of the victim's two values."""
        return Fraction(2, self.mechanism.categories)


def _setting(mechanism: KRR, epsilon: Fraction, bits: int) -> _BlanketSetting:
    factor, growth = ball(epsilon).exp(), ball(mechanism.likelihood_ratio - 1)
    alpha, beta = (factor - 1) / (growth * (1 + factor)), factor / (1 + factor)
    low = [int((value.lower() * arb(2) ** bits).floor().fmpz()) for value in (alpha, beta)]
    doubt = sum(
        (value.upper() - arb(down) / arb(2) ** bits for value, down in zip((alpha, beta), low, strict=True)), arb(0)
    )
    return _BlanketSetting(mechanism, factor, growth, max(low[0], 0), low[1], doubt, bits)


def blanket_delta(
    mechanism: KRR,
    reports: int,
    epsilon: Fraction,
    delta: Fraction,
    nodes: int,
    dummies: int = 0,
    *,
    only_upper: bool = False,
) -> Enclosure:
    """Enclose δ(`epsilon`) of the blanket; `delta` is roughly the δ to compare with, more `nodes` are finer.

    The lower end is that of the lemma's value; other theorems may prove a smaller δ. With `only_upper` it may be 0.
    """
    nats = math.log(delta.denominator) - math.log(delta.numerator) + _SPARE
    bits = 192 + 2 * int(nats)
    with precision(bits):
        if bool(ball(epsilon).exp() >= ball(mechanism.likelihood_ratio)):
            return Enclosure(arb(0), arb(0), 0)
        setting = _setting(mechanism, epsilon, bits)
        if dummies:
            return _diluted(setting, reports, dummies, nodes, nats)
        return _summed(setting, reports, nodes, nats, only_upper)


def _finished(
    setting: _BlanketSetting, reports: int, ends: tuple[arb, arb], lost: arb, terms: int, share: Fraction = Fraction(1)
) -> Enclosure:
    """Scale the two ends of E[(N₁ − t)₊] to δ, and charge the cut and the rounding of α and β."""
    scale = setting.growth * (1 + setting.factor) * ball(share / reports)
    # α and β were rounded down, so t is too small and E[(N₁ − t)₊] too large: safe for the upper end. For the lower end
    # the error of t is subtracted: M and S are at most n.
    low = scale * (ends[0] - setting.doubt * reports)
    upper = scale * ends[1] + ball(1 - setting.mechanism.gamma) * lost
    return Enclosure(low if bool(low >= 0) else arb(0), upper, terms)


def _summed(setting: _BlanketSetting, reports: int, nodes: int, nats: float, only_upper: bool) -> Enclosure:
    mechanism = setting.mechanism
    chance = setting.confused * mechanism.gamma
    low, high = window(reports, chance, nats)
    lost = cut(reports - 1, chance, low - 1, high - 1)
    if mechanism.categories == 2:
        ends = _expected(Excess(setting.bits, 0, setting.alpha + setting.beta, low), reports, chance, high)
        return _finished(setting, reports, (ends, ends), lost, high - low + 1)
    rest = mechanism.gamma * (1 - setting.confused) / (1 - chance)
    places = spread_nodes(reports, mechanism.gamma, nodes, nats)
    lanes = [_BlanketLane(setting, place, low, rest, reports - low) for place in places]
    mass, odds = binomial_mass(reports, low, chance), ball(chance / (1 - chance))
    lower = upper = arb(0)
    for s in range(low, high + 1):
        values, beyond = [lane.excess.value() for lane in lanes], [lane.beyond() for lane in lanes]
        upper += mass * _chords(lanes, values, beyond)
        if not only_upper:
            lower += mass * _tangents(lanes, values, beyond)
        if s < high:
            mass = mass * (reports - s) / (s + 1) * odds
            for lane in lanes:
                lane.step()
    scale = arb(2) ** -setting.bits
    return _finished(setting, reports, (lower * scale, upper * scale), lost, (high - low + 1) * len(lanes))


def spread_nodes(reports: int, gamma: Fraction, nodes: int, nats: float) -> list[int]:
    """Return nodes for B(n, γ): 0, sparse in the lower tail, dense in the middle; every number if that is as few."""
    mean, deviation = float(reports * gamma), math.sqrt(float(reports * gamma * (1 - gamma)))
    first, last = window(reports, gamma, nats)
    if last - first <= nodes:
        return sorted({0, *range(first, last + 1)})
    last = min(last, math.ceil(mean + 7 * deviation))
    dense = [mean + deviation * (9 * i / (nodes - 1) - 4.5) for i in range(nodes)]
    sparse = [first + (dense[0] - first) * i / 4 for i in range(4)] + [mean + 5.5 * deviation, last]
    return sorted({0, *(min(max(round(place), first), last) for place in dense + sparse)})


class _BlanketLane:
    """One node m, t = αm + βs, and the law of M given s."""

    def __init__(self, setting: _BlanketSetting, node: int, s: int, rest: Fraction, others: int) -> None:
        self.node = node
        self.excess = Excess(setting.bits, setting.alpha * node, setting.beta, s)
        self.fall = ball(setting.alpha)
        self._blankets = BinomialTail(rest, others, node - s)

    def step(self) -> None:
        """Go to the next s."""
        self.excess.step()
        self._blankets.shrink()

    def beyond(self) -> tuple[arb, arb]:
        """Return (E[(M − node)₊], P(M > node)) given s."""
        return self._blankets.excess(), self._blankets.tail - self._blankets.mass


def _chords(lanes: Sequence[_BlanketLane], values: Sequence[arb], beyond: Sequence[tuple[arb, arb]]) -> arb:
    """Return chords over M given s, times 2^bits."""
    upper, before = arb(0), arb(1)
    for i in range(len(lanes) - 1):
        part = (beyond[i][0] - beyond[i + 1][0]) / (lanes[i + 1].node - lanes[i].node)
        upper += values[i] * (before - part)
        before = part
    return upper + values[-1] * before


def _tangents(lanes: Sequence[_BlanketLane], values: Sequence[arb], beyond: Sequence[tuple[arb, arb]]) -> arb:
    """Return tangents over M given s, times 2^bits."""
    lower = arb(0)
    for i in range(len(lanes) - 1):
        short = beyond[i][1] * (lanes[i + 1].node - lanes[i].node) - beyond[i][0] + beyond[i + 1][0]
        lower += values[i + 1] * (beyond[i][1] - beyond[i + 1][1])
        lower += lanes[i + 1].excess.chance() * lanes[i + 1].fall * short
    return lower


def _expected(excess: Excess, trials: int, chance: Fraction, high: int) -> arb:
    """Return E[(N₁ − t)₊] over S ~ B(trials, chance), from the present s of `excess` up to `high`."""
    scale = arb(2) ** -excess.bits
    if chance == 1:
        return excess.value() * scale
    mass, odds = binomial_mass(trials, excess.s, chance), ball(chance / (1 - chance))
    total = mass * excess.value()
    for s in range(excess.s, high):
        mass = mass * (trials - s) / (s + 1) * odds
        excess.step()
        total += mass * excess.value()
    return total * scale


def _diluted(setting: _BlanketSetting, reports: int, dummies: int, bins: int, nats: float) -> Enclosure:
    """Enclose δ = E[g(B + D + 1)] by bins of B."""
    gamma = setting.mechanism.gamma
    low, high = window(reports - 1, gamma, nats)
    edges = sorted({low + (high + 1 - low) * i // bins for i in range(bins + 1)})
    values = [_given(setting, edge + dummies + 1, nats) for edge in edges]
    above = [BinomialTail(gamma, reports - 1, edge).tail for edge in edges]
    lower = upper = arb(0)
    for i in range(len(edges) - 1):
        mass = above[i] - above[i + 1]
        # A bin of a single number is exact from both sides; a wider bin counts at the next bin's start from below.
        last = values[i if edges[i + 1] == edges[i] + 1 else i + 1]
        lower, upper = lower + mass * last.lower, upper + mass * values[i].upper
    upper += above[-1] * values[-1].upper + cut(reports - 1, gamma, low, reports - 1)
    return Enclosure(lower, upper, sum(value.terms for value in values))


def _given(setting: _BlanketSetting, blankets: int, nats: float) -> Enclosure:
    """Enclose g(m) for m = `blankets`."""
    chance = setting.confused
    low, high = window(blankets, chance, nats)
    lost = cut(blankets - 1, chance, low - 1, high - 1)
    # There is one number of blankets only, so M is known and nothing is approximated.
    excess = Excess(setting.bits, setting.alpha * blankets, setting.beta, low)
    ends = _expected(excess, blankets, chance, high)
    # g(m) has the factor 1/m, δ has 1/(γn).
    return _finished(setting, blankets, (ends, ends), lost, high - low + 1, setting.mechanism.gamma)
