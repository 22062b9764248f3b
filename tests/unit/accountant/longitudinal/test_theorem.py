"""The paper's Thm 6 covers the strategy it is about."""

from __future__ import annotations

import math

import pytest

from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.longitudinal.theorem import theorem_6
from hubbub.accountant.mechanisms.longitudinal import Horizon, Sampled
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of


@pytest.mark.parametrize("horizon", [Horizon(2, 1), Horizon(3, 2), Horizon(64, 4), Horizon(1024, 1)], ids=str)
@pytest.mark.parametrize("epsilon_local", [0.1, 1.0])
def test_it_covers_hoeffdings_bound_on_the_printed_coin(horizon: Horizon, epsilon_local: float) -> None:
    # The printed coin at ε is ours at ε/2.
    scale = float(Sampled(horizon, weight_of(epsilon_local / 2)).scale)
    for reports, failure in ((1, 1 / 3), (10**6, 1 / 3), (10**6, 1e-6)):
        hoeffding = scale * math.sqrt(2 * reports * math.log(2 * horizon.periods / failure))
        assert theorem_6(horizon, epsilon_local, reports, failure) >= hoeffding * (1 - 1e-8)


def test_it_is_not_given_outside_its_conditions() -> None:
    with pytest.raises(OutsideConditions, match="asks for at most 1"):
        theorem_6(Horizon(4, 1), 1.1, 100)
    with pytest.raises(OutsideConditions, match="periods is 1"):
        theorem_6(Horizon(1, 1), 1.0, 100)
    with pytest.raises(AccountingError, match="give numbers above 0, failure below 1"):
        theorem_6(Horizon(4, 1), 1.0, 100, 1.0)
