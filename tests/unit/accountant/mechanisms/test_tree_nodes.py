"""The tree's nodes, one a round: how many units streams differ by, what a unit covers, and what certificates say."""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from hubbub.accountant.bounds import delta_bracket, epsilon_bracket
from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.composition import compose, compose_delta, compose_upper
from hubbub.accountant.errors import AccountingError, CertificateError
from hubbub.accountant.mechanisms import (
    Finite,
    TreeNodes,
    costliest,
    exp_decimal,
    one_round,
    paid_rounds,
    read_mechanism,
)
from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.change_by_two import double, single
from hubbub.accountant.rigorous.statement import claims
from hubbub.accountant.spending.budget import forecast, ledger, round_entries
from hubbub.accountant.spending.ledger import BudgetExceeded
from support.boolean_streams import streams
from support.exact_batches import batch_view

NODES = TreeNodes(8, 2, 2**29, 2**28)
RISING = TreeNodes(8, 1, 2**29, 2**28)
TERMS = Terms(4.0, 1e-6, 20.0, 1.0, 2_000, epsilon_total=9.0, horizon=8)


def sent(states: tuple[int, ...]) -> list[int]:
    """The value of each round, from the definition: what changed since the round whose number lacks the lowest one."""
    whole = (0, *states)
    return [whole[period] - whole[period & (period - 1)] for period in range(1, len(whole))]


@pytest.mark.parametrize(("periods", "changes"), [(1, 1), (4, 1), (5, 2), (7, 3), (8, 1), (8, 2), (8, 3), (9, 2)])
def test_no_two_streams_differ_by_more_units_than_are_paid_whatever_the_rounds(periods: int, changes: int) -> None:
    """Enumerated: every two streams, and of every number of rounds those in which they differ most."""
    mechanism = TreeNodes(periods, changes, 2**29, 2**28)
    values = {tuple(sent(states)) for states in streams(Horizon(periods, changes))}
    reached = [0] * (periods + 1)
    for one, other in itertools.combinations(values, 2):
        gaps = sorted((abs(a - b) for a, b in zip(one, other, strict=True)), reverse=True)
        for rounds in range(periods + 1):
            reached[rounds] = max(reached[rounds], sum(gaps[:rounds]))
    for rounds, units in enumerate(reached):
        assert units <= paid_rounds(mechanism, rounds)
    # Everything is paid for after some rounds, and hardly more than streams differ by.
    assert paid_rounds(mechanism, periods) <= 2 * max(reached[-1], 1)
    assert all(min(each) >= -1 and (changes > 1 or min(each) >= 0) for each in values)


@pytest.mark.parametrize("reports", [1, 2_000])
def test_a_unit_covers_a_change_by_one_and_two_units_one_by_two(reports: int) -> None:
    for epsilon in (0.0, 0.1, 0.5, 2.0):
        for law, units in ((single(NODES.node), 1), (double(NODES.node), 2)):
            # Known from below and from above: what the difference reaches is never above what is certified.
            least = compose_delta([Part(law, reports)], epsilon)
            assert least.delta_upper * (1 - 1e-4) <= compose_delta([Part(NODES, reports, units)], epsilon).delta_upper
    assert NODES.epsilon_local == NODES.node.single >= math.log(NODES.node.ratio(1, -1))


Law = Counter[tuple[int, ...]]
"""Probabilities of what is seen."""


def views(mechanism: TreeNodes, people: list[tuple[int, ...]]) -> Law:
    """The law of what the batches show, one a round: how many −1 and +1 were sent."""
    node, law = mechanism.node, Law({(): 1.0})
    for values in zip(*map(sent, people), strict=True):
        one = Law({(0, 0): 1.0})
        for value in values:
            row, after = node.law[node.values.index(value)], Law()
            for (minus, plus), mass in one.items():
                for symbol, chance in zip(node.values, row, strict=True):
                    after[minus + (symbol < 0), plus + (symbol > 0)] += mass * float(chance)
            one = after
        joined = Law()
        for (seen, mass), (counts, chance) in itertools.product(law.items(), one.items()):
            joined[(*seen, *counts)] += mass * chance
        law = joined
    return law


@pytest.mark.sampled("2-1", "2-2")
@pytest.mark.parametrize(("periods", "changes"), [(2, 1), (2, 2), (3, 2)])
def test_units_cover_every_data_set_of_three_devices(periods: int, changes: int) -> None:
    """Brute force: everything that the batches of all rounds show, for every two streams and all others."""
    mechanism = TreeNodes(periods, changes, 2**31, 2**30)
    known = sorted(streams(Horizon(periods, changes)))
    parts = [Part(mechanism, 3, paid_rounds(mechanism, periods))]
    for epsilon in (0.0, 0.5, 1.5):
        certified, worst = compose_delta(parts, epsilon).delta_upper, 0.0
        for others in itertools.combinations_with_replacement(known, 2):
            laws = [views(mechanism, [one, *others]) for one in known]
            for p, q in itertools.permutations(laws, 2):
                worst = max(worst, sum(max(0.0, mass - math.exp(epsilon) * q[seen]) for seen, mass in p.items()))
        assert 0.1 * certified <= worst <= certified


def test_a_round_by_itself_is_any_difference_and_an_attack_tells_zero_from_one() -> None:
    alone, law = one_round(NODES), Finite(NODES.node.law)
    found = epsilon_bracket(alone, 2_000, 1e-6)
    assert found.epsilon_upper == epsilon_bracket(law, 2_000, 1e-6).epsilon_upper
    # Everyone's node has 0 or 1, as in any round it may.
    assert found.epsilon_lower == epsilon_bracket(Finite(NODES.node.law[1:]), 2_000, 1e-6).epsilon_lower
    assert 0 < found.epsilon_lower < epsilon_bracket(NODES, 2_000, 1e-6).epsilon_upper <= found.epsilon_upper
    assert compose([Part(NODES, 2_000, 3)], 1e-6).epsilon_lower is None


def test_the_attack_on_a_round_is_not_above_the_exact_divergence() -> None:
    """The victim and two others have nodes of 0 or 1."""
    law = NODES.node.law[1:]
    for share in (0.0, 0.2, 0.6):
        epsilon = share * NODES.epsilon_local
        power, worst = Fraction(exp_decimal(epsilon)) if share else Fraction(1), Fraction(0)
        for others in itertools.combinations_with_replacement(law, 2):
            for one, other in (law, law[::-1]):
                p, q = batch_view((one, *others)), batch_view((other, *others))
                worst = max(worst, sum((max(Fraction(0), p[at] - power * q[at]) for at in p), Fraction(0)))
        found = delta_bracket(one_round(NODES), 3, epsilon)
        assert found.delta_lower is not None
        assert 0 < found.delta_lower <= worst <= found.delta_upper
    assert RISING.node.values == (0, 1)


def test_it_is_written_and_read_in_one_form() -> None:
    assert read_mechanism(NODES.content()) == NODES
    assert NODES.content() == {
        "mechanism": "tree-nodes",
        "changes": 2,
        "gamma": [2**29, 2**32],
        "periods": 8,
        "side": [2**28, 2**32],
    }
    for change in ({"changes": 9}, {"periods": 0}, {"gamma": [0, 2**32]}, {"side": [2**31, 2**32]}, {"alone": True}):
        with pytest.raises(AccountingError):
            read_mechanism(NODES.content() | change)
    with pytest.raises(AccountingError, match="alone is 1"):
        TreeNodes(8, 2, 2**29, 2**28, 1)  # type: ignore[arg-type]


def test_rounds_are_paid_for_at_the_fewest_reports() -> None:
    assert paid_rounds(NODES, 8) == 4 + 3 + 1 + 1
    assert costliest(NODES, [9, 5, 7], lambda each: each) == [5] * 6
    assert costliest(RISING, [9, 5, 7], lambda each: each) == [5] * 3
    assert paid_rounds(RISING, 8) == 2 + 2 + 1 + 1


def rounds(*reports: int) -> list[RoundCounts]:
    return [
        RoundCounts(number, (QueryCount("active", NODES, count, count, {}),)) for number, count in enumerate(reports)
    ]


def test_a_certificate_states_units_and_is_recomputed() -> None:
    content = statement(TERMS, rounds(3_000, 2_500, 2_000)) | {"round": 2}
    check_statement(TERMS, [("active", NODES)], content)
    (query,), all_rounds = content["queries"], content["all_rounds"]
    assert query["mechanism"] == "tree-nodes"
    assert 0 < query["epsilon_lower"] < query["epsilon_upper"]
    assert content["round_total"]["epsilon_lower"] == query["epsilon_lower"]
    # How many units two streams can differ by depends on the rounds.
    assert all_rounds["epsilon_lower"] is None
    assert all_rounds["epsilon_upper"] == pytest.approx(compose_upper([Part(NODES, 2_000, 6)], 1e-6), rel=1e-5)
    assert all_rounds["epsilon_local"] == pytest.approx(6 * NODES.epsilon_local, rel=1e-5)
    assert content["horizon"]["epsilon_upper"] == pytest.approx(compose_upper([Part(NODES, 2_000, 9)], 1e-6), rel=1e-5)
    for where, member in (("all_rounds", "epsilon_upper"), ("horizon", "epsilon_upper"), ("horizon", "epsilon_local")):
        wrong: Any = copy.deepcopy(content)
        wrong[where][member] *= 0.99
        with pytest.raises(CertificateError, match=where):
            check_statement(TERMS, [("active", NODES)], wrong)
    # One round is proven in balls; of several it is said why not.
    for claim in claims(TERMS, [("active", NODES)], content):
        if claim.required or claim.member == "epsilon_local":
            assert claim.proof() is not None


def test_a_ledger_charges_what_the_outlook_says() -> None:
    expected = forecast(TERMS, [NODES], 8)
    assert expected.epsilon_of_one <= compose_upper([Part(NODES, 2_000, 2)], 1e-6)
    charged, within = ledger(TERMS, "fleet"), 0
    for number in range(8):
        try:
            charged = charged.charge(round_entries(TERMS, "fleet", number, [("active", NODES)]))
        except BudgetExceeded:
            break
        within += 1
    assert within == expected.within
    assert charged.epsilon_spent() == pytest.approx(
        compose_upper([Part(NODES, 2_000, paid_rounds(NODES, within))], 1e-6), rel=1e-6
    )
    assert math.isfinite(expected.epsilon_of_all)
