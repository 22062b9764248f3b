"""Properties of composition that hold for any input; brackets are compared, not single ends."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.composition import compose, compose_delta, epsilon_local
from hubbub.accountant.mechanisms import KRR, Generic, Mechanism
from hubbub.accountant.pairs import Part
from support.thoroughness import usually

mechanisms = st.one_of(
    st.builds(KRR.from_local_epsilon, st.sampled_from([3, 4, 17, 1000, 10**6]), st.floats(0.01, 20)),
    st.builds(Generic, st.one_of(st.just(0.0), st.floats(1e-12, 20))),
)
people = st.sampled_from([1, 2, 3, 10, 49, 300, 5000, 10**6, 10**9, 10**12])
rounds = st.sampled_from([1, 2, 3, 17, 1000, 10**6])
deltas = st.sampled_from([0.5, 1e-3, 1e-8, 1e-15])


@settings(max_examples=usually(2, 6), deadline=None)
@given(mechanisms, people, rounds, deltas)
def test_a_bracket_is_finite_ordered_and_at_most_local(
    mechanism: Mechanism, reports: int, times: int, delta: float
) -> None:
    part = Part(mechanism, reports, times)
    bracket = compose([part], delta)
    assert math.isfinite(bracket.epsilon_upper)
    assert 0 <= bracket.epsilon_upper <= epsilon_local([part])
    assert bracket.epsilon_lower is None or bracket.epsilon_lower <= bracket.epsilon_upper


@settings(max_examples=usually(2, 5), deadline=None)
@given(mechanisms, people, st.sampled_from([1, 2, 30, 3000]), deltas)
def test_more_rounds_never_cost_less(mechanism: Mechanism, reports: int, times: int, delta: float) -> None:
    fewer, more = (compose([Part(mechanism, reports, count)], delta) for count in (times, 2 * times))
    assert fewer.epsilon_lower is None or fewer.epsilon_lower <= more.epsilon_upper
    assert more.epsilon_upper <= 2 * times * mechanism.epsilon_local * (1 + 1e-12)


@settings(max_examples=usually(2, 5), deadline=None)
@given(mechanisms, st.sampled_from([2, 60, 5000, 10**8]), st.sampled_from([2, 50]), deltas)
def test_more_people_never_cost_more(mechanism: Mechanism, reports: int, times: int, delta: float) -> None:
    few, many = (compose([Part(mechanism, count, times)], delta) for count in (reports, 3 * reports))
    assert many.epsilon_lower is None or many.epsilon_lower <= few.epsilon_upper


@settings(max_examples=3, deadline=None)
@given(mechanisms, mechanisms, st.sampled_from([2, 300, 10**6]), st.sampled_from([1e-4, 1e-9]))
def test_a_second_query_adds_at_most_basic_composition(
    first: Mechanism, second: Mechanism, reports: int, delta: float
) -> None:
    both = compose([Part(first, reports), Part(second, reports)], delta)
    alone = [compose([Part(each, reports)], delta / 2).epsilon_upper for each in (first, second)]
    assert both.epsilon_upper <= sum(alone) * 1.003 + 1e-12
    lower = compose([Part(first, reports)], delta).epsilon_lower
    assert lower is None or lower <= both.epsilon_upper * (1 + 1e-9)


@settings(max_examples=usually(2, 5), deadline=None)
@given(mechanisms, st.sampled_from([2, 300, 10**6]), st.sampled_from([2, 40]), st.floats(0.01, 0.9))
def test_delta_and_epsilon_agree(mechanism: Mechanism, reports: int, times: int, share: float) -> None:
    part = Part(mechanism, reports, times)
    epsilon = min(share * epsilon_local([part]), 100.0)
    found = compose_delta([part], epsilon)
    assert 0 <= (found.delta_lower or 0) <= found.delta_upper <= 1
    if 1e-25 < found.delta_upper < 0.99:
        assert compose([part], found.delta_upper).epsilon_upper <= epsilon * 1.01 + 1e-9


@settings(max_examples=usually(2, 6), deadline=None)
@given(st.sampled_from([3, 20]), st.floats(0.1, 8), st.sampled_from([2, 60, 3000]), st.sampled_from([1, 100, 10**5]))
def test_dummies_never_hurt(categories: int, local: float, reports: int, dummies: int) -> None:
    mechanism = KRR.from_local_epsilon(categories, local)
    without, with_dummies = (compose([Part(mechanism, reports, 2, count)], 1e-6) for count in (0, dummies))
    assert with_dummies.epsilon_upper <= without.epsilon_upper * 1.01
