import math

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.composition import compose, compose_delta
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import Part


def test_a_hundred_thousand_rounds_of_any_randomizer_reach_the_goal() -> None:
    assert compose([Part(Generic(0.5), 10**6, 10**5)], 1e-8).epsilon_upper <= 0.91


def test_a_hundred_thousand_rounds_of_binary_response_reach_the_goal() -> None:
    bracket = compose([Part(KRR.from_local_epsilon(2, 0.5), 10**6, 10**5)], 1e-8)
    assert bracket.epsilon_lower is not None
    assert 0.80 <= bracket.epsilon_lower <= 0.8065
    assert 0.806 <= bracket.epsilon_upper <= 0.82


def test_one_round_of_one_query_is_the_one_round_bound() -> None:
    mechanism = KRR.from_local_epsilon(16, 4.0)
    assert compose([Part(mechanism, 10000)], 1e-6) == epsilon_bracket(mechanism, 10000, 1e-6)


def test_the_order_and_the_grouping_of_parts_do_not_matter() -> None:
    first, second = Part(Generic(1.0), 5000), Part(KRR.from_local_epsilon(5, 2.0), 5000)
    grouped = compose([Part(first.mechanism, 5000, 2), second], 1e-6).epsilon_upper
    assert compose([first, second, first], 1e-6).epsilon_upper == grouped
    assert compose([second, first, first], 1e-6).epsilon_upper == pytest.approx(grouped, rel=1e-6)


def test_two_queries_cost_more_than_each_and_less_than_their_sum() -> None:
    parts = [Part(KRR.from_local_epsilon(16, 4.0), 18000), Part(KRR.from_local_epsilon(20, 4.0), 18000)]
    both = compose(parts, 1e-6)
    each = [compose([part], 1e-6).epsilon_upper for part in parts]
    assert max(each) < both.epsilon_upper < 0.8 * sum(each)
    assert both.numerical_slack < 1e-3


def test_tiny_delta_keeps_its_relative_accuracy() -> None:
    part = Part(KRR.from_local_epsilon(4, 1.0), 10**6, 10)
    epsilon = compose([part], 1e-15).epsilon_upper
    bracket = compose_delta([part], epsilon)
    assert 0.9e-15 <= bracket.delta_upper <= 1.001e-15
    assert bracket.delta_lower is not None
    assert 0.9 <= bracket.delta_lower / bracket.delta_upper <= 1


def test_epsilon_falls_faster_than_the_root_up_to_a_trillion_people() -> None:
    few, many = (compose([Part(Generic(1.0), reports, 4)], 1e-9).epsilon_upper for reports in (10**8, 10**12))
    assert 100 <= few / many <= 160


def test_a_round_without_information_costs_nothing() -> None:
    bracket = compose([Part(KRR.from_local_epsilon(5, 0.0), 10, 1000)], 1e-9)
    assert bracket.epsilon_upper == 0.0


def test_zero_is_returned_only_where_delta_at_zero_is_reached() -> None:
    part = Part(KRR.from_local_epsilon(3, 1.0), 50, 2)
    at_zero = compose_delta([part], 0.0)
    assert at_zero.delta_lower is not None
    assert compose([part], min(0.99, at_zero.delta_upper * 1.05)).epsilon_upper == 0.0
    assert compose([part], at_zero.delta_lower * 0.9).epsilon_upper > 0.0


def test_with_hardly_a_blanket_the_local_sum_answers() -> None:
    bracket = compose([Part(KRR.from_local_epsilon(16, 20.0), 1000, 10)], 1e-6)
    assert bracket.epsilon_upper <= 200.0000001
    assert math.isfinite(bracket.epsilon_upper)


def test_subsampling_amplifies_every_round() -> None:
    mechanism = KRR.from_local_epsilon(4, 2.0)
    plain, sampled = (compose([Part(mechanism, 1000, 5, clients=count)], 1e-6) for count in (None, 10000))
    assert sampled.epsilon_upper < 0.2 * plain.epsilon_upper


def test_subsampling_everyone_is_no_subsampling() -> None:
    mechanism = KRR.from_local_epsilon(4, 2.0)
    plain, sampled = (compose([Part(mechanism, 1000, 5, clients=count)], 1e-6) for count in (None, 1000))
    assert sampled.epsilon_upper == pytest.approx(plain.epsilon_upper, rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan, math.inf])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(AccountingError, match="delta"):
        compose([Part(Generic(1.0), 100)], delta)


def test_no_parts_are_refused() -> None:
    with pytest.raises(AccountingError, match="parts is empty"):
        compose([], 1e-6)


@pytest.mark.parametrize(
    ("field", "value"), [("reports", 0), ("rounds", 0), ("rounds", 10**8), ("dummies", -1), ("clients", 5)]
)
def test_numbers_out_of_range_are_refused(field: str, value: int) -> None:
    values = {"reports": 10} | {field: value}
    with pytest.raises(AccountingError, match=field):
        Part(KRR.from_local_epsilon(3, 1.0), **values)  # type: ignore[arg-type]


def test_subsampling_of_a_generic_randomizer_is_refused() -> None:
    with pytest.raises(OutsideConditions, match="proven for kRR"):
        Part(Generic(1.0), 10, clients=20)
