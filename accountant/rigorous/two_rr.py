"""Encloses δ of binary randomized response in balls: the largest over the others' values, by summing masses.

p = γ/2, f = e^ε, a = (1−p) − fp, b = f(1−p) − p. If z others have 0, o have 1 and there are d fair coins, the number of
ones among them is A = B(z, p) + B(o, 1−p) + B(d, ½), and with the victim's bit the two laws are
P(i) = (1−p)A(i−1) + pA(i), Q(i) = pA(i−1) + (1−p)A(i). So P(i) − fQ(i) = a·A(i−1) − b·A(i).

* A is log-concave, and stays so if each binomial is cut to a window: P(i) − fQ(i) changes its sign once, from − to +,
  and δ = max_c δ(c) = max_c [a·A(c−1) − (f−1)·A({c, …})] is reached between a place that surely has the first sign and
  one that surely has the second. Given A, the victim's own report contributes at most a, so cut mass is charged a times
  itself.
* The other direction (Q against P) is the mirror image, z and o exchanged: so all o from 0 to n − 1 are all cases.
* A block j₀ ≤ o ≤ j₁ is bounded at once. The Δ = j₁ − j₀ people who may have either value toss a fair coin with
  probability γ and answer truthfully otherwise. Show the observer who answered truthfully, and the answers: then
  K ~ B(Δ, γ) fair coins remain, for any values. Leaving coins out never lowers a divergence (balle-2019, Lemma A.2), so
  all but κ are left out, and P(K < κ) is charged with a.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from fractions import Fraction

from flint import arb_poly

from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, binomial_mass, cut, precision, window

_SPARE = 30.0
"""Windows leave out e^−30 of the δ in question."""

_FIRST_BLOCKS = 8
"""Number of blocks at the start of a cover."""


@dataclass(frozen=True)
class _TwoRRSetting:
    """One mechanism at one ε; windows leave out about e^−`nats`."""

    mechanism: KRR
    keep: arb
    lose: arb
    growth: arb
    nats: float


@dataclass(frozen=True)
class _Law:
    """Masses of a whole number from `first` on, and an upper bound of the missing mass."""

    first: int
    masses: list[arb]
    missing: arb


@dataclass(frozen=True)
class Effort:
    """How far a cover is split: up to `terms` summands; if `decisive`, only until the question is decided."""

    terms: int
    decisive: bool = True


def two_rr_delta(
    mechanism: KRR, reports: int, epsilon: Fraction, delta: Fraction, effort: Effort, dummies: int = 0
) -> Enclosure:
    """Enclose the largest δ(`epsilon`) over the others' values.

    The worst block is split first. A decisive cover ends if all blocks are at most `delta`, or one case is above it.
    """
    if mechanism.categories != 2:
        raise OutsideConditions(
            f"categories is {mechanism.categories}, but this bound is for 2; use the blanket for more"
        )
    nats = math.log(delta.denominator) - math.log(delta.numerator) + _SPARE
    with precision(128 + 2 * int(nats)):
        factor = ball(epsilon).exp()
        if bool(factor >= ball(mechanism.likelihood_ratio)):
            return Enclosure(arb(0), arb(0), 0)
        p, q = ball(mechanism.other), ball(mechanism.truthful)
        setting = _TwoRRSetting(mechanism, q - factor * p, factor * q - p, factor - 1, nats)
        cover = _Cover(setting, reports - 1, dummies, ball(delta) if effort.decisive else arb(-1))
        return cover.split_up_to(effort.terms)


class _Cover:
    """Blocks that cover 0 … others; blocks above the target with more than one number wait to be split.

    A few single numbers are tried first, as they refute a false claim quickly.
    """

    def __init__(self, setting: _TwoRRSetting, others: int, dummies: int, target: arb) -> None:
        self._setting, self._others, self._dummies, self._target = setting, others, dummies, target
        self._waiting: list[tuple[float, int, int, arb]] = []
        self._lower = self._upper = arb(0)
        self._terms = 0
        count = min(_FIRST_BLOCKS, others + 1)
        edges = [(others + 1) * i // count for i in range(count + 1)]
        for ones in sorted({0, min(1, others), max(others - 1, 0), others, *edges[:-1]}):
            self._lower = self._found(ones, ones).lower.max(self._lower)
        for i in range(count):
            self._add(edges[i], edges[i + 1] - 1)

    def _found(self, first: int, last: int) -> Enclosure:
        found = _block(self._setting, self._others, (first, last), self._dummies)
        self._terms += found.terms
        return found

    def _add(self, first: int, last: int) -> None:
        found = self._found(first, last)
        if first == last:
            self._lower = found.lower.max(self._lower)
        if first == last or bool(found.upper <= self._target):
            self._upper = found.upper.max(self._upper)
        else:
            heapq.heappush(self._waiting, (-float(found.upper.upper()), first, last, found.upper))

    def _refuted(self) -> bool:
        return bool(self._target >= 0) and bool(self._lower > self._target)

    def split_up_to(self, terms: int) -> Enclosure:
        """Split the worst block repeatedly, and return the enclosure that results."""
        while self._waiting and self._terms < terms and not self._refuted():
            _, first, last, _ = heapq.heappop(self._waiting)
            # The worst block determines the result, so it is split next.
            middle = (first + last) // 2
            self._add(first, middle)
            self._add(middle + 1, last)
        upper = self._upper
        # Blocks that still wait count with their present bound: it is valid, but not tight.
        for *_, value in self._waiting:
            upper = value.max(upper)
        return Enclosure(self._lower, upper, self._terms)


def _block(setting: _TwoRRSetting, others: int, ones: tuple[int, int], dummies: int) -> Enclosure:
    """Enclose δ if first to last of the others have a one; the lower end has a meaning only if both are equal."""
    first, last = ones
    gamma = setting.mechanism.gamma
    # Only coins that almost surely exist are kept. If there are fewer, δ counts as a, the most that a report adds.
    coins = window(last - first, gamma, setting.nats)[0]
    fewer = cut(last - first, gamma, coins, last - first)
    found = _counted(setting, others - last, first, coins + dummies)
    return Enclosure(found.lower, found.upper + setting.keep * fewer, found.terms)


def _counted(setting: _TwoRRSetting, zeros: int, ones: int, coins: int) -> Enclosure:
    """Enclose δ among so many known zeros, known ones and fair coins."""
    mechanism, nats = setting.mechanism, setting.nats
    sides = ((zeros, mechanism.other), (ones, mechanism.truthful), (coins, Fraction(1, 2)))
    law = _sum_law([_binomial(trials, chance, nats) for trials, chance in sides if trials])
    last = law.first + len(law.masses)
    low, high = _crossing(setting, law, law.first, last)
    tail, best, above = arb(0), arb(0), arb(0)
    for place in range(last, low, -1):
        if place < last:
            tail += law.masses[place - law.first]
        if place <= high:
            value = setting.keep * law.masses[place - 1 - law.first] - setting.growth * tail
            best, above = value.max(best), value.max(above)
    # Mass outside the windows counts with a, the most that one report adds.
    charge = law.missing * setting.keep
    return Enclosure(best - law.missing * (1 + setting.growth), above + charge, len(law.masses))


def _crossing(setting: _TwoRRSetting, law: _Law, first: int, last: int) -> tuple[int, int]:
    """Return places c₀ < c₁ with P − fQ surely not above 0 at the first and surely not below 0 at the second."""

    def sign(place: int) -> int:
        before = law.masses[place - 1 - law.first] if place > law.first else arb(0)
        here = law.masses[place - law.first] if place < last else arb(0)
        value = setting.keep * before - setting.lose * here
        return 1 if bool(value >= 0) else -1 if bool(value <= 0) else 0

    ends = []
    for least in (0, 1):
        low, high = first, last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if sign(middle) >= least else (middle, high)
        ends.append((low, high))
    low, high = ends[0][0], ends[1][1]
    return low, high


def _binomial(trials: int, chance: Fraction, nats: float) -> _Law:
    low, high = window(trials, chance, nats)
    mass, odds = binomial_mass(trials, low, chance), ball(chance / (1 - chance))
    masses = [mass]
    for x in range(low, high):
        mass = mass * (trials - x) / (x + 1) * odds
        masses.append(mass)
    return _Law(low, masses, cut(trials, chance, low, high))


def _sum_law(laws: list[_Law]) -> _Law:
    if not laws:
        return _Law(0, [arb(1)], arb(0))
    product = arb_poly(laws[0].masses)
    for law in laws[1:]:
        product = product * arb_poly(law.masses)
    return _Law(sum(law.first for law in laws), list(product.coeffs()), sum((law.missing for law in laws), arb(0)))
