"""All bounds side by side: which applies, which is chosen, and why not."""

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.bounds.catalogue import CATALOGUE, assess
from hubbub.accountant.mechanisms import KRR, Generic, Mechanism

MECHANISMS = [KRR.from_local_epsilon(16, 4.0), KRR.from_local_epsilon(2, 1.0), Generic(2.0), Generic(2.0, mixed=True)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_every_bound_answers_or_says_why_not(mechanism: Mechanism) -> None:
    found = assess(mechanism, 10_000, 1e-6)
    assert [each.bound for each in found] == list(CATALOGUE)
    for each in found:
        number = each.epsilon_upper if each.direction == "upper" else each.epsilon_lower
        assert (number is None) == (each.why_not is not None)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_exactly_the_certified_bound_is_chosen(mechanism: Mechanism) -> None:
    bracket = epsilon_bracket(mechanism, 10_000, 1e-6)
    chosen = [each for each in assess(mechanism, 10_000, 1e-6) if each.chosen]
    assert [(each.bound, each.epsilon_upper) for each in chosen] == [(bracket.bound, bracket.epsilon_upper)]
