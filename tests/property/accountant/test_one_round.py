"""What holds for one round whatever the values: brackets are compared, never single ends."""

from fractions import Fraction
from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import (
    BOUNDS,
    DeltaBracket,
    EpsilonBracket,
    delta_bracket,
    delta_upper,
    epsilon_bracket,
    epsilon_upper,
)
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic, LocalMechanism, Mechanism
from support.thoroughness import usually

many = st.floats(0.31, 12.0).map(lambda exponent: int(10**exponent))
local = st.floats(-3.0, 1.3).map(lambda exponent: 10**exponent)
small = st.floats(-15.0, -0.05).map(lambda exponent: 10**exponent)
mechanisms = st.one_of(
    st.builds(KRR.from_local_epsilon, st.sampled_from([2, 3, 4, 16, 1000, 10**6]), local),
    st.builds(KRR.from_numerator, st.sampled_from([2, 3, 20, 10**6]), st.integers(1, 2**32)),
    st.builds(Generic, local),
    st.builds(RAPPOR.from_local_epsilon, st.sampled_from([2, 3, 50, 10**6]), local),
)
quick = settings(deadline=None, max_examples=usually(5, 15))


def assert_sound(found: EpsilonBracket) -> None:
    assert isfinite(found.epsilon_upper)
    assert found.epsilon_local is not None
    assert 0 <= found.epsilon_upper <= found.epsilon_local
    assert found.epsilon_lower is None or 0 <= found.epsilon_lower <= found.epsilon_upper
    assert 0 <= found.numerical_slack <= 1


def assert_delta_sound(found: DeltaBracket) -> None:
    assert 0 <= found.delta_upper <= 1
    assert found.delta_lower is None or 0 <= found.delta_lower <= found.delta_upper
    assert 0 <= found.numerical_slack <= 1


def not_above(small_side: EpsilonBracket, large_side: EpsilonBracket) -> bool:
    """Whether the first true value can be at most the second: its lower end must not pass the other's upper."""
    lower = small_side.epsilon_upper * (1 - small_side.numerical_slack)
    return lower <= large_side.epsilon_upper * (1 + 1e-12)


@quick
@given(mechanism=mechanisms, reports=many, delta=small)
def test_epsilon_brackets_are_finite_ordered_and_within_the_local_epsilon(
    mechanism: LocalMechanism, reports: int, delta: float
) -> None:
    assert_sound(epsilon_bracket(mechanism, reports, delta))


@quick
@given(mechanism=mechanisms, reports=many, share=st.floats(0, 1.2), dummies=st.sampled_from([0, 0, 7, 10**5]))
def test_delta_brackets_are_finite_and_ordered(
    mechanism: LocalMechanism, reports: int, share: float, dummies: int
) -> None:
    assert_delta_sound(delta_bracket(mechanism, reports, share * mechanism.epsilon_local, dummies=dummies))


@quick
@given(mechanism=mechanisms, reports=many, delta=small)
def test_epsilon_upper_is_confirmed_by_delta(mechanism: LocalMechanism, reports: int, delta: float) -> None:
    upper = epsilon_upper(mechanism, reports, delta)
    assert upper == epsilon_bracket(mechanism, reports, delta).epsilon_upper
    assert delta_bracket(mechanism, reports, upper).delta_upper <= delta * (1 + 0.05)


@quick
@given(mechanism=mechanisms, reports=many, delta=small, growth=st.floats(1.0, 100.0))
def test_more_reports_never_hurt(mechanism: LocalMechanism, reports: int, delta: float, growth: float) -> None:
    more = min(int(reports * growth) + 1, 10**12)
    if more > reports:
        assert not_above(epsilon_bracket(mechanism, more, delta), epsilon_bracket(mechanism, reports, delta))


@quick
@given(mechanism=mechanisms, reports=many, delta=small, factor=st.floats(1.0, 1e4))
def test_a_larger_delta_never_needs_a_larger_epsilon(
    mechanism: LocalMechanism, reports: int, delta: float, factor: float
) -> None:
    larger = min(delta * factor, 0.99)
    assert not_above(
        epsilon_bracket(mechanism, reports, max(larger, delta)), epsilon_bracket(mechanism, reports, delta)
    )


@quick
@given(
    categories=st.sampled_from([2, 3, 16, 10**6]),
    epsilon_local=local,
    reports=many,
    delta=small,
    part=st.floats(0.2, 1),
)
def test_a_smaller_local_epsilon_never_hurts(
    categories: int, epsilon_local: float, reports: int, delta: float, part: float
) -> None:
    less = KRR.from_local_epsilon(categories, epsilon_local * part)
    more = KRR.from_local_epsilon(categories, epsilon_local)
    assert not_above(epsilon_bracket(less, reports, delta), epsilon_bracket(more, reports, delta))


@quick
@given(categories=st.integers(3, 1000), extra=st.integers(1, 1000), epsilon_local=local, reports=many, delta=small)
def test_more_categories_help_at_a_fixed_local_epsilon(
    categories: int, extra: int, epsilon_local: float, reports: int, delta: float
) -> None:
    few = epsilon_bracket(KRR.from_local_epsilon(categories, epsilon_local), reports, delta)
    assert not_above(epsilon_bracket(KRR.from_local_epsilon(categories + extra, epsilon_local), reports, delta), few)


@quick
@given(categories=st.integers(3, 1000), extra=st.integers(1, 1000), w=st.integers(1, 2**32), reports=many, delta=small)
def test_more_categories_hurt_at_a_fixed_gamma(categories: int, extra: int, w: int, reports: int, delta: float) -> None:
    few = epsilon_bracket(KRR.from_numerator(categories, w), reports, delta)
    assert not_above(few, epsilon_bracket(KRR.from_numerator(categories + extra, w), reports, delta))


@settings(deadline=None, max_examples=usually(3, 6))
@given(mechanism=mechanisms, reports=many, delta=small, dummies=st.sampled_from([1, 100, 10**6]))
def test_dummies_never_hurt(mechanism: LocalMechanism, reports: int, delta: float, dummies: int) -> None:
    with_dummies = epsilon_bracket(mechanism, reports, delta, dummies=dummies)
    assert_sound(with_dummies)
    assert not_above(with_dummies, epsilon_bracket(mechanism, reports, delta))


@quick
@given(epsilon_local=local, reports=many, delta=small, categories=st.integers(3, 100))
def test_wider_classes_certify_less(epsilon_local: float, reports: int, delta: float, categories: int) -> None:
    mechanism = KRR.from_local_epsilon(categories, epsilon_local)
    found = [
        epsilon_bracket(mechanism, reports, delta, bound=name) for name in ("blanket", "stronger-clones", "clones")
    ]
    assert not_above(found[0], found[1])
    assert not_above(found[1], found[2])


@settings(deadline=None, max_examples=10)
@given(epsilon_local=local, reports=many, delta=small)
def test_the_blocks_are_tighter_than_the_blanket_for_two_categories(
    epsilon_local: float, reports: int, delta: float
) -> None:
    mechanism = KRR.from_local_epsilon(2, epsilon_local)
    blocks = epsilon_bracket(mechanism, reports, delta, bound="2rr")
    assert not_above(blocks, epsilon_bracket(mechanism, reports, delta, bound="blanket"))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("reports", [2, 10**12])
@pytest.mark.parametrize("categories", [2, 3, 10**6])
@pytest.mark.parametrize("epsilon_local", [1e-9, 0.5, 20.0])
@pytest.mark.parametrize("delta", [1e-15, 0.999])
def test_extremes_have_finite_safe_answers(reports: int, categories: int, epsilon_local: float, delta: float) -> None:
    assert_sound(epsilon_bracket(KRR.from_local_epsilon(categories, epsilon_local), reports, delta))
    for share in (0.0, 1e-9, 0.999999, 1.0):
        assert_delta_sound(
            delta_bracket(KRR.from_local_epsilon(categories, epsilon_local), reports, share * epsilon_local)
        )


@pytest.mark.parametrize("name", [*BOUNDS, "best"])
def test_every_bound_refuses_impossible_numbers(name: str) -> None:
    mechanism = KRR(2 if name == "2rr" else 3, Fraction(1, 2))
    for reports, delta in [(0, 1e-6), (10**14, 1e-6), (2.5, 1e-6), (10, 0.0), (10, 1.0), (10, float("nan"))]:
        with pytest.raises(AccountingError, match=r"; (give|choose) "):
            epsilon_bracket(mechanism, reports, delta, bound=name)  # type: ignore[arg-type]  # wrong types are the point
    for epsilon in (-0.1, float("nan"), float("inf")):
        with pytest.raises(AccountingError, match=r"; (give|choose) "):
            delta_bracket(mechanism, 10, epsilon, bound=name)
        with pytest.raises(AccountingError, match=r"; (give|choose) "):
            delta_upper(mechanism, 10, epsilon, bound=name)


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("blanket", Generic(1.0)),
        ("2rr", KRR(3, Fraction(1, 2))),
        ("2rr", Generic(1.0)),
    ],
)
def test_a_bound_outside_its_conditions_is_an_error(name: str, mechanism: Mechanism) -> None:
    with pytest.raises(OutsideConditions, match="ask for 'best'"):
        epsilon_bracket(mechanism, 100, 1e-6, bound=name)
    with pytest.raises(OutsideConditions, match="ask for 'best'"):
        delta_bracket(mechanism, 100, 0.1, bound=name)
    with pytest.raises(OutsideConditions, match="ask for 'best'"):
        delta_upper(mechanism, 100, 0.1, bound=name)


def test_an_unknown_bound_names_the_known_ones() -> None:
    with pytest.raises(AccountingError, match="blanket, 2rr, stronger-clones"):
        epsilon_bracket(Generic(1.0), 100, 1e-6, bound="magic")


def test_where_nothing_is_amplified_the_local_epsilon_is_returned_by_name() -> None:
    found = epsilon_bracket(KRR.from_local_epsilon(16, 4.0), 2, 1e-6)
    assert (found.epsilon_upper, found.bound) == (4.0, "local")


def test_zero_is_returned_only_where_delta_at_zero_was_shown() -> None:
    mechanism = KRR.from_local_epsilon(4, 1.0)
    at_zero = delta_bracket(mechanism, 1000, 0.0)
    assert epsilon_bracket(mechanism, 1000, at_zero.delta_upper * (1 + 1e-9)).epsilon_upper == 0.0
    assert at_zero.delta_lower is not None
    assert epsilon_bracket(mechanism, 1000, at_zero.delta_lower * 0.99).epsilon_upper > 0.0
