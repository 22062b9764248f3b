"""Strategies of a changing boolean, at random horizons: what costs more, what hides more, what adds up."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.mechanisms.longitudinal import (
    Direct,
    Horizon,
    Node,
    Sampled,
    Strategy,
    Tree,
    Vector,
    level_people,
)
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of
from hubbub.accountant.mechanisms.longitudinal.tree import units


@st.composite
def horizons(draw: st.DrawFn) -> Horizon:
    periods = draw(st.integers(1, 300))
    return Horizon(periods, draw(st.integers(1, min(periods, 12))))


def strategies_of(horizon: Horizon, epsilon_local: float) -> list[Strategy]:
    weight, signed = weight_of(epsilon_local), horizon.changes > 1
    tree = Tree(horizon, Node(2**28, 2**26, signed))
    return [Sampled(horizon, weight), Vector.best(horizon, epsilon_local), tree, Direct(horizon, 2**30)]


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
def test_units_grow_with_the_rounds_up_to_two_for_every_change_and_level(horizon: Horizon, data: st.DataObject) -> None:
    rounds = data.draw(st.integers(1, horizon.periods))
    now, later = units(horizon, rounds), units(horizon, horizon.periods)
    assert 1 <= now <= later <= 2 * horizon.changes * horizon.levels
    assert now <= (rounds if horizon.changes == 1 else 2 * rounds)
    assert units(horizon, max(1, rounds - 1)) <= now


@given(st.integers(1, 20), st.integers(1, 10**9), st.floats(1e-30, 0.1))
def test_a_level_is_never_counted_larger_than_everybody(levels: int, reports: int, delta: float) -> None:
    least = level_people(levels, reports, delta)
    assert 1 <= least <= 1 + (reports - 1) // levels or levels == 1
    assert level_people(levels, reports, delta / 2) <= least
