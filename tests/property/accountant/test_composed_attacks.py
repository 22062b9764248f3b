"""Attacks that compose: no δ of theirs is above the upper end, for any law, number of people and number of rounds."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant import RAPPOR, Finite, Generic, Laplace, Part, compose_delta
from hubbub.accountant.mechanisms import LocalMechanism
from support.thoroughness import usually


@st.composite
def laws(draw: st.DrawFn) -> Finite:
    weights = [draw(st.lists(st.integers(1, 30), min_size=4, max_size=4)) for _ in range(draw(st.integers(2, 4)))]
    return Finite(tuple(tuple(Fraction(each, sum(row)) for each in row) for row in weights))


mechanisms = st.one_of(
    st.builds(RAPPOR.from_local_epsilon, st.sampled_from([2, 3, 20]), st.floats(0.01, 12)),
    st.builds(Laplace, st.floats(0.05, 8)),
    st.builds(Generic, st.floats(1e-3, 0.69)),
    laws(),
)


@settings(max_examples=usually(3, 7), deadline=None)
@given(
    mechanisms,
    st.sampled_from([1, 2, 7, 90, 5000, 10**7]),
    st.sampled_from([2, 30, 5000]),
    st.floats(0.0, 1.0),
)
def test_no_attack_is_above_the_upper_end(mechanism: LocalMechanism, reports: int, rounds: int, place: float) -> None:
    """`compose` looks for an attack below its upper end only. Here nothing tells the lower end of the upper one."""
    epsilon = mechanism.epsilon_local * rounds**0.5 * place / reports**0.5
    found = compose_delta([Part(mechanism, reports, rounds)], epsilon)
    assert found.delta_lower is not None
    assert 0 <= found.delta_lower <= found.delta_upper
