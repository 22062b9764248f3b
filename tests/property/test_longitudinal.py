"""Strategies of a changing boolean, at random horizons: what costs more, what hides more, what adds up."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.longitudinal.calibrate import level_reports
from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon, Node, Sampled, Strategy, Tree, Vector
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of
from hubbub.accountant.mechanisms.longitudinal.tree import differences


@st.composite
def horizons(draw: st.DrawFn) -> Horizon:
    periods = draw(st.integers(1, 300))
    return Horizon(periods, draw(st.integers(1, min(periods, 12))))


def strategies_of(horizon: Horizon, epsilon_local: float) -> list[Strategy]:
    weight, signed = weight_of(epsilon_local), horizon.changes > 1
    nodes = tuple(Node(2**28 + level, 2**26, signed) for level in range(horizon.levels))
    return [Sampled(horizon, weight), Vector.best(horizon, epsilon_local), Tree(horizon, nodes), Direct(horizon, 2**30)]


@given(horizons(), st.floats(0.01, 12.0), st.data())
def test_later_periods_never_cost_less_and_signs_never_more_than_their_weight(
    horizon: Horizon, epsilon_local: float, data: st.DataObject
) -> None:
    period = data.draw(st.integers(1, horizon.periods))
    for strategy in strategies_of(horizon, epsilon_local):
        assert 0 < strategy.epsilon_local(period) <= strategy.epsilon_local()
        if isinstance(strategy, Sampled | Vector):
            assert strategy.epsilon_local() <= epsilon_local
            assert strategy.epsilon_sign <= epsilon_local


@given(horizons(), st.floats(0.01, 12.0), st.data())
def test_variances_grow_with_the_devices_and_are_largest_where_all_change(
    horizon: Horizon, epsilon_local: float, data: st.DataObject
) -> None:
    period, reports = data.draw(st.integers(1, horizon.periods)), data.draw(st.integers(1, 10**6))
    for strategy in strategies_of(horizon, epsilon_local):
        assert Fraction(0) < strategy.variance(period, reports) < strategy.variance(period, reports + 1)
        assert strategy.variance(period, reports) <= strategy.largest_variance(period, reports)


@given(horizons(), st.floats(0.01, 8.0))
def test_a_vector_tells_more_the_larger_its_weight_and_never_less_than_one_change_kept(
    horizon: Horizon, epsilon_local: float
) -> None:
    vector, sampled = Vector.best(horizon, epsilon_local), Sampled(horizon, weight_of(epsilon_local))
    assert Vector.best(horizon, epsilon_local * 1.5).gap > vector.gap
    assert vector.gap >= sampled.gap / horizon.changes
    assert 0 < vector.gap < 1


@given(horizons(), st.data())
def test_differences_grow_with_the_periods_up_to_two_for_every_change(horizon: Horizon, data: st.DataObject) -> None:
    level, period = data.draw(st.integers(0, horizon.levels - 1)), data.draw(st.integers(1, horizon.periods))
    now, later = differences(horizon, level, period), differences(horizon, level)
    for each in (now, later):
        assert each.singles + each.anything + 2 * each.pairs <= 2 * horizon.changes
        assert each.singles + 2 * each.anything + 2 * each.pairs <= 2 * horizon.changes
    assert now.singles + now.anything + now.pairs <= horizon.nodes(level, period)
    assert now.singles + 2 * now.anything + 2 * now.pairs <= later.singles + 2 * later.anything + 2 * later.pairs


@given(st.integers(1, 20), st.integers(1, 10**9), st.floats(1.0, 60.0))
def test_a_level_is_never_counted_larger_than_everybody(levels: int, reports: int, tail: float) -> None:
    least = level_reports(levels, reports, tail)
    assert 1 <= least <= 1 + (reports - 1) // levels or levels == 1
    assert level_reports(levels, reports, tail + 1) <= least
