"""Encloses δ of one person beside the shuffler's noise in balls, from the law's table of whole numbers alone.

Everybody else's report is known. With w_z = 2^128·P[z], a count c has chance w_(c−1) of z + 1 and w_c of z. Classes of
counts with nearly one ratio are added up: if all ratios r_c of a class are r(1 ± η), then
|Σ (r_c·Q_c − x·Q_c)₊ − (P − x·Q)₊| ≤ 2η·P, as y ↦ y₊ is 1-Lipschitz. Two counts of a pair of classes have ratios within
2η + η² of their product's, and mixing with the victim's randomizer only contracts: so 8η in all is charged for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log
from operator import itemgetter

from hubbub.accountant.mechanisms import WithNoise
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, precision

_ETA = Fraction(1, 2**90)

_BITS = 256


def noise_delta(mechanism: WithNoise, epsilon: Fraction) -> Enclosure:
    """Return δ(`epsilon`) of the pair: the noise, and the randomizer of the victim alone.

    P is the view if the victim has x, Q if x'. The victim's report is x' with `other`, and x with `truthful`, under x.
    """
    krr = mechanism.krr
    sums = _views(mechanism.noise, mechanism.one_moves)
    with precision(_BITS):
        power, total = ball(epsilon).exp(), arb(0)
        own, flipped = ball(krr.truthful), ball(krr.other)
        for first, second in sums:
            p, q = own * ball(first) + flipped * ball(second), own * ball(second) + flipped * ball(first)
            total += (p - power * q).max(arb(0))
        # Neither x nor x': that is told, and as likely under both, so it adds (1 − e^ε)₊ = 0 for ε ≥ 0.
        doubt = ball(8 * _ETA)
        return Enclosure((total - doubt).max(arb(0)), total + doubt, len(sums))


def noise_curve(mechanism: WithNoise, step: Fraction, last: Fraction) -> list[arb]:
    """Return upper ends of δ at 0, step, 2·step, … up to the first that is at most `last`.

    A class counts at the points below the logarithm of its ratio. So each is laid at the last of these, and all are
    summed from the largest down: a point costs one product, not one for each class. Floating point guesses the place,
    and balls decide it; a class whose place they do not decide is compared with each point.
    """
    krr = mechanism.krr
    own, flipped = krr.truthful, krr.other
    most, laid = ceil(krr.epsilon_local / step) + 1, list[tuple[Fraction, Fraction, int]]()
    undecided = list[tuple[arb, arb]]()
    with precision(_BITS):
        powers = [ball(place * step).exp() for place in range(most + 1)]
        for first, second in _views(mechanism.noise, mechanism.one_moves):
            p, q = own * first + flipped * second, own * second + flipped * first
            if p > q:
                place = _place(p, q, step, powers)
                if place is None:
                    undecided.append((ball(p), ball(q)))
                else:
                    laid.append((p, q, place))
        laid.sort(key=itemgetter(2))
        ends, p_sum, q_sum, doubt = list[arb](), Fraction(0), Fraction(0), ball(8 * _ETA)
        for place in reversed(range(most + 1)):
            while laid and laid[-1][2] >= place:
                p, q, _ = laid.pop()
                p_sum, q_sum = p_sum + p, q_sum + q
            rest = sum(((p - powers[place] * q).max(arb(0)) for p, q in undecided), arb(0))
            ends.append((ball(p_sum) - powers[place] * ball(q_sum) + rest + doubt).upper())
        ends.reverse()
        end = next((place for place, found in enumerate(ends) if bool(found <= ball(last))), most)
    return ends[: end + 1]


def _place(p: Fraction, q: Fraction, step: Fraction, powers: Sequence[arb]) -> int | None:
    """Return the last of the points 0, step, … below ln(p/q) > 0; None if balls do not decide it."""
    guess = floor((log(p) - log(q)) / step)
    for place in (guess, guess - 1, guess + 1):
        here = max(0, min(place, len(powers) - 1))
        if bool(powers[here] * ball(q) < ball(p)) and (
            here == len(powers) - 1 or bool(powers[here + 1] * ball(q) >= ball(p))
        ):
            return here
    return None


@lru_cache(maxsize=8)
def _views(law: NoiseLaw, one_moves: bool) -> list[tuple[Fraction, Fraction]]:
    """Return the chances of what is seen for report x, and for report x', by class."""
    classes = _classes(law)
    if one_moves:
        return classes
    return [(p * other_q, q * other_p) for p, q in classes for other_p, other_q in classes]


def _classes(law: NoiseLaw) -> list[tuple[Fraction, Fraction]]:
    """Return the chances of each count c of one symbol, of z + 1 and of z, with classes of one ratio added up."""
    weights, whole = law.weights, 1 << TABLE_BITS
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
    return [(Fraction(p, whole), Fraction(q, whole)) for _, _, p, q in found]
