"""Computes exactly the hockey-stick divergence of the answers 0 and 1 under Gaussian noise, and an attack on a batch.

δ(ε) = Φ(1/(2σ) − εσ) − e^ε·Φ(−1/(2σ) − εσ) (Balle and Wang, 2018, Thm 8, at sensitivity 1).

The attack: n − 1 people answer 0, and the victim 1 or 0. Some report exceeds a place t with the probability P_t if the
victim answers 1, else Q_t. No ε is valid with P_t > e^ε·Q_t + δ. With q the chance of one report of the answer 0, and p
of the answer 1, P_t = 1 − (1 − p)(1 − q)^(n−1) ≥ 1 − (1 − p)·e^(−(n−1)q), and Q_t ≤ nq.
"""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import erfc, exp, expm1, inf, log, sqrt, ulp

from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import Gaussian, exp_decimal
from hubbub.accountant.mechanisms.exact import PRECISE
from hubbub.accountant.mechanisms.gaussian import normal_below
from hubbub.accountant.numbers import fraction_down, fraction_up

EPSILON_LIMIT = 100.0
"""Largest ε that is tried, as there is no local one."""

_DEEPEST = -40
"""From here Φ is below e^−800, less than the smallest positive double, which is the result there."""

_PAD = Fraction(1, 10**60)

_PLACES = 400
"""How many places t are compared; the best one is computed exactly. Any place gives a valid attack."""

_FAR = 37.0
"""Farthest place, in σ beyond either answer: a tail there is a double."""


def gaussian_delta(mechanism: Gaussian, epsilon: float) -> float:
    """Return δ at `epsilon` ≥ 0 of one report, never below the truth and within an ulp of it."""
    sigma = Fraction(mechanism.sigma)
    near, far = 1 / (2 * sigma) - Fraction(epsilon) * sigma, -1 / (2 * sigma) - Fraction(epsilon) * sigma
    # Φ needs z²/4 digits: at a sigma of a million they would not fit into memory.
    if near < _DEEPEST:
        return ulp(0.0)
    # The added term is rounded up and the subtracted one down, so the difference is not below δ.
    above = Fraction(normal_below(near)) * (1 + _PAD)
    below = Fraction(exp_decimal(epsilon)) * Fraction(normal_below(far)) * (1 - _PAD)
    return fraction_up(max(above - below, Fraction(0)))


def gaussian_epsilon(mechanism: Gaussian, delta: float) -> float:
    """Return a checked ε with δ(ε) ≤ `delta` for one report, hardly above the least; 0 only if δ(0) ≤ `delta`.

    Raises OutsideConditions if it would be above 100.
    """
    if gaussian_delta(mechanism, 0.0) <= delta:
        return 0.0
    surely = 1 / (2 * mechanism.sigma**2) + 40 / mechanism.sigma  # there δ is below Φ(−40)
    high = min(EPSILON_LIMIT, surely)
    if gaussian_delta(mechanism, high) > delta:
        raise OutsideConditions(
            f"sigma {mechanism.sigma:g} gives no epsilon up to {EPSILON_LIMIT:g} at delta {delta:g}; raise one of them"
        )
    # Only `high` was checked at every step, so `high` is returned.
    low = 0.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(mechanism, middle) <= delta else (middle, high)
    return high


def exceeding_delta(mechanism: Gaussian, reports: int, epsilon: float) -> float:
    """Return a number that δ(`epsilon`) of a batch is never below, from the event that a report exceeds a place."""
    grown = exp(min(epsilon, 700.0))
    place = _best_place(mechanism, reports, lambda one, both: one - grown * both)
    one, both = _chances(mechanism, reports, place)
    return fraction_down(max(one - Fraction(exp_decimal(epsilon)) * (1 + _PAD) * both, Fraction(0)))


def exceeding_epsilon(mechanism: Gaussian, reports: int, delta: float) -> float:
    """Return a number that ε at `delta` of a batch is never below, from the same event; 0 if it shows nothing."""
    place = _best_place(mechanism, reports, lambda one, both: (one - delta) / both)
    one, both = _chances(mechanism, reports, place)
    ratio = fraction_down((one - Fraction(delta)) / both)
    # A logarithm is wrong by less than an ulp of its size, or of 1.
    return max(0.0, log(ratio) * (1 - 1e-15) - 1e-15) if ratio > 1 else 0.0


def _best_place(mechanism: Gaussian, reports: int, gain: Callable[[float, float], float]) -> Fraction:
    """Return the place of the largest `gain` from about P_t and Q_t, in doubles: nothing rests on them."""
    sigma, best, most = mechanism.sigma, 0.0, -inf
    for step in range(1, _PLACES):
        place = step / _PLACES * (_FAR * sigma)
        one, other = (erfc(z / sigma / sqrt(2)) / 2 for z in (place - 1, place))
        both = reports * other
        if both > 0:
            gained = gain(-expm1(-(reports - 1) * other) * (1 - one) + one, both)
            best, most = (place, gained) if gained > most else (best, most)
    return Fraction(best)


def _chances(mechanism: Gaussian, reports: int, place: Fraction) -> tuple[Fraction, Fraction]:
    """Return a number that P_t is never below, and one that Q_t is never above."""
    sigma = Fraction(mechanism.sigma)
    one, other = (Fraction(normal_below((x - place) / sigma)) for x in (1, 0))
    exponent = PRECISE.multiply(Decimal(reports - 1), normal_below(-place / sigma))
    none = Fraction(PRECISE.exp(-exponent)) * (1 + _PAD)
    return 1 - (1 - one * (1 - _PAD)) * none, reports * other * (1 + _PAD)
