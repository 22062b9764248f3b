"""Computes the paper's own bound on the error of its strategy (erlingsson-2019, Thm 6)."""

from __future__ import annotations

from math import exp, inf, log, sqrt

from hubbub.accountant.errors import AccountingError, OutsideConditions, shown
from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.accountant.numbers import checked_reports, real

FAILURE = 1 / 3
"""The theorem's bound is true with probability 2/3."""

EPSILON_MOST = 1.0
"""The theorem's condition on ε."""


def theorem_6(horizon: Horizon, epsilon_local: float, reports: int, failure: float = FAILURE) -> float:
    """Return a bound on max over t of |f̃_t − f_t| of Alg. 1 and 2, which is true with probability 1 − `failure`.

    It is c·k·ℓ^(3/2)·√(n·ln(2d/β)), c = (e^{ε/2} + 1)/(e^{ε/2} − 1), with ℓ = ⌊log₂ d⌋ + 1 for the printed log₂ d
    (erratum 3). The printed proof bounds nodes; the returned value is valid without it. A device adds at most k·ℓ·c in
    either direction, so by Hoeffding's inequality and a union over d periods k·ℓ·c·√(2n·ln(2d/β)) is enough, and ℓ ≥ 2.

    Raises:
        OutsideConditions: for ε above 1, and for one period, which has no tree.
    """
    if not 0 < real(epsilon_local) < inf or not 0 < real(failure) < 1:
        raise AccountingError(
            f"epsilon_local is {shown(epsilon_local)}, failure {shown(failure)}; give numbers above 0, failure below 1"
        )
    if epsilon_local > EPSILON_MOST:
        raise OutsideConditions(f"epsilon_local is {epsilon_local:g}, but Thm 6 asks for at most 1; lower it")
    if horizon.levels < 2:
        raise OutsideConditions("periods is 1, but Thm 6 needs a tree of at least 2; ask for more periods")
    odds = exp(epsilon_local / 2)
    levels, spread = float(horizon.levels), sqrt(checked_reports(reports) * log(2 * horizon.periods / failure))
    return (odds + 1) / (odds - 1) * horizon.changes * levels * sqrt(levels) * spread
