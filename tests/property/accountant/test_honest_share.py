"""Fewer reports hide a person, and the certified ε does not fall."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.numbers import honest_reports

SHARES = st.integers(1, 100).map(lambda hundredths: hundredths / 100)


@settings(max_examples=25)
@given(st.integers(50, 5000), SHARES, SHARES)
def test_a_lower_honest_share_never_helps(reports: int, one: float, other: float) -> None:
    lower, higher = sorted((one, other))
    fewer, more = (max(1, honest_reports(reports, reports, share)) for share in (lower, higher))
    assert fewer <= more
    mechanism = KRR.from_local_epsilon(8, 3.0)
    worse, better = (epsilon_bracket(mechanism, hiding, 1e-5) for hiding in (fewer, more))
    assert worse.epsilon_upper >= (better.epsilon_lower or 0.0)
