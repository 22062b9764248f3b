"""An encoding whose first two moments are exact, and the errors that planning states."""

from __future__ import annotations

import os
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import TaskError
from hubbub.queries.design import Design
from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.query import Query, read_question
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Randomizer, Tally
from hubbub.queries.randomizers.unary import UnaryEncoding
from support.estimate_rows import number

DELAY = Variance("delay", -30.0, 180.0, "minutes", levels=4)
UNIT = Variance("value", 0.0, 1.0, levels=4)


def law(question: Variance, value: float) -> dict[int, Fraction]:
    nearest, below, above = question.neighbors(value)
    found = {nearest - 1: below, nearest: 1 - below - above, nearest + 1: above}
    return {place: chance for place, chance in found.items() if chance}


@given(st.floats(-50, 200) | st.integers(-50, 200), st.integers(1, 40))
def test_the_first_two_moments_of_the_encoding_are_exact(value: float, levels: int) -> None:
    """By exact arithmetic: E t = z and E t² − 1/(4·levels²) = z², whatever the number is."""
    question = Variance("delay", -30.0, 180.0, levels=levels)
    chances = law(question, value)
    assert sum(chances.values()) == 1
    assert min(chances) >= 0
    assert max(chances) < question.answers
    assert min(chances.values()) > 0
    z = (Fraction(min(max(value, -30), 180)) + 30) / 210
    points = {place: (place - Fraction(1, 2)) / levels for place in chances}
    assert sum(chance * points[place] for place, chance in chances.items()) == z
    squares = sum(chance * points[place] ** 2 for place, chance in chances.items())
    assert squares - Fraction(1, 4 * levels**2) == z**2


def test_an_answer_is_drawn_with_those_chances() -> None:
    """20,000 draws; each share is within 6 deviations of its chance (2e-9 a check), and 3 % elsewhere is rejected."""
    drawn = Counter(DELAY.encode(55.0, os.urandom) for _ in range(20_000))
    chances = law(DELAY, 55.0)
    assert set(drawn) == set(chances)
    for place, chance in chances.items():
        share = float(chance)
        assert abs(drawn[place] / 20_000 - share) < 6 * (share * (1 - share) / 20_000) ** 0.5


def test_what_is_no_finite_number_is_refused() -> None:
    for wrong in ("5", None, float("nan"), True):
        with pytest.raises(AnswerError):
            DELAY.encode(wrong, os.urandom)


def test_a_draft_has_no_levels_and_a_task_has() -> None:
    draft = {"name": "delay", "kind": "variance", "lower": -30, "upper": 180, "unit": "minutes"}
    question = read_question("query[0]", draft)
    assert question == Variance("delay", -30.0, 180.0, "minutes")
    with pytest.raises(TaskError, match="has no levels yet"):
        question.answers  # noqa: B018 - it raises
    query = Query(DELAY, KRandomizedResponse(6, 2**30))
    assert query.content()["kind"] == "variance"
    assert Query.read("query[0]", query.content()) == query
    with pytest.raises(FieldError, match="levels is 999998; it must be a whole number from 1 to 999997"):
        Variance("delay", 0.0, 1.0, levels=999_998).check("query[0]")


RANDOMIZERS: tuple[Randomizer, ...] = (
    KRandomizedResponse(6, 2**30),
    KRandomizedResponse(6, 2**20),
    UnaryEncoding(6, 2**31, 2**28),
    UnaryEncoding(6, 2**32 - 2**28, 2**28),
)


def spread(weights: np.ndarray, randomizer: Randomizer, value: float, question: Variance = UNIT) -> float:
    """The exact variance of one report's part of a statistic, over rounding and the randomizer."""
    chances = {place: float(chance) for place, chance in law(question, value).items()}
    each = randomizer.variances(weights)
    mean = sum(chance * weights[place] for place, chance in chances.items())
    rounding = sum(chance * (weights[place] - mean) ** 2 for place, chance in chances.items())
    return float(rounding + sum(chance * each[place] for place, chance in chances.items()))


@pytest.mark.parametrize("randomizer", RANDOMIZERS, ids=range(4))
def test_the_planned_error_is_the_largest_over_all_numbers(randomizer: Randomizer) -> None:
    """By brute force over a thousand numbers."""
    weights = UNIT.headline()
    seen = max(spread(weights, randomizer, value) for value in np.linspace(0, 1, 1001))
    assert UNIT.worst(randomizer.variances(weights)) == pytest.approx(seen, rel=1e-4)
    assert UNIT.worst(randomizer.variances(weights)) >= seen * (1 - 1e-9)


@pytest.mark.parametrize("randomizer", RANDOMIZERS, ids=range(4))
@given(m=st.floats(-0.5, 0.5), share=st.floats(0, 1), value=st.floats(0, 1))
def test_no_mean_and_no_number_has_a_larger_error_than_is_planned(
    randomizer: Randomizer, m: float, share: float, value: float
) -> None:
    grid = (np.arange(6) - 0.5) / 4 - 0.5
    worst = UNIT.worst(randomizer.variances(UNIT.headline())) * (1 + 1e-9)
    # Where everybody answers; and in a group, whose size is estimated, with any variance that goes with the mean.
    everybody = 4 * (grid**2 - 1 / 64 - 2 * m * grid)
    assert spread(everybody, randomizer, value) <= worst
    one_group = 4 * ((grid - m) ** 2 - 1 / 64 - share * (0.25 - m**2))
    assert spread(one_group, randomizer, value) <= worst


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 30))
def test_rounding_is_stated_at_no_less_than_it_is(value: float, m: float, levels: int) -> None:
    """One person at distance |z−m|, whose σ is that: the bound holds person by person, before Cauchy and Schwarz."""
    question = Variance("value", 0.0, 1.0, levels=levels)
    grid = (np.arange(levels + 2) - 0.5) / levels
    chances = {place: float(chance) for place, chance in law(question, value).items()}
    weights = (grid - m) ** 2
    mean = sum(chance * weights[place] for place, chance in chances.items())
    rounding = sum(chance * (weights[place] - mean) ** 2 for place, chance in chances.items())
    assert rounding <= question._rounding_of_squares((value - m) ** 2) / levels**2 + 1e-12


def test_the_levels_that_are_planned_have_the_least_error() -> None:
    design = Design(Variance("value", 0.0, 1.0))
    assert list(design.sizes)[:2] == [3, 4]
    errors = {size: design.mse(size, KRandomizedResponse(size, 2**28), 10**5, 0) for size in range(3, 40)}
    assert errors[3] > errors[10]


def test_one_step_tells_the_variance_too() -> None:
    """Without noise: half at either end has the largest variance, all in the middle has none."""
    one = Query(Variance("value", 0.0, 1.0, levels=1), KRandomizedResponse(3, 1))
    # At the ends a half goes to each of two neighbors; in the middle an eighth goes to either side.
    ends, middle = np.array([2500, 5000, 2500]), np.array([1250, 7500, 1250])
    assert number(one.estimates(Tally(ends, 10_000), 0), "variance").value == pytest.approx(0.25, abs=1e-4)
    assert number(one.estimates(Tally(middle, 10_000), 0), "variance").value == pytest.approx(0.0, abs=1e-4)


def test_nobody_has_no_variance() -> None:
    silent = Query(Variance("value", 0.0, 1.0, optional=True, levels=1), KRandomizedResponse(4, 2**30))
    found = silent.estimates(Tally(np.array([0, 0, 0, 100]), 100), 0)
    assert [row.statistic for row in found.rows if row.estimate is None] == ["mean", "variance"]


def test_true_values_are_of_the_clipped_numbers() -> None:
    truth = DELAY.truth([-100.0, 10.0, 50.0, None])
    assert truth["variance", None] == pytest.approx(np.var([-30.0, 10.0, 50.0]))
    assert truth["mean", None] == pytest.approx(10.0)
    assert Variance("delay", 0.0, 1.0, levels=1).truth([]) == {("answered", None): 0.0, ("sum", None): 0.0}
