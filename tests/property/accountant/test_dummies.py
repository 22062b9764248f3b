"""Dummies are a post-processing of the batch without them: no bound is larger beside them, however it is evaluated."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant import (
    KRR,
    RAPPOR,
    Generic,
    Laplace,
    Part,
    compose,
    compose_delta,
    delta_bracket,
    epsilon_bracket,
    rdp_upper,
)
from hubbub.accountant.mechanisms import LocalMechanism
from support.thoroughness import usually

mechanisms = st.one_of(
    st.builds(KRR.from_local_epsilon, st.sampled_from([2, 3, 16, 1000]), st.floats(0.1, 8.0)),
    st.builds(Generic, st.floats(0.1, 6.0)),
    st.builds(RAPPOR.from_local_epsilon, st.sampled_from([2, 4, 50]), st.floats(0.1, 6.0)),
)
people = st.integers(2, 20_000)
few = st.sampled_from([1, 2, 5, 40])


def test_one_dummy_among_ten_thousand_does_not_raise_ten_rounds() -> None:
    krr = KRR(16, Fraction(1, 20))
    without = compose([Part(krr, 10**4, 10)], 1e-6).epsilon_upper
    found = compose([Part(krr, 10**4, 10, dummies=1)], 1e-6)
    assert found.epsilon_upper <= without
    assert 0 <= found.numerical_slack <= 1


@settings(deadline=None, max_examples=usually(2, 10))
@given(mechanisms, people, few)
def test_one_round_is_never_worse_beside_dummies(mechanism: LocalMechanism, reports: int, dummies: int) -> None:
    plain = epsilon_bracket(mechanism, reports, 1e-6)
    found = epsilon_bracket(mechanism, reports, 1e-6, dummies=dummies)
    assert (found.epsilon_lower or 0) <= found.epsilon_upper <= plain.epsilon_upper
    epsilon = plain.epsilon_upper / 2
    at = delta_bracket(mechanism, reports, epsilon, dummies=dummies)
    assert (at.delta_lower or 0) <= at.delta_upper <= delta_bracket(mechanism, reports, epsilon).delta_upper
    assert rdp_upper(mechanism, reports, 4.0, dummies) <= rdp_upper(mechanism, reports, 4.0)


@settings(deadline=None, max_examples=usually(2, 4))
@given(mechanisms, people, few, st.integers(2, 30))
def test_rounds_are_never_worse_beside_dummies(
    mechanism: LocalMechanism, reports: int, dummies: int, rounds: int
) -> None:
    plain, diluted = Part(mechanism, reports, rounds), Part(mechanism, reports, rounds, dummies)
    least = compose([plain], 1e-6).epsilon_upper
    assert compose([diluted], 1e-6).epsilon_upper <= least
    assert compose_delta([diluted], least / 2).delta_upper <= compose_delta([plain], least / 2).delta_upper


@pytest.mark.parametrize("mechanism", [Laplace(2.0), KRR.from_local_epsilon(2, 3.0)])
def test_noise_and_two_values_are_never_worse_beside_one_dummy(mechanism: LocalMechanism) -> None:
    plain = epsilon_bracket(mechanism, 500, 1e-6)
    assert epsilon_bracket(mechanism, 500, 1e-6, dummies=1).epsilon_upper <= plain.epsilon_upper


def test_the_proof_mode_proves_what_holds_without_the_dummies() -> None:
    pytest.importorskip("flint")
    from hubbub.accountant.rigorous.prove import prove

    krr = KRR(16, Fraction(1, 20))
    stated = epsilon_bracket(krr, 2000, 1e-6).epsilon_upper * (1 + 1e-4)
    assert prove(krr, 2000, stated, 1e-6, dummies=1).epsilon <= Fraction(stated) * Fraction(101, 100)
