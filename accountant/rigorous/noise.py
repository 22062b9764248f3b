"""Encloses δ of one person beside the shuffler's noise in balls, from the law's table of whole numbers alone.

Everybody else's report is known. With w_z = 2^128·P[z], a count c has chance w_(c−1) of z + 1 and w_c of z. Let i be
the count of answer x, j that of x', and S the sum of the ratios of all other symbols' counts (`other_symbols`). With
own and other the chances that the report is one's own answer, and another one, P has own·p_i·q_j + other·q_i·p_j +
other·S·q_i·q_j, and Q has x and x' exchanged. So δ is the mean of f(S), which falls and is convex:

    f(S) = Σ_ij (α·p_i·q_j − β·q_i·p_j − κ·S·q_i·q_j)₊,  α = own − e^ε·other, β = e^ε·own − other, κ = (e^ε − 1)·other.

Where one of the other symbols has its top count, both views are as likely. That adds nothing.

Classes of counts with nearly one ratio are added up. That only lowers δ, by less than 8η in all, if all ratios of a
class are within a share of η of its mean (docs/explanation/accounting-noise-computed.md, "Proof mode"). 8η is charged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log

from hubbub.accountant.mechanisms import KRR, WithNoise
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, precision
from hubbub.accountant.rigorous.other_symbols import MASS_BITS, SUM_BITS, Sums, other_symbols

_ETA = Fraction(1, 2**90)

_BITS = 256

_FEWEST_SUMS, _MOST_SUMS = 8, 512
"""Fewest and most values of S."""

_SUMMANDS = 150_000
"""About how many summands each δ or curve has, if the fewest values of S do not need more."""

Ends = tuple[int, int]
"""Whole numbers, in units of 2^−_BITS, below and above a number."""

View = tuple[int, int, int]
"""Whole numbers that the chances of a class of views are proportional to: under x and under x', and their weight."""


def noise_delta(mechanism: WithNoise, epsilon: Fraction) -> Enclosure:
    """Return δ(`epsilon`) of the pair: the noise, and the randomizer of the victim alone.

    P is the view if the victim has x, Q if x'.
    """
    classes = _classes(mechanism.noise)
    with precision(_BITS):
        low, high = _ends(ball(epsilon).exp())
        doubt = ball(8 * _ETA)
    if mechanism.one_moves:
        upper, lower, terms = (*(_one(mechanism.krr, classes, each) for each in (low, high)), len(classes))
    else:
        upper, lower, terms = _two(mechanism, classes, (low, high))
    with precision(_BITS):
        return Enclosure((ball(lower) - doubt).max(arb(0)), ball(upper) + doubt, terms)


def _one(krr: KRR, classes: Sequence[tuple[int, int]], power: int) -> Fraction:
    """Return δ of one coordinate alone, at an exact e^ε."""
    own, other, whole = _chances(krr)
    alpha, beta = (own << _BITS) - power * other, power * own - (other << _BITS)
    return Fraction(sum(max(0, alpha * p - beta * q) for p, q in classes), whole << (_BITS + TABLE_BITS))


def _two(mechanism: WithNoise, classes: Sequence[tuple[int, int]], powers: Ends) -> tuple[Fraction, Fraction, int]:
    """Return ends of δ of two coordinates beside the other symbols."""
    krr = mechanism.krr
    found = other_symbols(mechanism.noise, krr.categories - 2, _sums(2 * len(classes)))
    order = _RatioSums.of(classes)
    upper = order.delta(krr, found.spread, powers[0])
    lower = order.delta(krr, found.gathered, powers[1]) - Fraction(found.excess, 1 << MASS_BITS)
    return upper, lower, len(classes) * (len(found.spread) + len(found.gathered))


def _sums(each: int) -> int:
    """Return how many values of S are told apart, if each has so many summands, or half of them."""
    return min(_MOST_SUMS, max(_FEWEST_SUMS, 2 * _SUMMANDS // each))


def _chances(krr: KRR) -> tuple[int, int, int]:
    """Return whole numbers: the own answer's chance, another one's, and what they are shares of."""
    whole = krr.truthful.denominator * krr.other.denominator
    return int(krr.truthful * whole), int(krr.other * whole), whole


def _ends(value: arb) -> Ends:
    scaled = value * arb(2) ** _BITS
    return _floor(scaled.lower()), -_floor(-scaled.upper())


def _floor(exact: arb) -> int:
    """Return the largest whole number that is not above a ball without radius."""
    mantissa, exponent = (int(each) for each in exact.man_exp())
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent


@dataclass(frozen=True)
class _RatioSums:
    """The classes that have some q, by rising ratio, sums of the first ones, and p of the rest, which have no q."""

    classes: Sequence[tuple[int, int]]
    sums_p: Sequence[int]
    sums_q: Sequence[int]
    top: int

    @classmethod
    def of(cls, classes: Sequence[tuple[int, int]]) -> _RatioSums:
        kept = sorted((each for each in classes if each[1]), key=lambda each: Fraction(*each))
        sums_p, sums_q = [0], [0]
        for p, q in kept:
            sums_p.append(sums_p[-1] + p)
            sums_q.append(sums_q[-1] + q)
        return cls(kept, sums_p, sums_q, sum(p for p, q in classes if not q))

    def delta(self, krr: KRR, sums: Sums, power: int) -> Fraction:
        """Return the mean of f(S) at an exact e^ε."""
        own, other, whole = _chances(krr)
        alpha, beta = (own << _BITS) - power * other, power * own - (other << _BITS)
        kappa = (power - (1 << _BITS)) * other
        if alpha <= 0:
            return Fraction(0)
        total = sum(mass * self._positive(alpha << SUM_BITS, beta << SUM_BITS, kappa * at) for at, mass in sums if mass)
        return Fraction(total, whole << (_BITS + SUM_BITS + MASS_BITS + 2 * TABLE_BITS))

    def _positive(self, alpha: int, beta: int, shared: int) -> int:
        """Return Σ (α·p·q' − β·q·p' − κ·S·q·q')₊ over two counts: those above 0 have the least ratios of the second."""
        found, above = alpha * self.top * self.sums_q[-1], 0
        taken = [(beta * p + shared * q, q) for p, q in self.classes]
        for p, q in self.classes:
            gain = alpha * p
            while above < len(taken) and gain * taken[above][1] > q * taken[above][0]:
                above += 1
            found += (gain - shared * q) * self.sums_q[above] - beta * q * self.sums_p[above]
        return found


def noise_curve(mechanism: WithNoise, step: Fraction, last: Fraction) -> list[arb]:
    """Return upper ends of δ at 0, step, 2·step, … up to the first that is at most `last`.

    A class counts at the points below the logarithm of its ratio. So each is laid at the last of these, and all are
    summed from the largest down: a point costs one product, not one for each class. Floating point guesses the place,
    and exact numbers decide it; a class whose place they do not decide is compared with each point.
    """
    krr = mechanism.krr
    most = ceil(krr.epsilon_local / step) + 1
    with precision(_BITS):
        powers = [_ends(ball(place * step).exp()) for place in range(most + 1)]
    laid, undecided = [[0, 0] for _ in powers], list[View]()
    width = float(step)
    for p, q, weight in _views(mechanism):
        place = _place(p, q, width, powers)
        if place is None:
            undecided.append((p, q, weight))
        else:
            laid[place][0] += weight * p
            laid[place][1] += weight * q
    whole = _chances(krr)[2] << (MASS_BITS + SUM_BITS + 2 * TABLE_BITS + _BITS)
    ends, p_sum, q_sum = list[arb](), 0, 0
    with precision(_BITS):
        doubt = ball(8 * _ETA)
        for (p, q), (low, _) in zip(reversed(laid), reversed(powers), strict=True):
            p_sum, q_sum = p_sum + p, q_sum + q
            rest = sum(weight * max(0, (p << _BITS) - low * q) for p, q, weight in undecided)
            ends.append((ball(Fraction((p_sum << _BITS) - low * q_sum + rest, whole)) + doubt).upper())
        ends.reverse()
        end = next((place for place, found in enumerate(ends) if bool(found <= ball(last))), most)
    return ends[: end + 1]


def _place(p: int, q: int, step: float, powers: Sequence[Ends]) -> int | None:
    """Return the last of the points 0, step, … below ln(p/q) > 0; None if exact numbers do not decide it."""
    guess, scaled = floor((log(p) - log(q)) / step), p << _BITS
    for place in (guess, guess - 1, guess + 1):
        here = max(0, min(place, len(powers) - 1))
        if powers[here][1] * q < scaled and (here == len(powers) - 1 or powers[here + 1][0] * q >= scaled):
            return here
    return None


def _views(mechanism: WithNoise) -> Iterator[View]:
    """Yield each class of views that is likelier under x than under x', all in one unit."""
    own, other, _ = _chances(mechanism.krr)
    classes = _classes(mechanism.noise)
    if mechanism.one_moves:
        weight = 1 << (MASS_BITS + SUM_BITS + TABLE_BITS)
        yield from ((own * p + other * q, own * q + other * p, weight) for p, q in classes if p > q)
        return
    found = other_symbols(mechanism.noise, mechanism.krr.categories - 2, _sums(len(classes) ** 2)).spread
    order = _RatioSums.of(classes)
    # Nothing but x explains the top count of x.
    top = order.top * order.sums_q[-1]
    yield own * top, other * top, 1 << (MASS_BITS + SUM_BITS)
    for place, (p, q) in enumerate(order.classes):
        for second_p, second_q in order.classes[:place]:
            first, second, both = p * second_q, q * second_p, q * second_q
            if first > second:
                for at, mass in found:
                    shared = other * at * both
                    yield (
                        ((own * first + other * second) << SUM_BITS) + shared,
                        ((own * second + other * first) << SUM_BITS) + shared,
                        mass,
                    )


@lru_cache(maxsize=8)
def _classes(law: NoiseLaw) -> list[tuple[int, int]]:
    """Return the chances of each count c of one symbol, of z + 1 and of z, with classes of one ratio added up."""
    weights = law.weights
    found: list[tuple[int, int, int, int]] = []
    for count in range(len(weights) + 1):
        p = weights[count - 1] if count else 0
        q = weights[count] if count < len(weights) else 0
        # Compared with the class's first member, so that a class never drifts.
        if found and p and q and found[-1][0] and found[-1][1]:
            first_p, first_q, sum_p, sum_q = found[-1]
            if abs(p * first_q - q * first_p) * 4 * _ETA.denominator <= first_p * q:
                found[-1] = (first_p, first_q, sum_p + p, sum_q + q)
                continue
        found.append((p, q, p, q))
    return [(p, q) for _, _, p, q in found]
