"""What a task's rounds are charged, how many fit its budget, and randomizers that count the shuffler's dummies."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.certificate.minimum import check_minimum, parts_at_minimum
from hubbub.accountant.certificate.terms import QueryCount, Terms
from hubbub.accountant.composition import compose, compose_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.pairs import Part
from hubbub.accountant.spending.budget import epsilon_spent, forecast, largest_within, ledger, round_entries
from hubbub.accountant.spending.ledger import BudgetExceeded
from support.krr_queries import histogram_design, histogram_mse
from support.messages import NOT_EVEN_THE_FIRST, SPENT_SO_FAR

pytestmark = pytest.mark.usefixtures("composed_once")

TERMS = Terms(epsilon=1.0, delta=1e-6, epsilon_local=8.0, honest_share=0.9, minimum_reports=20_000)
CARRIER, DELAY = KRR.from_numerator(16, 2**30), KRR.from_numerator(9, 2**31)
QUERIES = [("carrier", CARRIER), ("delay", DELAY)]


def spent(terms: Terms, rounds: int) -> float:
    parts = [replace(part, rounds=rounds) for part in parts_at_minimum(terms, [CARRIER, DELAY])]
    return compose(parts, terms.delta).epsilon_upper


def test_a_round_is_charged_at_the_honest_share_of_the_minimum_with_its_dummies() -> None:
    entries = round_entries(replace(TERMS, dummies=500), "flights", 3, QUERIES)
    assert [entry.key for entry in entries] == [(3, "carrier"), (3, "delay")]
    assert [entry.part for entry in entries] == [Part(CARRIER, 18_000, dummies=500), Part(DELAY, 18_000, dummies=500)]


def test_the_outlook_is_what_the_ledger_does() -> None:
    terms = replace(TERMS, epsilon_total=spent(TERMS, 5))
    seen = forecast(terms, [CARRIER, DELAY], 8)
    assert (seen.rounds, seen.within) == (8, 5)
    assert (seen.epsilon_of_one, seen.epsilon_of_all) == (spent(TERMS, 1), spent(TERMS, 8))
    assert (seen.alone_of_one, seen.alone_of_all) == (None, None), "only noise hides a person beside liars alone"
    assert seen.local_of_all == pytest.approx(8 * (CARRIER.epsilon_local + DELAY.epsilon_local))
    kept = ledger(terms, "flights")
    for number in range(5):
        kept = kept.charge(round_entries(terms, "flights", number, QUERIES))
    with pytest.raises(BudgetExceeded, match=r"rounds 0 to 4 \(5\)"):
        kept.charge(round_entries(terms, "flights", 5, QUERIES))


@pytest.mark.parametrize(("total", "within"), [(None, 4), (100.0, 4), (0.01, 0)])
def test_without_a_budget_all_rounds_fit_and_with_too_little_none(total: float | None, within: int) -> None:
    assert forecast(replace(TERMS, epsilon_total=total), [CARRIER, DELAY], 4).within == within


def test_a_ledger_without_a_budget_refuses_nothing() -> None:
    kept = ledger(TERMS, "flights")
    assert kept.epsilon == math.inf
    for number in range(200):
        entries = round_entries(TERMS, "flights", number, QUERIES)
        kept = kept.charge(entries)
    kept.verify()
    assert ledger(TERMS, "flights", kept.records()) == kept


def test_a_budget_below_one_round_is_refused_before_anyone_is_asked() -> None:
    one = spent(TERMS, 1)
    check_minimum(replace(TERMS, epsilon_total=one), [CARRIER, DELAY])
    with pytest.raises(AccountingError, match=f"{NOT_EVEN_THE_FIRST} would be released; raise it"):
        check_minimum(replace(TERMS, epsilon_total=one * 0.999), [CARRIER, DELAY])


def test_a_dummy_is_as_noisy_as_a_uniform_symbol() -> None:
    """Not as a wrong report: a category is one dummy's with probability 1/k, not γ/k."""
    added = histogram_mse(CARRIER, 1000, 64) - histogram_mse(CARRIER, 1000)
    assert math.isclose(added, 64 * (1 / 16) * (15 / 16) / 0.75**2, rel_tol=1e-9)


# `test_one_query_with_dummies_holds_at_the_minimum_as_it_was_calibrated` has one query.
@pytest.mark.exhaustive
def test_queries_with_dummies_need_less_noise_and_hold_at_the_minimum() -> None:
    designs = [histogram_design(4), histogram_design(3, optional=True)]
    terms = Terms(epsilon=1.0, delta=1e-6, epsilon_local=8.0, honest_share=1.0, minimum_reports=2_000, dummies=50)
    plain, helped = (calibrate(designs, 1.0, 1e-6, 2_000, dummies=dummies) for dummies in (0, 50))
    assert all(with_.mechanism.gamma < without.mechanism.gamma for with_, without in zip(helped, plain, strict=True))
    check_minimum(terms, [each.mechanism for each in helped])
    with pytest.raises(AccountingError, match="is promised"):
        check_minimum(replace(terms, dummies=0), [each.mechanism for each in helped])


def test_one_query_with_dummies_holds_at_the_minimum_as_it_was_calibrated() -> None:
    (chosen,) = calibrate([histogram_design(4)], 1.0, 1e-6, 1_000, dummies=100)
    terms = Terms(epsilon=1.0, delta=1e-6, epsilon_local=20.0, honest_share=1.0, minimum_reports=1_000, dummies=100)
    check_minimum(terms, [chosen.mechanism])


def test_a_round_that_was_short_of_the_minimum_counts_as_what_it_was() -> None:
    """kRR(16, 1/4), minimum 1000: the first round holds 1000 reports, the second 50."""
    terms = Terms(2.0, 1e-6, 8.0, 1.0, 1000, epsilon_total=4.2)
    queries = [("carrier", KRR(16, Fraction(1, 4)))]
    kept = ledger(terms, "flights")
    for number in range(2):
        kept = kept.charge(round_entries(terms, "flights", number, queries))
    came = [
        (number, QueryCount("carrier", queries[0][1], 1000, valid, {"bad": 1000 - valid}))
        for number, valid in ((0, 1000), (1, 50))
    ]
    parts = [Part(queries[0][1], 1000), Part(queries[0][1], 50)]
    assert epsilon_spent(terms, "flights", kept.records(), came) == compose_upper(parts, terms.delta)
    assert epsilon_spent(terms, "flights", kept.records()) == compose_upper([replace(parts[0], rounds=2)], terms.delta)
    third = round_entries(terms, "flights", 2, queries)
    assert len(kept.charge(third).links) == 3
    known = ledger(terms, "flights", kept.records(), came)
    assert known.head == kept.head
    with pytest.raises(BudgetExceeded, match=rf"budget is 4\.2; {SPENT_SO_FAR}: 4\.0"):
        known.charge(third)


def test_a_batch_that_holds_the_minimum_counts_at_the_minimum() -> None:
    kept = ledger(TERMS, "flights").charge(round_entries(TERMS, "flights", 0, QUERIES))
    name, mechanism = QUERIES[0]
    counted = [(0, QueryCount(name, mechanism, 10**6, 10**6, {}))]
    assert epsilon_spent(TERMS, "flights", kept.records(), counted) == epsilon_spent(TERMS, "flights", kept.records())


@pytest.mark.parametrize(
    "spent_by",
    [math.sqrt, float, lambda rounds: 0.3 * math.sqrt(rounds) + 0.01 * rounds, lambda rounds: 1.0 + (rounds > 613)],
    ids=["root", "line", "both", "step"],
)
@pytest.mark.parametrize("most", [2, 3, 1000])
def test_the_largest_number_of_rounds_is_found_in_few_looks(spent_by, most: int) -> None:  # type: ignore[no-untyped-def]
    for share in (0.0, 0.001, 0.2, 0.5, 0.97, 0.999):
        asked: list[int] = []

        def looked(rounds: int, asked: list[int] = asked) -> float:
            asked.append(rounds)
            return float(spent_by(rounds))

        one, every = spent_by(1), spent_by(most)
        budget = one + share * (every - one)
        if every > budget:
            found = largest_within(looked, (1, one), (most, every), budget)
            assert found == max(rounds for rounds in range(1, most) if spent_by(rounds) <= budget)
            assert len(asked) <= 30
            assert all(1 < rounds < most for rounds in asked)
