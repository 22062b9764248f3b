"""A statement that the accountant makes is one that it accepts, at every size and for every randomizer."""

from __future__ import annotations

import pytest

from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.mechanisms import KRR

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
