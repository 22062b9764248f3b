"""Every question in range is answered with a bracket, however extreme: arithmetic's own errors never come out."""

from fractions import Fraction
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant import (
    KRR,
    RAPPOR,
    BeyondArithmetic,
    DeltaBracket,
    EpsilonBracket,
    Gaussian,
    Generic,
    Laplace,
    OutsideConditions,
    Part,
    compose,
    compose_delta,
    delta_bracket,
    epsilon_bracket,
    rdp_lower,
    rdp_upper,
)
from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.mechanisms import AnyMechanism, Hashed, LocalMechanism
from support.thoroughness import usually

ALL_BUT_ONE = Fraction(2**32 - 1, 2**32)

categories = st.sampled_from([2, 2, 3, 16, 2**31])
gammas = st.one_of(
    st.integers(1, 2**32).map(lambda numerator: Fraction(numerator, 2**32)),
    st.sampled_from([Fraction(1, 2**80), Fraction(1, 2**32), Fraction(3, 10), ALL_BUT_ONE, Fraction(1)]),
)
local = st.one_of(st.floats(-20, 1.6).map(lambda power: 10**power), st.sampled_from([1e-20, 1e-9, 1.0, 40.0]))
krr = st.builds(KRR, categories, gammas)
private = st.one_of(
    krr,
    st.builds(Generic, local),
    st.builds(RAPPOR.from_local_epsilon, categories, local),
    st.builds(Laplace, local),
    st.builds(Hashed, st.sampled_from([3, 16, 2**20]), st.just(256), gammas),
)
noisy = st.builds(Gaussian, st.one_of(st.sampled_from([0.05, 1.0, 1e6]), st.floats(0.05, 3.0)))
reports = st.one_of(st.integers(1, 200), st.floats(0, 13).map(lambda power: int(10**power)))
rounds = st.one_of(st.integers(1, 20), st.sampled_from([1, 10**4, 10**7]))
dummies = st.one_of(st.just(0), st.integers(1, 60), st.sampled_from([10**6, 10**13]))
small = st.one_of(st.floats(-100, -0.01).map(lambda power: 10**power), st.sampled_from([1e-100, 1e-30, 1e-6, 0.1, 0.5]))
central = st.one_of(st.floats(0, 4), st.sampled_from([0.0, 1e-12, 30.0, 100.0]))
parts = st.one_of(
    st.builds(Part, private, reports, rounds, dummies),
    st.builds(
        Part, krr, reports, rounds, st.just(0), st.none(), st.fractions(Fraction(1, 10**6), 1, max_denominator=10**6)
    ),
    st.builds(Part, krr, reports, rounds, st.just(0), st.just(10**13)),
)
# The same questions in every run: a change that fails here failed by itself, not by the luck of the draw.
extreme = settings(deadline=None, max_examples=usually(2, 5), derandomize=True)
thorough = settings(deadline=None, max_examples=usually(8, 120), derandomize=True)
dear = settings(deadline=None, max_examples=usually(3, 120), derandomize=True)
costly = settings(deadline=None, max_examples=usually(2, 24), derandomize=True)
"""For what takes seconds, as masses of Gaussian noise do: the whole ends well before a test counts as hanging."""


def epsilon_is_bracketed(found: EpsilonBracket) -> None:
    ceiling = inf if found.epsilon_local is None else found.epsilon_local
    assert 0 <= (found.epsilon_lower or 0.0) <= found.epsilon_upper <= ceiling
    assert found.epsilon_upper < inf


def delta_is_bracketed(found: DeltaBracket) -> None:
    assert 0 <= (found.delta_lower or 0.0) <= found.delta_upper <= 1


def one_round(mechanism: AnyMechanism, people: int, added: int, delta: float, epsilon: float) -> None:
    delta_is_bracketed(delta_bracket(mechanism, people, epsilon, dummies=added))
    try:
        found = epsilon_bracket(mechanism, people, delta, dummies=added)
    except OutsideConditions:
        # The only refusal there is: noise too small for any ε that a person could rely on.
        if isinstance(mechanism, Gaussian):
            return
        raise
    epsilon_is_bracketed(found)


def renyi(mechanism: LocalMechanism, people: int, added: int, order: float) -> None:
    assert 0 <= (rdp_lower(mechanism, people, order, added) or 0.0) <= rdp_upper(mechanism, people, order, added)


def composed(several: list[Part], delta: float, epsilon: float) -> None:
    epsilon_is_bracketed(compose(several, delta))
    delta_is_bracketed(compose_delta(several, epsilon))


@extreme
@given(st.one_of(private, noisy), reports, dummies, small, central)
def test_one_round_is_bracketed(mechanism: AnyMechanism, people: int, added: int, delta: float, epsilon: float) -> None:
    one_round(mechanism, people, added, delta, epsilon)


@extreme
@given(st.lists(parts, min_size=1, max_size=2), small, central)
def test_many_rounds_are_bracketed(several: list[Part], delta: float, epsilon: float) -> None:
    composed(several, delta, epsilon)


@extreme
@given(private, reports, dummies, st.floats(-6, 6).map(lambda power: min(1 + 10**power, 1e6)))
def test_renyi_divergences_are_bracketed(mechanism: LocalMechanism, people: int, added: int, order: float) -> None:
    renyi(mechanism, people, added, order)


@thorough
@given(private, reports, dummies, small, central)
def test_one_round_is_bracketed_wherever_it_is_asked(
    mechanism: AnyMechanism, people: int, added: int, delta: float, epsilon: float
) -> None:
    one_round(mechanism, people, added, delta, epsilon)


# In a usual run `test_one_round_is_bracketed` asks the same of fewer.
@pytest.mark.exhaustive
@costly
@given(noisy, reports, dummies, small, central)
def test_one_round_of_gaussian_noise_is_bracketed_wherever_it_is_asked(
    mechanism: AnyMechanism, people: int, added: int, delta: float, epsilon: float
) -> None:
    one_round(mechanism, people, added, delta, epsilon)


def test_charges_near_the_end_of_the_doubles_are_no_fault() -> None:
    one_round(KRR(2**31, Fraction(1, 2**80)), 10**8, 0, 0.1, 0.0)


def test_atoms_that_underflow_are_charged_as_cut() -> None:
    renyi(Hashed(2**20, 256, Fraction(1, 2**32)), 17, 42, 2.0)


def test_an_attack_whose_charges_are_no_doubles_is_answered() -> None:
    one_round(KRR(3, Fraction(1, 2**32)), 10**11, 0, 0.1, 0.0)


# In a usual run `test_many_rounds_are_bracketed` asks the same of fewer.
@pytest.mark.exhaustive
@costly
@given(st.lists(parts, min_size=1, max_size=3), small, central)
def test_many_rounds_are_bracketed_wherever_they_are_asked(several: list[Part], delta: float, epsilon: float) -> None:
    composed(several, delta, epsilon)


@dear
@given(private, reports, dummies, st.floats(-6, 6).map(lambda power: min(1 + 10**power, 1e6)))
def test_renyi_divergences_are_bracketed_wherever_they_are_asked(
    mechanism: LocalMechanism, people: int, added: int, order: float
) -> None:
    renyi(mechanism, people, added, order)


@pytest.mark.parametrize(
    ("several", "delta"),
    [
        ([Part(KRR(3, Fraction(3, 10)), 50, 10, sampling_rate=Fraction(4, 5))], 1e-6),
        ([Part(KRR(2, ALL_BUT_ONE), 115), Part(KRR(2, ALL_BUT_ONE), 1)], 0.5),
        ([Part(Laplace(1e-9), 10**6, 3)], 0.1),
        ([Part(Generic(1.0), 1, 100, dummies=1), Part(KRR(2, Fraction(1, 2**32)), 1, 10)], 0.1),
    ],
    ids=[
        "more truthful people than there are",
        "losses that are all 0",
        "a curve of one point",
        "an ε above every ε that one round is asked at",
    ],
)
def test_what_arithmetic_once_refused_is_composed(several: list[Part], delta: float) -> None:
    composed(several, delta, 0.3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("people", "numerator"), [(2, 5), (2, 81), (7, 43), (50, 24), (50, 62)])
def test_poisson_sampling_is_answered_at_every_rate(people: int, numerator: int) -> None:
    sampled = Part(KRR(3, Fraction(3, 10)), people, 10, sampling_rate=Fraction(numerator, 100))
    epsilon_is_bracketed(compose([sampled], 1e-6))


def test_gaussian_noise_too_small_to_hide_anyone_is_told_apart() -> None:
    found = delta_bracket(Gaussian(0.05), 1000, 1.0)
    assert found.delta_lower is not None
    assert 1 - 1e-9 < found.delta_lower <= found.delta_upper <= 1


def test_gaussian_noise_that_hides_everything_is_answered_in_little_memory() -> None:
    found = delta_bracket(Gaussian(1e6), 2, 30.0)
    assert 0 < found.delta_upper < 1e-300


def test_gaussian_noise_is_never_worse_than_one_report_alone() -> None:
    alone = delta_bracket(Gaussian(0.3), 1, 8.0).delta_upper
    assert alone < 0.2
    assert delta_bracket(Gaussian(0.3), 40, 8.0).delta_upper <= alone


def test_a_local_epsilon_without_hope_is_answered_by_itself() -> None:
    found = epsilon_bracket(Laplace(40.0), 49, 1e-30, dummies=1)
    assert (found.epsilon_upper, found.bound) == (40.0, "local")


def test_what_arithmetic_raises_names_the_question_and_a_remedy() -> None:
    @answering
    def asked(reports: int, delta: float) -> float:
        return reports / (delta - delta)

    with pytest.raises(BeyondArithmetic, match=r"asked of reports = 5, delta = 0\.1 .*larger delta") as raised:
        asked(5, delta=0.1)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("mistake", [TypeError("a"), KeyError("b"), AttributeError("c"), AssertionError("d")])
def test_mistakes_in_a_program_are_not_hidden(mistake: Exception) -> None:
    @answering
    def asked() -> None:
        raise mistake

    with pytest.raises(type(mistake)) as raised:
        asked()
    assert raised.value is mistake
