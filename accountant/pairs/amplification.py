"""Returns the amplification variable of any known mechanism (`amplification_variable` defines it)."""

from __future__ import annotations

from fractions import Fraction

from hubbub.accountant.mechanisms import AnyMechanism, exp_decimal
from hubbub.accountant.pairs.amplification_variable import Amplification
from hubbub.accountant.pairs.registry import pairs_of


def amplification(mechanism: AnyMechanism, epsilon: float) -> Amplification:
    """Return the known bounds of the amplification variable of `mechanism` at `epsilon` ≥ 0.

    Raises:
        AccountingError: if the mechanism's variable is not known.
    """
    return pairs_of(mechanism).amplification(Fraction(exp_decimal(epsilon)))
