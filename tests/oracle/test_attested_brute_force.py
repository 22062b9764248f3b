"""What is left where fewer reports are valid than the analyzer says, against every data set in exact arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import pytest

from hubbub.accountant.certificate.alone import ALONE, IF_MINIMUM_VALID
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.mechanisms import KRR, RAPPOR, Finite, Hashed, LocalMechanism, exp_decimal
from hubbub.accountant.numbers import honest_reports
from support.exact_batches import batch_view

Row = tuple[Fraction, ...]

REPORTS, MINIMUM, DELTA = 4, 2, 0.05

THIRD = Fraction(1, 3)
FINITE = Finite(
    ((Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)), (Fraction(1, 6), Fraction(1, 2), THIRD)),
    None,
    None,
    (THIRD,) * 3,
)
HASHED = Hashed(3, 2, Fraction(1, 2))
"""Two rows of three cells; of three answers two share a cell of the second row."""
PLACES = ((0, 1, 2), (0, 0, 1))


def hashed_row(symbol: int) -> Row:
    uniform = HASHED.gamma / 6
    return tuple(
        uniform + (1 - HASHED.gamma) / 2 * (PLACES[row][symbol] == cell) for row in range(2) for cell in range(3)
    )


MECHANISMS: dict[str, tuple[LocalMechanism, Sequence[Row], Row]] = {
    "krr 2": (KRR(2, Fraction(1, 4)), [KRR(2, Fraction(1, 4)).law(x) for x in range(2)], (Fraction(1, 2),) * 2),
    "krr 3": (KRR(3, Fraction(1, 4)), [KRR(3, Fraction(1, 4)).law(x) for x in range(3)], (THIRD,) * 3),
    "finite": (FINITE, FINITE.law, (THIRD,) * 3),
    "hashed": (HASHED, [hashed_row(symbol) for symbol in range(3)], (Fraction(1, 6),) * 6),
}
RAPPOR_2 = RAPPOR.from_numerators(2, 3 * 2**30, 2**30)
_ROWS = [RAPPOR_2.law(x) for x in range(2)]
MECHANISMS["unary"] = (RAPPOR_2, _ROWS, tuple(sum(column) / 2 for column in zip(*_ROWS, strict=True)))


@cache
def exact_delta(name: str, people: int, dummies: int, epsilon: float, rounds: int = 1) -> Fraction:
    """The largest divergence of so many equal rounds, over all data sets and both inputs of the victim."""
    _, rows, dummy = MECHANISMS[name]
    worst, power = Fraction(0), Fraction(exp_decimal(epsilon))
    for others in itertools.combinations_with_replacement(rows, people - 1):
        hiding = (*others, *[dummy] * dummies)
        for one, another in itertools.permutations(rows, 2):
            p, q = batch_view((*hiding, one)), batch_view((*hiding, another))
            total = Fraction(0)
            for places in itertools.product(p, repeat=rounds):
                first, second = Fraction(1), Fraction(1)
                for place in places:
                    first, second = first * p[place], second * q[place]
                total += max(Fraction(0), first - power * second)
            worst = max(worst, total)
    return worst


def stated(name: str, dummies: int, share: float, valid: int = REPORTS, rounds: int = 1) -> dict[str, float]:
    """What is certified of batches of which so many are stated to be valid."""
    terms = Terms(10.0, DELTA, 20.0, share, MINIMUM, dummies=dummies)
    query = QueryCount("q", MECHANISMS[name][0], REPORTS, valid, {"unopenable": REPORTS - valid})
    made = statement(terms, [RoundCounts(number, (query,)) for number in range(rounds)])
    found: dict[str, float] = made["all_rounds"] if rounds > 1 else made["queries"][0]
    if rounds == 1:
        assert made["round_total"][ALONE] == pytest.approx(found[ALONE], rel=1e-3)
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(("dummies", "share"), [(0, 1.0), (2, 1.0), (1, 0.75)])
def test_neither_number_is_below_the_truth_however_many_are_valid(name: str, dummies: int, share: float) -> None:
    found = stated(name, dummies, share)
    for valid in range(1, REPORTS + 1):
        people = max(1, honest_reports(valid, REPORTS, share))
        assert exact_delta(name, people, dummies, found[ALONE]) <= DELTA
        if valid >= MINIMUM:
            assert exact_delta(name, people, dummies, found[IF_MINIMUM_VALID]) <= DELTA


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_is_certified_at_a_lie_is_below_the_truth_and_the_other_two_are_not(name: str) -> None:
    """All four are stated to be valid where one is: the attack that the two numbers are there for."""
    lie, truth = stated(name, 0, 1.0), stated(name, 0, 1.0, valid=1)
    assert exact_delta(name, 1, 0, lie["epsilon_upper"]) > DELTA
    assert lie["epsilon_upper"] < lie[IF_MINIMUM_VALID] < lie[ALONE]
    assert lie[ALONE] == truth[ALONE]
    assert truth[IF_MINIMUM_VALID] is None
    assert exact_delta(name, 1, 0, lie[ALONE]) <= DELTA


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["krr 2", "krr 3", "finite", "unary"])
@pytest.mark.parametrize("dummies", [0, 1])
def test_over_two_rounds_neither_number_is_below_the_truth(name: str, dummies: int) -> None:
    found = stated(name, dummies, 1.0, rounds=2)
    assert exact_delta(name, 1, dummies, found[ALONE], rounds=2) <= DELTA
    assert exact_delta(name, MINIMUM, dummies, found[IF_MINIMUM_VALID], rounds=2) <= DELTA
    if not dummies:
        assert exact_delta(name, 1, dummies, found["epsilon_upper"], rounds=2) > DELTA
