"""Computes exactly the hockey-stick divergence of the answers 0 and 1 under Gaussian noise.

δ(ε) = Φ(1/(2σ) − εσ) − e^ε·Φ(−1/(2σ) − εσ) (Balle and Wang, 2018, Thm 8, at sensitivity 1).
"""

from fractions import Fraction
from math import ulp

from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import Gaussian, exp_decimal
from hubbub.accountant.mechanisms.gaussian import normal_below
from hubbub.accountant.numbers import fraction_up

EPSILON_LIMIT = 100.0
"""Largest ε that is tried, as there is no local one."""

_DEEPEST = -40
"""From here Φ is below e^−800, less than the smallest positive double, which is the result there."""

_PAD = Fraction(1, 10**60)


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
