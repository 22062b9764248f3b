"""Unary encoding beside dummies, each the report of a uniform answer: no upper end is below the exact divergence."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from hubbub.accountant.bounds import delta_bracket
from hubbub.accountant.composition import compose_delta
from hubbub.accountant.mechanisms import RAPPOR
from hubbub.accountant.mechanisms.exact import exp_decimal
from hubbub.accountant.pairs import Part
from support.exact_batches import batch_view


def exact_delta(mechanism: RAPPOR, people: int, dummies: int, epsilon: float) -> Fraction:
    """The largest divergence over all data sets and both inputs of the victim."""
    laws, power = [mechanism.law(x) for x in range(mechanism.categories)], Fraction(exp_decimal(epsilon))
    dummy = tuple(sum(column) / mechanism.categories for column in zip(*laws, strict=True))
    worst = Fraction(0)
    for others in itertools.combinations_with_replacement(laws, people - 1):
        hiding = [*others, *[dummy] * dummies]
        for one, another in itertools.permutations(laws, 2):
            p, q = batch_view((*hiding, one)), batch_view((*hiding, another))
            worst = max(worst, sum((max(Fraction(0), p[at] - power * q[at]) for at in p), Fraction(0)))
    return worst


@pytest.mark.parametrize(("categories", "people", "dummies"), [(2, 1, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2), (3, 1, 1)])
@pytest.mark.parametrize(("truthful", "other"), [(3 * 2**30, 2**30), (2**31, 2**28), (2**32 - 2**20, 2**31)])
def test_no_upper_end_is_below_the_exact_divergence(
    categories: int, people: int, dummies: int, truthful: int, other: int
) -> None:
    mechanism = RAPPOR.from_numerators(categories, truthful, other)
    for share in (0.0, 0.2, 0.5, 0.9):
        epsilon = share * mechanism.epsilon_local
        truth = float(exact_delta(mechanism, people, dummies, epsilon)) * (1 - 1e-12)
        assert delta_bracket(mechanism, people, epsilon, dummies=dummies).delta_upper >= truth
        assert compose_delta([Part(mechanism, people, dummies=dummies)], epsilon).delta_upper >= truth


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("people", "dummies"), [(2, 1), (500, 1500)])
def test_a_dummy_counts_as_one_further_person_and_no_more(people: int, dummies: int) -> None:
    """In one round, and in the pair that composes: counted twice, a certificate would promise what is not so."""
    mechanism = RAPPOR.from_numerators(4, 3 * 2**30, 2**30)
    beside, among = Part(mechanism, people, 2, dummies), Part(mechanism, people + dummies, 2)
    for epsilon in (0.01, 0.1, 0.3):
        one = delta_bracket(mechanism, people, epsilon, dummies=dummies).delta_upper
        assert one == pytest.approx(delta_bracket(mechanism, people + dummies, epsilon).delta_upper, rel=1e-9)
        both = compose_delta([beside], epsilon).delta_upper
        assert both == pytest.approx(compose_delta([among], epsilon).delta_upper, rel=1e-9)
