"""The amplification variable of any mechanism that is known (`amplification_variable` says what it is)."""

from __future__ import annotations

from fractions import Fraction

from hubbub.accountant.mechanisms import AnyMechanism, exp_decimal
from hubbub.accountant.pairs.amplification_variable import Amplification
from hubbub.accountant.pairs.registry import pairs_of


def amplification(mechanism: AnyMechanism, epsilon: float) -> Amplification:
    """Return what is known of the amplification variable of `mechanism` at `epsilon` ≥ 0.

    Raises:
        OutsideConditions: places of a batch with randomizers of their own (`mixed`) have no common blanket.
        AccountingError: a mechanism whose variable is not known.
    """
    return pairs_of(mechanism).amplification(Fraction(exp_decimal(epsilon)))
