"""What longitudinal rounds cost together, against brute force and with batches of different sizes."""

from __future__ import annotations

import pytest

from hubbub.accountant.composition import compose_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.longitudinal.spent import parts_of_horizon, parts_of_round, parts_so_far
from hubbub.accountant.mechanisms import Generic
from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon, Vector
from hubbub.accountant.pairs import Part


def test_direct_composes_every_round_at_its_own_reports() -> None:
    strategy = Direct(Horizon(4, 2), 2**31)
    assert parts_of_horizon(strategy, 100) == (Part(strategy.mechanism, 100, 4),)
    rounds = [{0: 100}, {0: 90}, {0: 100}]
    assert set(parts_so_far(strategy, rounds)) == {Part(strategy.mechanism, 100, 2), Part(strategy.mechanism, 90)}
    assert parts_of_round(strategy, 2, {0: 90}) == (Part(strategy.mechanism, 90),)


def test_signs_are_one_report_at_the_smallest_level() -> None:
    strategy = Vector.best(Horizon(8, 2), 2.0)
    rounds = [{0: 50}, {0: 40, 1: 45}, {0: 60}]
    assert parts_so_far(strategy, rounds) == (Part(Generic(strategy.epsilon_local(3)), 40),)
    assert parts_of_round(strategy, 2, {0: 40, 1: 30, 2: 1}) == (Part(Generic(strategy.epsilon_sign), 30),)
    assert parts_of_horizon(strategy, 77) == (Part(Generic(strategy.epsilon_local()), 77),)


def test_a_missing_level_and_too_many_rounds_are_refused() -> None:
    strategy = Vector.best(Horizon(2, 1), 2.0)
    with pytest.raises(AccountingError, match="must have level 1"):
        parts_so_far(strategy, [{0: 5}, {0: 5}])
    with pytest.raises(AccountingError, match="period is 3"):
        parts_so_far(strategy, [{0: 5, 1: 5}] * 3)


def test_rounds_so_far_cost_no_more_than_the_horizon() -> None:
    strategy = Direct(Horizon(8, 2), 2**31)
    costs = [compose_upper(parts_so_far(strategy, [{0: 1000}] * period), 1e-6) for period in range(1, 9)]
    assert costs == sorted(costs)
    assert costs[-1] == compose_upper(parts_of_horizon(strategy, 1000), 1e-6)
