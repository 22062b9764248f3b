"""Encloses δ of one person beside the shuffler's noise in balls, from the law's table of whole numbers alone.

Everybody else's report is known. With w_z = 2^128·P[z], a count c has chance w_(c−1) of z + 1 and w_c of z. Classes of
counts with nearly one ratio are added up: if all ratios r_c of a class are r(1 ± η), then
|Σ (r_c·Q_c − x·Q_c)₊ − (P − x·Q)₊| ≤ 2η·P, as y ↦ y₊ is 1-Lipschitz. Two counts of a pair of classes have ratios within
2η + η² of their product's, and mixing with the victim's randomizer only contracts: so 8η in all is charged for them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

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
