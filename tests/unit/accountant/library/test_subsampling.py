import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.bounds.over_rounds import behind
from hubbub.accountant.composition import compose, compose_delta, compose_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.library.subsampling import subsampled_delta, subsampled_epsilon
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import Part

MECHANISM = KRR.from_local_epsilon(4, 2.0)


def test_the_exact_pair_is_at_most_the_rule_which_holds_for_any_randomizer() -> None:
    by_rule = subsampled_delta(MECHANISM, 1000, 5000, 0.05).delta_upper
    by_pair = compose_delta([Part(MECHANISM, 1000, clients=5000)], 0.05).delta_upper
    assert 0.1 * by_rule < by_pair < by_rule


def test_epsilon_and_delta_are_inverse() -> None:
    epsilon = subsampled_epsilon(MECHANISM, 1000, 5000, 1e-6).epsilon_upper
    assert subsampled_delta(MECHANISM, 1000, 5000, epsilon).delta_upper == pytest.approx(1e-6, rel=1e-3)


def test_it_is_the_rule_applied_to_the_batch() -> None:
    inner = epsilon_bracket(Generic(1.0), 1000, 1e-5).epsilon_upper
    found = subsampled_epsilon(Generic(1.0), 1000, 10000, 1e-6).epsilon_upper
    assert found == pytest.approx(math.log1p(0.1 * math.expm1(inner)), rel=1e-4)


def test_delta_above_the_share_costs_nothing() -> None:
    assert subsampled_epsilon(MECHANISM, 10, 1000, 0.02).epsilon_upper == 0.0


def test_drawing_everyone_is_the_plain_bound() -> None:
    plain = epsilon_bracket(MECHANISM, 1000, 1e-6).epsilon_upper
    assert subsampled_epsilon(MECHANISM, 1000, 1000, 1e-6).epsilon_upper == pytest.approx(plain, rel=1e-6)


def test_rounds_cost_less_than_basic_composition() -> None:
    composed = compose([Part(MECHANISM, 1000, 10, clients=5000)], 1e-6).epsilon_upper
    assert composed < 10 * subsampled_epsilon(MECHANISM, 1000, 5000, 1e-7).epsilon_upper


def test_more_reports_than_clients_are_refused() -> None:
    with pytest.raises(AccountingError, match="clients is 10"):
        subsampled_epsilon(MECHANISM, 11, 10, 1e-6)


@pytest.mark.parametrize("secret", [{"clients": 5000}, {"sampling_rate": Fraction(1, 5)}])
def test_without_amplification_the_draw_does_not_help_either(secret: dict[str, Any]) -> None:
    """One report of 5000 clients would be drawn with probability 1/5000, not 1/5: far below what rounds reveal."""
    part = Part(MECHANISM, 1000, rounds=2, **secret)
    assert behind(part, "local") == Part(MECHANISM, 1, rounds=2)
    assert compose_upper([behind(part, "local")], 1e-6) >= compose_upper([part], 1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("categories", "secret"),
    [
        (2, {"clients": 41}),
        (3, {"clients": 40}),
        (2, {"sampling_rate": Fraction(99, 100)}),
        (3, {"sampling_rate": Fraction(3, 4)}),
    ],
)
def test_a_secret_draw_never_costs_more_than_everybodys_report(categories: int, secret: dict[str, Any]) -> None:
    """Leaving reports out is a post-processing. With two categories the sampled pair alone is up to √2 above."""
    krr = KRR.from_local_epsilon(categories, 1.0)
    sampled, everybody = Part(krr, 40, 5, **secret), Part(krr, secret.get("clients", 40), 5)
    found = compose([sampled], 1e-6)
    assert found.epsilon_upper <= compose([everybody], 1e-6).epsilon_upper
    assert found.epsilon_upper == compose_upper([sampled], 1e-6)
    assert 0 <= found.numerical_slack <= 1
    assert found.epsilon_lower is None or found.epsilon_lower <= found.epsilon_upper
    assert compose_delta([sampled], 1.0).delta_upper <= compose_delta([everybody], 1.0).delta_upper


def test_people_are_counted_by_numbers_of_any_type() -> None:
    found = subsampled_epsilon(MECHANISM, Decimal(100), Decimal(1000), 1e-6)  # type: ignore[arg-type]
    assert found == subsampled_epsilon(MECHANISM, 100, 1000, 1e-6)
