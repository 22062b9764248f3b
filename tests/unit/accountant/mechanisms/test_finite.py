"""A finite law is checked when it is made, is bounded as its own mechanism would be, and says what it does not know."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp, inf, log
from typing import Any

import numpy as np
import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.bounds.exact import EXACT
from hubbub.accountant.bounds.over_rounds import behind
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.divergence import finite
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.search import FINE
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, RAPPOR, Finite
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.finite import finite_points
from support.messages import NO_DUMMY

Law = tuple[tuple[Fraction, ...], ...]


def law_of(*rows: Sequence[str | int | Fraction]) -> Law:
    return tuple(tuple(map(Fraction, row)) for row in rows)


TERNARY = law_of(("0.9", "0.08", "0.02"), ("0.1", "0.8", "0.1"), ("0.02", "0.08", "0.9"))

WHOLE = Finite(TERNARY)


def as_finite(mechanism: KRR | RAPPOR, inputs: int) -> Finite:
    return Finite(tuple(mechanism.law(x) for x in range(inputs)))


def test_its_local_epsilon_is_that_of_neighbors_rounded_up() -> None:
    near = Finite(TERNARY, neighbors=((1, 0), (1, 2)))
    assert WHOLE.likelihood_ratio == near.likelihood_ratio == 45
    assert log(45) <= WHOLE.epsilon_local <= log(45) * (1 + 1e-15)
    assert near.neighbor_ratio == 10
    assert log(10) <= near.epsilon_local <= log(10) * (1 + 1e-15)
    assert near.neighbors == ((0, 1), (1, 2))
    assert WHOLE.gamma == Fraction("0.12")
    assert Finite(TERNARY, neighbors=((0, 1), (2, 1), (0, 2))) == WHOLE
    assert Finite(TERNARY, blanket=WHOLE.masses) != WHOLE


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"law": law_of((1, 0))}, "from 2 to 128 rows"),
        ({"law": "12"}, "from 2 to 128 rows"),
        ({"law": law_of((1, 0), (1,))}, "give 2 probabilities"),
        ({"law": ((), ())}, "from 1 to 4096 outputs"),
        ({"law": ((0.5, 0.5), (0.5, 0.5))}, "exact fractions"),
        ({"law": law_of(("1/2", "1/3"), ("1/2", "1/2"))}, "sums to 5/6"),
        ({"law": law_of((2, -1), ("1/2", "1/2"))}, "from 0 to 1"),
        ({"law": ((Fraction(1, 3**200), 1 - Fraction(1, 3**200)), (Fraction(1, 2), Fraction(1, 2)))}, "256 bits"),
        ({"law": law_of((1, 0), ("1/2", "1/2"))}, "output 1 is possible for input 1 and impossible for input 0"),
        ({"law": law_of((Fraction(1, 2**90), 1 - Fraction(1, 2**90)), ("1/2", "1/2"))}, "at most 2\\*\\*80-fold"),
        ({"blanket": law_of(("0.2", "0.08", "0.02"))[0]}, "give at most 1/50"),
        ({"blanket": law_of(("0.001", "0.08", "0.02"))[0]}, "can be below 1/50"),
        ({"neighbors": ((0, 0),)}, "two different inputs"),
        ({"neighbors": ((0, 3),)}, "from 0 to 2"),
        ({"neighbors": ()}, "at least one"),
        ({"dummy": law_of(("0.001", "0.499", "0.5"))[0]}, "hides less than a person"),
        ({"dummy": law_of(("0.5", "0.5", "0.5"))[0]}, "dummy sums to 3/2"),
    ],
)
def test_what_is_not_a_law_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(AccountingError, match=message):
        Finite(**{"law": TERNARY, **given})


def test_a_law_of_thousands_of_denominators_is_refused_before_it_is_added_up() -> None:
    """Pairs a/d and 1/2048 − a/d: rows that sum to 1, over a common denominator of a million bits."""
    below = [2**240 + 2 * place + 1 for place in range(2048)]
    chances = [Fraction(each // 4100, each) for each in below]
    row = tuple(value for chance in chances for value in (chance, Fraction(1, 2048) - chance))
    with pytest.raises(
        AccountingError, match=r"common denominator of .* at most 16384 are allowed; write all of them over one"
    ):
        Finite((row,) * 4)
    few = tuple(value for chance in (chances[:32] * 64) for value in (chance, Fraction(1, 2048) - chance))
    assert len(Finite((few, few[::-1])).law[0]) == 4096
    with pytest.raises(AccountingError, match="common denominator"):
        Finite((few, few[::-1]), dummy=row)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("reports", [10, 1000, 10**6])
@pytest.mark.parametrize(
    ("own", "inputs"),
    [
        (KRR(3, Fraction(1, 4)), 3),
        (KRR(8, Fraction(1, 2)), 8),
        (RAPPOR(4, Fraction(3, 4), Fraction(1, 4)), 4),
        (RAPPOR(3, Fraction(1, 2), Fraction(1, 10)), 3),
    ],
    ids=repr,
)
def test_it_is_bounded_as_the_mechanism_whose_law_it_is(own: KRR | RAPPOR, inputs: int, reports: int) -> None:
    law = as_finite(own, inputs)
    assert law.epsilon_local == own.epsilon_local
    assert law.gamma == own.gamma
    assert len(finite_points(law).pairs) == 1
    # RAPPOR alone has a smaller bound than its blanket's.
    ours, theirs = epsilon_bracket(law, reports, 1e-6), epsilon_bracket(own, reports, 1e-6, bound="blanket")
    assert ours.epsilon_upper <= theirs.epsilon_upper * (1 + 1e-4)
    assert ours.epsilon_lower is not None
    assert theirs.epsilon_lower is not None
    slack = 1e-3 if reports > 10 else 0.05
    assert theirs.epsilon_lower * (1 - slack) <= ours.epsilon_lower <= ours.epsilon_upper
    if isinstance(own, KRR):
        rounds = compose_upper([Part(own, reports, 4)], 1e-6)
        assert compose_upper([Part(law, reports, 4)], 1e-6) <= rounds * (1 + 2e-3)
    else:
        with pytest.raises(OutsideConditions, match="ask for 'whole-law'"):
            behind(Part(own, reports, 4), "blanket")


@pytest.mark.parametrize(
    ("law", "limit", "released"),
    [(KRR.from_local_epsilon(4, 2.0), 0.35151, 0.35224), (RAPPOR.from_local_epsilon(4, 2.0), 0.30249, 0.3167)],
    ids=["krr", "rappor"],
)
def test_it_is_ahead_of_the_numbers_that_were_released_elsewhere(
    law: KRR | RAPPOR, limit: float, released: float
) -> None:
    """arXiv 2504.07414, n = 1000, δ = 1e-6: its code took 35 s for kRR."""
    # Probabilities that a file can hold: rounded to 2⁻⁶⁴, which moves ε by far less than the last digit here.
    rows = tuple(tuple(Fraction(round(value * 2**64), 2**64) for value in law.law(x)) for x in range(4))
    exact = Finite(tuple((*row[:-1], 1 - sum(row[:-1])) for row in rows))
    found = epsilon_bracket(exact, 1000, 1e-6)
    assert found.epsilon_upper <= limit < released
    assert found.epsilon_upper >= (found.epsilon_lower or 0.0) > 0.25


def test_fewer_neighbors_cost_less_and_clones_still_rest_on_all_inputs() -> None:
    near = Finite(TERNARY, neighbors=((0, 1), (1, 2)))
    every, some = (epsilon_bracket(each, 1000, 1e-6) for each in (WHOLE, near))
    assert some.epsilon_upper < every.epsilon_upper
    # Their proof takes the blanket of all inputs for granted, so it may not start from the neighbors' ratio.
    clones = [EXACT["stronger-clones"].delta(each, 1000, 0.1)[1] for each in (WHOLE, near)]
    assert clones[0] == clones[1]
    rdp = [EXACT["stronger-clones"].rdp(each, 1000, 2.0) for each in (WHOLE, near)]
    assert rdp[0] == rdp[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("law", "local"),
    [
        (law_of(("1/2", "1/2"), ("1/2", "1/2")), 0.0),
        (law_of((1,), (1,)), 0.0),
        (law_of(("1/2", "1/2", 0), ("1/4", "3/4", 0)), log(2)),
        (law_of(("1/2", "1/2"), ("1/2", "1/2"), ("1/4", "3/4")), log(2)),
        (law_of(("1/2", "1/2"), (Fraction(1, 2) + Fraction(1, 2**60), Fraction(1, 2) - Fraction(1, 2**60))), 2.0**-59),
    ],
    ids=["alike", "one output", "never sent", "two alike", "almost alike"],
)
def test_laws_at_the_edge_are_answered(law: Law, local: float) -> None:
    mechanism = Finite(law)
    assert mechanism.epsilon_local == pytest.approx(local)
    for reports in (1, 1000, 10**12):
        found = epsilon_bracket(mechanism, reports, 1e-6)
        assert 0.0 <= (found.epsilon_lower or 0.0) <= found.epsilon_upper <= mechanism.epsilon_local
        assert compose_upper([Part(mechanism, reports, 3)], 1e-6) <= 3 * mechanism.epsilon_local * (1 + 1e-15)


def test_dummies_need_a_law_and_then_count_as_people() -> None:
    with pytest.raises(OutsideConditions, match=NO_DUMMY):
        Part(WHOLE, 100, dummies=1)
    for name in ("blanket", "stronger-clones", "clones"):
        with pytest.raises(AccountingError, match=NO_DUMMY):
            epsilon_bracket(WHOLE, 100, 1e-6, bound=name, dummies=1)
    known = Finite(TERNARY, dummy=TERNARY[1])
    beside = epsilon_bracket(known, 500, 1e-6, dummies=500).epsilon_upper
    assert beside == pytest.approx(epsilon_bracket(known, 1000, 1e-6).epsilon_upper, rel=1e-4)


def test_no_pair_that_could_be_the_worst_is_passed_over() -> None:
    points = finite_points(WHOLE)
    for epsilon in (0.0, 0.05, 0.3, 1.0, 3.0):
        for reports in (1, 30, 1000, 10**6):
            every = [
                EXACT["blanket"].delta(Finite(TERNARY, WHOLE.masses, (pair,)), reports, epsilon)[1]
                for pair in ((0, 1), (0, 2), (1, 2))
            ]
            ceiling = float(points.ceilings(reports, epsilon).max())
            assert EXACT["blanket"].delta(WHOLE, reports, epsilon)[1] == pytest.approx(max(every), rel=1e-3, abs=1e-250)
            assert max(every) <= max(exp(min(0.0, ceiling)), 1e-300) * (1 + 1e-9)


def test_of_many_pairs_few_are_asked_finely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rough upper end at most the value found excludes a pair: no finely asked one is above what is stated."""
    rows = [[1 + (place * place * 7919 + 31 * x * place) % 61 for place in range(16)] for x in range(8)]
    points = finite_points(Finite(tuple(tuple(Fraction(each, sum(row)) for each in row) for row in rows)))
    assert len(points.coded) == 56
    asked: list[float] = []

    def noted(sums: IidSum, precision: float) -> LogBracket:
        asked.append(precision)
        return positive_part(sums, precision)

    monkeypatch.setattr(finite, "positive_part", noted)
    for reports, epsilon in ((100, 0.3), (1000, 0.05), (1000, 0.4)):
        asked.clear()
        found = points.found(reports, epsilon, FINE)
        alone = [positive_part(points.sum_at(place, reports, epsilon), FINE) for place in range(56)]
        assert max(each.lower for each in alone) <= found.upper
        assert found.upper == pytest.approx(max(each.upper for each in alone), abs=1e-2)
        assert found.lower <= max(each.upper for each in alone)
        assert asked.count(FINE) <= 6
        with monkeypatch.context() as patched:
            # In any order: the worst pair comes last or in between.
            patched.setattr(finite.FinitePoints, "ceilings", lambda *_: np.full(56, inf))
            assert points.found(reports, epsilon, FINE).upper == pytest.approx(found.upper, abs=1e-2)
