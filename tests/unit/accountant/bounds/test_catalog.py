"""Which applies, which is chosen, and why not."""

from fractions import Fraction
from typing import Any

import pytest

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket
from hubbub.accountant.bounds.bound import described
from hubbub.accountant.bounds.catalog import CATALOG, assess
from hubbub.accountant.bounds.over_rounds import composed_epsilon
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic, Laplace, LocalMechanism, Mechanism
from hubbub.accountant.pairs import Part

MECHANISMS = [KRR.from_local_epsilon(16, 4.0), KRR.from_local_epsilon(2, 1.0), Generic(2.0)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "mechanism",
    [*MECHANISMS, RAPPOR.from_local_epsilon(5, 2.0), Laplace(1.0)],
    ids=described,
)
def test_every_bound_answers_or_says_why_not(mechanism: LocalMechanism) -> None:
    found = assess(mechanism, 10_000, 1e-6)
    assert [each.bound for each in found] == list(CATALOG)
    for each in found:
        number = each.epsilon_upper if each.direction == "upper" else each.epsilon_lower
        assert (number is None) == (each.why_not is not None)
        assert "'best'" not in (each.why_not or "")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=described)
def test_exactly_the_certified_bound_is_chosen(mechanism: Mechanism) -> None:
    bracket = epsilon_bracket(mechanism, 10_000, 1e-6)
    chosen = [each for each in assess(mechanism, 10_000, 1e-6) if each.chosen]
    assert [(each.bound, each.epsilon_upper) for each in chosen] == [(bracket.bound, bracket.epsilon_upper)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=described)
def test_over_rounds_the_chosen_one_is_what_composing_certifies(mechanism: Mechanism) -> None:
    part = Part(mechanism, 10_000, 5)
    found = assess(mechanism, 10_000, 1e-6, rounds=5)
    chosen = [each for each in found if each.chosen]
    assert [(each.composition, each.epsilon_upper) for each in chosen] == [("losses", compose_upper([part], 1e-6))]
    uppers = [each.epsilon_upper for each in found if each.epsilon_upper is not None and each.proven]
    assert min(uppers) == chosen[0].epsilon_upper
    lowers = [each.epsilon_lower for each in found if each.epsilon_lower is not None]
    assert max(lowers, default=0.0) <= min(uppers)


def test_without_amplification_over_rounds_the_sum_of_local_epsilons_is_chosen() -> None:
    found = assess(Generic(8.0), 2, 1e-6, rounds=3)
    assert [(each.bound, each.composition, each.epsilon_upper) for each in found if each.chosen] == [
        ("local", "basic", pytest.approx(24.0, rel=1e-12))
    ]


def test_each_way_of_composing_is_said_once_and_one_that_overflows_hides_no_other() -> None:
    found = assess(Generic(4.0), 10**6, 1e-8, rounds=10)
    ways = [(each.bound, each.composition) for each in found]
    assert len(ways) == len(set(ways))
    assert [way for bound, way in ways if bound == "erlingsson"] == ["basic"]
    assert [way for bound, way in ways if bound == "stronger-clones"] == ["losses", "advanced", "basic"]


def test_an_order_adds_renyi_divergences_of_all_rounds() -> None:
    one = {each.bound: each for each in assess(Generic(0.5), 10**5, 1e-6, order=8)}
    many = {each.bound: each for each in assess(Generic(0.5), 10**5, 1e-6, order=8, rounds=3)}
    with_upper = {name for name, each in one.items() if each.rdp_upper is not None}
    assert with_upper >= {"stronger-clones", "local", "erlingsson-rdp", "girgis-upper-1", "girgis-upper-2"}
    assert {name for name, each in one.items() if each.rdp_lower is not None} >= {"krr-lower", "girgis-lower"}
    for name in with_upper:
        assert many[name].rdp_upper == pytest.approx(3 * (one[name].rdp_upper or 0.0), rel=1e-12)
    assert one["girgis-lower"].applies
    assert one["girgis-lower"].epsilon_lower is None
    assert "Lemma 2.1" in (one["girgis-lower"].why_not or "")


@pytest.mark.parametrize("wrong", [{"delta": 0.0}, {"reports": 0}, {"rounds": 0}, {"dummies": -1}, {"order": 1.0}])
def test_numbers_out_of_range_are_refused_as_a_whole(wrong: dict[str, float]) -> None:
    asked: dict[str, Any] = {"reports": 100, "delta": 1e-6, **wrong}
    with pytest.raises(AccountingError, match="; give "):
        assess(Generic(1.0), asked.pop("reports"), asked.pop("delta"), **asked)


def test_an_attack_that_is_not_known_over_rounds_says_so() -> None:
    """No attack is stated on people whom a secret choice hides."""
    part = Part(KRR(3, Fraction(1, 2)), 20, 2, clients=100)
    with pytest.raises(OutsideConditions, match="no attack over 2 rounds of kRR with 3 categories"):
        composed_epsilon(BOUNDS["krr-lower"], part, 1e-2, "losses")


def test_an_attack_by_one_value_composes() -> None:
    [attack] = [
        each for each in assess(RAPPOR.from_local_epsilon(2, 1.0), 20, 1e-2, rounds=2) if each.bound == "rappor-lower"
    ]
    assert attack.composition == "losses"
    assert 0.2 < (attack.epsilon_lower or 0.0) < 2.0
