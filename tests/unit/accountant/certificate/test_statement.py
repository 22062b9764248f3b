"""A statement that the accountant makes is one that it accepts, at every size and for every randomizer."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hubbub.accountant.certificate import batches, check
from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.pairs import Part

pytestmark = pytest.mark.usefixtures("composed_once")

CASES = [
    # Categories, γ · 2³², reports, δ: in each, one evaluation of the attack's δ at the rounded ε falls short of δ by
    # its own slack, though the search, which evaluates more finely, found that ε.
    (7, 383_671_348, 2_000, 1e-2),
    (5, 3_256_437_932, 500, 1e-2),
    (8, 4_222_080_053, 20_000, 1e-4),
    (17, 98_898_995, 2_000, 1e-10),
    (3, 814_478_118, 1_000_000, 1e-4),
    # And some in which it does not.
    (2, 131_745_786, 2_000, 1e-2),
    (2, 2**31, 2, 1e-6),
    (16, 2**30, 10_000, 1e-6),
]


@pytest.mark.parametrize(("categories", "gamma", "reports", "delta"), CASES)
def test_every_statement_holds_when_it_is_recomputed(categories: int, gamma: int, reports: int, delta: float) -> None:
    mechanism = KRR.from_numerator(categories, gamma)
    terms = Terms(epsilon=50.0, delta=delta, epsilon_local=50.0, honest_share=1.0, minimum_reports=2)
    content = statement(terms, [RoundCounts(0, (QueryCount("theme", mechanism, reports, reports, {}),))])
    check_statement(terms, [("theme", mechanism)], {**content, "round": 0})


def test_queries_that_are_asked_and_answered_alike_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = KRR.from_numerator(4, 2**30)
    terms = Terms(epsilon=50.0, delta=1e-6, epsilon_local=50.0, honest_share=1.0, minimum_reports=2)
    names = ("theme", "drink", "milk")
    content = statement(terms, [RoundCounts(0, tuple(QueryCount(name, mechanism, 900, 900, {}) for name in names))])
    asked: list[float] = []
    whole = check.delta_bracket

    def counted(*given: object, **more: object) -> object:
        asked.append(0.0)
        return whole(*given, **more)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(check, "delta_bracket", counted)
    check._delta_at.cache_clear()
    check_statement(terms, [(name, mechanism) for name in names], {**content, "round": 0})
    assert len(asked) == 2, "the upper end and the lower one"


def test_the_local_epsilon_of_many_rounds_is_summed_once_for_each_query(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanisms = [KRR.from_numerator(categories, 2**30) for categories in (2, 3, 7)]
    parts = [Part(each, 100 + number) for number in range(100) for each in mechanisms]
    exact = sum(100 * Fraction(each.epsilon_local) for each in mechanisms)
    made: list[object] = []

    def counted(value: object, *more: int) -> Fraction:
        made.append(value)
        return Fraction(value, *more)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(batches, "Fraction", counted)
    found = batches.local_of(parts)
    assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 2**52))
    assert batches.local_sum([part.mechanism for part in parts]) == found
    assert len(made) < 20
