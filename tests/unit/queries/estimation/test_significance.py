"""Exact p-values of counts that nobody holds, and the two procedures over many of them."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from hubbub.queries.estimation.significance import bounded_p_values, discovered, held, with_verdicts
from hubbub.queries.query import Query
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Randomizer, Tally
from hubbub.queries.randomizers.unary import UnaryEncoding

NAMES = ("a", "b", "c", "d")
KRR = KRandomizedResponse(4, 2**30)
UNARY = UnaryEncoding(4, 2**31, 2**28)


def binomial(count: int, chance: Fraction) -> list[Fraction]:
    return [comb(count, each) * chance**each * (1 - chance) ** (count - each) for each in range(count + 1)]


@pytest.mark.parametrize("dummies", [0, 1, 9])
@pytest.mark.parametrize(
    ("randomizer", "base", "dummy"),
    [(KRR, Fraction(1, 16), Fraction(1, 4)), (UNARY, Fraction(1, 16), Fraction(1, 16) + Fraction(7, 64))],
    ids=["krr", "unary"],
)
def test_a_p_value_is_the_exact_chance_of_as_many(
    randomizer: Randomizer, base: Fraction, dummy: Fraction, dummies: int
) -> None:
    """By exact convolution of the two binomials."""
    people = 20
    law = np.convolve(np.array(binomial(people, base)), np.array(binomial(dummies, dummy)))
    counts = np.array([0, 2, 7, min(20, people + dummies)])
    found = Debiased(randomizer, Tally(counts, people + dummies), dummies).p_values()
    assert found.tolist() == pytest.approx([float(sum(law[count:])) for count in counts], rel=1e-9)


def test_small_p_values_keep_their_digits() -> None:
    found = Debiased(KRandomizedResponse(4, 2**10), Tally(np.array([30, 40, 0, 5000]), 5070)).p_values()
    rate = Fraction(2**10, 2**34)
    chance = sum(comb(5070, each) * rate**each * (1 - rate) ** (5070 - each) for each in range(30, 60))
    assert found[0] == pytest.approx(float(chance), rel=1e-9)
    assert 0 < found[1] < found[0] < 1e-100


def test_millions_of_dummies_are_convolved_where_their_mass_is() -> None:
    """With so many, both are nearly normal: a little above the normal law's chance, as both are skewed."""
    randomizer, people, dummies = KRandomizedResponse(1000, 2**31), 10**6, 10**6
    mean = people / 2000 + dummies / 1000
    counts = np.full(1000, round(mean + 2 * (people / 2000 + dummies / 1000) ** 0.5))
    found = Debiased(randomizer, Tally(counts, people + dummies), dummies).p_values()
    assert found[0] == pytest.approx(0.0228, rel=0.12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_every_intersection_rejects(values: list[float]) -> None:
    """By definition of the step-down: everything up to the first that is too large for how many are left."""
    found, left, expected = held(values, 0.1), len(values), set()
    for place in sorted(range(len(values)), key=lambda each: values[each]):
        if values[place] * left > 0.1 * (1 + 1e-12):
            break
        expected.add(place)
        left -= 1
    assert {place for place, one in enumerate(found) if one} == expected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.01, 0.05, 0.3]))
def test_discoveries_are_those_up_to_the_last_under_its_line(values: list[float], rate: float) -> None:
    harmonic = sum(1 / rank for rank in range(1, len(values) + 1))
    ordered = sorted(values)
    passing = [rank for rank, value in enumerate(ordered, 1) if value <= rank * rate / (len(values) * harmonic)]
    found = discovered(np.array(values), rate)
    assert len(found) == max(passing, default=0)
    assert sorted(values[place] for place in found) == ordered[: len(found)]


def test_a_histogram_says_which_counts_are_not_told_from_zero() -> None:
    query = Query(Histogram("theme", NAMES), KRR)
    found = query.estimates(Tally(np.array([700, 200, 66, 60]), 1026), 0)
    assert [row.significant for row in found.rows] == [True, True, False, False, None]
    assert all(row.p_value is not None for row in found.rows[:4])


@pytest.mark.parametrize("dummies", [0, 30])
@pytest.mark.parametrize("randomizer", [KRR, UNARY], ids=["krr", "unary"])
def test_a_group_s_cells_and_its_totals_are_tested_exactly(randomizer: Randomizer, dummies: int) -> None:
    """By convolution: a report is one of two symbols with probability γ/2, or has two bits, each 1 with 1/16."""
    question = Grouped("theme", (Histogram("region", ("n", "s")),), Histogram("theme", ("a", "b")))
    tally, people = Tally(np.array([90, 20, 26, 70]), 206), 206 - dummies
    found = Query(question, randomizer).estimates(tally, dummies)
    exact = Debiased(randomizer, tally, dummies).p_values().tolist()
    cells = [row.p_value for row in found.rows if row.group and row.statistic == "count"]
    assert cells == pytest.approx(exact)
    base, dummy = Fraction(1, 16), Fraction(1, 4)
    if randomizer is KRR:
        laws = binomial(people, 2 * base), binomial(dummies, 2 * dummy)
    else:
        laws = binomial(2 * people + dummies, base), binomial(dummies, base + 2 * Fraction(7, 64))
    law = np.convolve(*(np.array([float(each) for each in one]) for one in laws))
    whole = [row.p_value for row in found.rows if not row.group and row.statistic == "count"]
    assert whole == pytest.approx([law[116:].sum(), law[90:].sum()], rel=1e-7)


def test_a_verdict_that_stands_is_kept() -> None:
    rows = (
        Row("count", Estimate(1.0, 1.0, 0.0, 2.0), "a", p_value=0.5, significant=True),
        Row("count", Estimate(1.0, 1.0, 0.0, 2.0), "b", p_value=0.02),
        Row("answered", Estimate(1.0, 1.0, 0.0, 2.0)),
    )
    assert [row.significant for row in with_verdicts(Estimates("histogram", rows)).rows] == [True, True, None]


@given(st.integers(1, 40), st.sampled_from([0.01, 0.1, 0.4]))
def test_a_bounded_chance_is_never_below_the_exact_one(count: int, chance: float) -> None:
    law = [float(each) for each in binomial(40, Fraction(chance))]
    variance = 40 * chance * (1 - chance)
    (bound,) = bounded_p_values(np.array([count - 40 * chance]), np.array([variance]))
    assert bound >= sum(law[count:]) * (1 - 1e-12)
