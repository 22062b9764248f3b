"""A sequence is paid for once, hidden by who is steady, and the horizon of a certificate."""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Several
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.certificate.alone import reached_by
from hubbub.accountant.certificate.batches import charges_at_actual
from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.ladder import IF_MINIMUM_VALID
from hubbub.accountant.certificate.minimum import check_minimum
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.composition import compose, compose_delta, compose_lower, compose_upper
from hubbub.accountant.errors import AccountingError, CertificateError
from hubbub.accountant.mechanisms import (
    KRR,
    Generic,
    Sequence,
    hiding_reports,
    one_round,
    paid_rounds,
    read_mechanism,
)
from hubbub.accountant.mechanisms.longitudinal import Horizon, Sampled, Vector
from hubbub.accountant.mechanisms.longitudinal.levels import LEVEL_SHARE, level_people
from hubbub.accountant.pairs import Part, charged_share
from hubbub.accountant.rigorous.statement import _reports, _so_far, claims
from hubbub.accountant.spending.budget import forecast, ledger, round_entries
from hubbub.accountant.spending.ledger import BudgetExceeded
from support.boolean_streams import sampled_law, streams, vector_law

TERMS = Terms(2.0, 1e-6, 8.0, 1.0, 10_000, horizon=6)
SEQUENCE = Sequence(5.0, 1.5, 9_000)
STATE = KRR.from_numerator(2, 2**31)
ASKED = (("vector", SEQUENCE), ("direct", STATE))
KEPT = 1e-6 * (1 - LEVEL_SHARE)
"""What is left of δ, less the chance that a level has fewer people than are steady."""


def rounds(*reports: int) -> list[RoundCounts]:
    return [
        RoundCounts(number, tuple(QueryCount(name, mechanism, count, count, {}) for name, mechanism in ASKED))
        for number, count in enumerate(reports)
    ]


def stated(history: Several[RoundCounts], terms: Terms = TERMS) -> dict[str, Any]:
    return statement(terms, history) | {"round": history[-1].round}


def test_it_is_written_and_read_in_one_form() -> None:
    assert read_mechanism(SEQUENCE.content()) == SEQUENCE
    for change in ({"steady": 0}, {"steady": True}, {"epsilon_round_hex": "0x1.8p+2"}, {"epsilon_local_hex": "5"}):
        with pytest.raises(AccountingError):
            read_mechanism(SEQUENCE.content() | change)


def test_it_is_bounded_as_any_randomizer_of_its_epsilon_and_states_no_attack() -> None:
    found = epsilon_bracket(SEQUENCE, 9_000, 1e-6)
    assert found.epsilon_upper == epsilon_bracket(Generic(5.0), 9_000, 1e-6).epsilon_upper
    assert found.epsilon_lower is None


def test_all_rounds_are_paid_for_once_at_the_fewest_who_hide() -> None:
    alone = [RoundCounts(each.round, each.queries[:1]) for each in rounds(12_000, 8_000, 15_000)]
    one, several = (stated(history)["all_rounds"]["epsilon_upper"] for history in (alone[1:2], alone))
    assert several == one
    # 2,000 of the minimum are missing, and may all be of the steady ones.
    assert one == pytest.approx(epsilon_bracket(SEQUENCE, 7_000, KEPT).epsilon_upper, rel=1e-5)
    # More than the steady ones come, and hide nobody over the rounds.
    assert stated(alone[:1])["all_rounds"]["epsilon_upper"] == pytest.approx(
        epsilon_bracket(SEQUENCE, 9_000, KEPT).epsilon_upper, rel=1e-5
    )
    assert paid_rounds(SEQUENCE, 6) == 1
    assert paid_rounds(STATE, 6) == 6


def test_the_chance_of_a_small_level_is_charged_once_a_query_and_never_to_a_round_alone() -> None:
    linked, alone, other = Part(SEQUENCE, 9_000), Part(one_round(SEQUENCE), 9_000), Part(STATE, 9_000, 3)
    assert charged_share([linked, other]) == LEVEL_SHARE
    assert charged_share([linked, linked]) == charged_share([replace(linked, rounds=2)]) == 2 * LEVEL_SHARE
    assert charged_share([alone, other]) == 0
    assert compose([linked], 1e-6).epsilon_upper == compose_upper([linked], 1e-6)
    # Two searches for one number, each of which checks what it returns.
    assert compose([linked], 1e-6).epsilon_upper >= epsilon_bracket(SEQUENCE, 9_000, KEPT).epsilon_upper * (1 - 1e-9)
    assert compose([linked], 1e-6).delta == 1e-6
    assert compose([alone], 1e-6).epsilon_upper == epsilon_bracket(one_round(SEQUENCE), 9_000, 1e-6).epsilon_upper
    with pytest.raises(AccountingError, match="add up to 1 of delta"):
        compose_upper([replace(linked, rounds=1000)], 1e-6)


def test_delta_and_epsilon_are_charged_alike_and_an_attack_is_not() -> None:
    parts = [Part(SEQUENCE, 9_000), Part(STATE, 9_000, 3)]
    upper = compose_upper(parts, 1e-6)
    reached = compose_delta(parts, upper).delta_upper
    assert reached <= 1e-6
    assert reached == pytest.approx(1e-6, rel=1e-2)
    attack = compose_lower(parts, 1e-6, upper)
    plain = compose_lower([Part(STATE, 9_000, 3), Part(replace(SEQUENCE, alone=True), 9_000)], 1e-6, upper)
    assert attack == plain


@pytest.mark.parametrize(("levels", "people"), [(2, 40), (3, 60), (4, 400)])
def test_certified_delta_covers_who_is_in_a_small_level(levels: int, people: int) -> None:
    """Brute force over how many share one's level: the mean of what each number certifies, at its worst, is at most δ.

    In a level that is smaller than is counted on, everything counts as lost: δ is 1 there.
    """
    delta, odds = 1e-3, 1 / levels
    steady = level_people(levels, people, delta)
    sequence = Sequence(1.0, 0.5, steady)
    epsilon = compose_upper([Part(sequence, steady)], delta)
    mean = 0.0
    for others in range(people):
        chance = math.comb(people - 1, others) * odds**others * (1 - odds) ** (people - 1 - others)
        hidden = 1 + others
        lost = (
            1.0
            if hidden < steady
            else compose_delta([Part(Generic(1.0), min(hidden, steady + 10))], epsilon).delta_upper
        )
        mean += chance * lost
    assert 0 < mean <= delta


def test_a_round_by_itself_shows_one_sign_hidden_by_all_who_came() -> None:
    content = stated(rounds(20_000))
    query = content["queries"][0]
    assert query["epsilon_local"] == 1.5
    assert query["epsilon_upper"] == pytest.approx(epsilon_bracket(Generic(1.5), 20_000, 1e-6).epsilon_upper, rel=1e-5)
    assert one_round(SEQUENCE) == Sequence(1.5, 1.5, 9_000, alone=True)


def test_the_horizon_is_all_rounds_at_the_minimum() -> None:
    content = stated(rounds(10_000, 12_000))
    horizon, last = content["horizon"], stated(rounds(*[10_000] * 6))
    assert (horizon["rounds"], horizon["epsilon_local"]) == (6, pytest.approx(5.0 + 6 * STATE.epsilon_local, rel=1e-5))
    assert horizon["epsilon_upper"] == pytest.approx(last["all_rounds"]["epsilon_upper_at_minimum"], rel=1e-6)
    assert content["all_rounds"]["epsilon_upper_at_minimum"] < horizon["epsilon_upper"]
    assert "horizon" not in stated(rounds(10_000), replace(TERMS, horizon=None))


def test_a_batch_short_of_the_minimum_leaves_the_horizon_unknown() -> None:
    assert stated(rounds(10_000, 9_999))["horizon"]["epsilon_upper"] is None


@pytest.mark.parametrize("history", [rounds(10_000, 12_000), rounds(12_000, 9_000)], ids=["held", "short"])
def test_a_statement_holds_and_no_changed_number_of_its_horizon_does(history: list[RoundCounts]) -> None:
    content = stated(history)
    check_statement(TERMS, ASKED, content)
    horizon = content["horizon"]
    short = horizon["epsilon_upper"] is None
    changes: list[dict[str, Any]] = [
        {"rounds": 5},
        {"epsilon_local": horizon["epsilon_local"] * 0.999},
        {"epsilon_upper": 3.0 if short else None},
        {"bound": "local"},
        {"further": 1},
    ]
    changes += [] if short else [{"epsilon_upper": horizon["epsilon_upper"] * 0.999}]
    for change in changes:
        wrong = copy.deepcopy(content)
        wrong["horizon"] |= change
        with pytest.raises(CertificateError):
            check_statement(TERMS, ASKED, wrong)


def test_a_horizon_must_be_there_exactly_where_a_question_is_over_time() -> None:
    content = stated(rounds(10_000))
    without = {name: value for name, value in content.items() if name != "horizon"}
    for terms, wrong in ((TERMS, without), (replace(TERMS, horizon=None), content)):
        with pytest.raises(CertificateError, match="horizon"):
            check_statement(terms, ASKED, wrong)


def test_the_ledger_pays_once_and_refuses_what_the_budget_does_not_hold() -> None:
    whole = epsilon_bracket(SEQUENCE, 9_000, 1e-6).epsilon_upper
    terms = replace(TERMS, epsilon_total=whole * 1.001)
    spent = ledger(terms, "task")
    for number in range(6):
        spent = spent.charge(round_entries(terms, "task", number, ASKED[:1]))
    assert len(spent.entries) == 6
    assert whole * 0.999 <= spent.epsilon_spent() <= whole * 1.001
    assert forecast(terms, [SEQUENCE], 6).within == 6
    with pytest.raises(BudgetExceeded):
        ledger(replace(terms, epsilon_total=whole * 0.9), "task").charge(round_entries(terms, "task", 0, ASKED[:1]))
    # A round that held fewer than are steady counts as what it was, whichever it is.
    short = QueryCount("vector", SEQUENCE, 10_000, 5_000, {})
    dearer = ledger(terms, "task", spent.records(), [(3, short)])
    assert dearer.epsilon_spent() > whole * 1.1


def test_a_round_is_promised_by_what_it_shows_and_the_budget_by_all() -> None:
    check_minimum(replace(TERMS, epsilon=0.2, epsilon_local=1.5), [SEQUENCE])
    with pytest.raises(AccountingError, match="epsilon_total"):
        check_minimum(replace(TERMS, epsilon=0.2, epsilon_total=0.5), [SEQUENCE])


def test_dummies_hide_nobody_over_rounds() -> None:
    terms = replace(TERMS, dummies=100_000)
    assert (
        stated(rounds(10_000)[:1], terms)["queries"][0]["epsilon_upper"]
        == stated(rounds(10_000))["queries"][0]["epsilon_upper"]
    )


def test_proof_mode_names_the_horizon_too() -> None:
    found = [(claim.where, claim.member) for claim in claims(TERMS, ASKED, stated(rounds(10_000)))]
    assert ("horizon", "epsilon_upper") in found
    assert ("horizon", "epsilon_local") in found


def test_what_is_left_of_one_batch_without_the_analyzers_word_is_charged_the_chance_of_a_small_level() -> None:
    terms = replace(TERMS, honest_share=0.9, minimum_reports=20_000)
    mechanism = Sequence(3.0, 1.5, 17_000)
    query = QueryCount("vector", mechanism, 20_500, 20_500, {})
    content = statement(terms, [RoundCounts(0, (query,))]) | {"round": 0}
    check_statement(terms, [("vector", mechanism)], content)
    # 50 more may be dishonest than of the minimum.
    careful = compose([Part(mechanism, 17_000 - 50)], terms.delta).epsilon_upper
    assert content["all_rounds"][IF_MINIMUM_VALID] >= careful
    assert content["all_rounds"][IF_MINIMUM_VALID] == pytest.approx(careful, rel=1e-5)
    # Six digits may hide the charge: a batch by itself costs what composing it alone does.
    for steady in range(9_000, 9_010):
        parts = [Part(mechanism, steady)]
        assert reached_by(terms, parts) >= compose(parts, terms.delta).epsilon_upper


def test_people_missing_in_several_rounds_are_taken_from_the_steady_ones_all_together() -> None:
    """Each round may lack others: who misses any of them is no steady one."""
    alone = [RoundCounts(each.round, each.queries[:1]) for each in rounds(12_000, 8_000, 9_500, 9_900)]
    content = stated(alone)
    assert content["all_rounds"]["epsilon_upper"] == pytest.approx(
        epsilon_bracket(SEQUENCE, 9_000 - 2_600, KEPT).epsilon_upper, rel=1e-5
    )
    check_statement(TERMS, ASKED[:1], content)
    # Proof mode counts anew, and to the same.
    history = content["all_rounds"]["history"]
    assert _so_far(TERMS, ASKED[:1], history, lambda each: _reports(TERMS, each)) == charges_at_actual(TERMS, alone)
    lie = copy.deepcopy(content)
    lie["all_rounds"]["epsilon_upper"] = round(epsilon_bracket(SEQUENCE, 8_000, KEPT).epsilon_upper * 1.0001, 6)
    with pytest.raises(CertificateError, match="all_rounds"):
        check_statement(TERMS, ASKED[:1], lie)


def test_a_ledger_counts_all_that_short_rounds_lack() -> None:
    counts = [(number, QueryCount("vector", SEQUENCE, 10_000, 8_000, {})) for number in range(3)]
    spent = ledger(TERMS, "task")
    for number in range(3):
        spent = spent.charge(round_entries(TERMS, "task", number, ASKED[:1]))
    whole = ledger(TERMS, "task", spent.records(), counts).epsilon_spent()
    assert whole == pytest.approx(epsilon_bracket(SEQUENCE, 3_000, KEPT).epsilon_upper, rel=1e-5)


def test_a_short_batch_covers_who_is_alone_on_their_level() -> None:
    """Brute force: all three who are left of six may be of other levels than the victim, whose whole sequence shows."""
    strategy = Vector.best(Horizon(2, 2), 1.5)
    sequence = Sequence(strategy.epsilon_local(), strategy.epsilon_sign, 3)
    terms = replace(TERMS, delta=0.3, minimum_reports=6, horizon=None)
    content = statement(terms, [RoundCounts(0, (QueryCount("vector", sequence, 6, 3, {"unopenable": 3}),))])
    laws = [vector_law(strategy, states, 0) for states in streams(strategy.horizon)]

    def reached(epsilon: float) -> float:
        odds = math.exp(epsilon)
        return max(
            sum(max(0.0, float(mass) - odds * float(q[signs])) for signs, mass in p.items())
            for p, q in itertools.permutations(laws, 2)
        )

    assert reached(content["all_rounds"]["epsilon_upper"]) <= terms.delta
    # As many steady people as reports would not cover it.
    assert reached(compose_upper([Part(sequence, 3)], terms.delta)) > terms.delta


def test_what_is_left_where_the_minimum_is_valid_counts_on_no_steady_people_that_it_does_not_leave() -> None:
    """Seven levels: of 1,700,000 reports 170,000 may be dishonest, so that 30,000 people of all levels are honest."""
    terms = replace(TERMS, honest_share=0.9, minimum_reports=200_000, horizon=None)
    sequence = Sequence(3.0, 1.5, level_people(7, 180_000, terms.delta))
    query = QueryCount("vector", sequence, 1_700_000, 1_700_000, {})
    content = statement(terms, [RoundCounts(0, (query,))])["all_rounds"]
    of_level = level_people(7, 30_000, terms.delta)
    assert content["epsilon_upper"] < compose_upper([Part(sequence, of_level)], terms.delta)
    assert content[IF_MINIMUM_VALID] >= compose_upper([Part(sequence, of_level)], terms.delta)


@given(st.integers(2, 8), st.integers(50, 10**5), st.integers(0, 10**5), st.sampled_from([1e-4, 1e-8]))
@settings(max_examples=200, deadline=None)
def test_fewer_people_take_from_a_level_no_more_than_are_missing(
    levels: int, people: int, missing: int, delta: float
) -> None:
    """An independent route to what is counted on: a level of fewer people, had the missing ones no say in levels."""
    left = max(1, people - missing)
    counted = hiding_reports(Sequence(1.0, 0.5, level_people(levels, people, delta)), people, people - left)
    assert counted <= level_people(levels, left, delta)


Law = Counter[tuple[int, ...]]
"""Probabilities of what is seen: the sum of the signs of each period."""


def added(one: Law, other: Law) -> Law:
    law = Law()
    for (seen, mass), (more, chance) in itertools.product(one.items(), other.items()):
        law[tuple(a + b for a, b in zip(seen, more, strict=True))] += mass * chance
    return law


def answered(law: Law, rounds: tuple[int, ...]) -> Law:
    """The law of a device that takes part in these rounds only; nothing comes of it in the others."""
    seen = Law()
    for signs, mass in law.items():
        seen[tuple(sign if place in rounds else 0 for place, sign in enumerate(signs))] += mass
    return seen


@pytest.mark.parametrize("make", [lambda horizon: Vector.best(horizon, 1.5), lambda horizon: Sampled(horizon, 2**34)])
def test_it_covers_every_data_set_of_a_level_also_of_who_misses_rounds(make: Callable[[Horizon], Any]) -> None:
    """Brute force, level 0 of three periods: two steady others hide a victim, whichever rounds the victim answers.

    Each round shows how many of its signs are +1, and who answered it.
    """
    strategy = make(Horizon(3, 2))
    law_of = vector_law if isinstance(strategy, Vector) else sampled_law
    known = [law_of(strategy, states, 0) for states in streams(strategy.horizon)]
    laws = [Law({signs: float(mass) for signs, mass in law.items()}) for law in known]
    part = Part(Sequence(strategy.epsilon_local(), strategy.epsilon_sign, 3), 3)
    some = [rounds for count in (1, 2, 3) for rounds in itertools.combinations(range(3), count)]
    victims = {rounds: [answered(law, rounds) for law in laws] for rounds in some}
    worst = dict.fromkeys((0.0, 0.4, 0.8), 0.0)
    for others in itertools.combinations_with_replacement(laws, 2):
        hidden = added(*others)
        for rounds in some:
            for p, q in itertools.permutations([added(hidden, victim) for victim in victims[rounds]], 2):
                for epsilon, known_worst in worst.items():
                    odds = math.exp(epsilon)
                    reached = sum(max(0.0, mass - odds * q[seen]) for seen, mass in p.items())
                    worst[epsilon] = max(known_worst, reached)
    for epsilon, reached in worst.items():
        assert 0 < reached <= compose_delta([part], epsilon).delta_upper
