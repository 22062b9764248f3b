"""Intervals cover however few reports are noise, each and together, and empty totals are not called significant.

The exact coverage of a count's interval is summed in tests/unit/queries/estimation/test_count_law.py. Here are bands,
families of p-values, totals over groups, sums and ratios. Inputs are fixed, reports are drawn from the exact laws. A
coverage fails below the binomial law's quantile of 1e-6: the false-alarm rate of a check, of which there are about 400,
a tenth of them in a usual run. Seeds are fixed, so a run does not flake; the rate is that of a new seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw
from hubbub.queries.estimation.estimates import Estimates, Row, Truth
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.query import Query
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Randomizer, Tally
from hubbub.queries.randomizers.unary import UnaryEncoding
from support.estimate_rows import counts
from support.simulated_batches import People, at, least_share, most_share, simulated
from support.thoroughness import usually

pytestmark = pytest.mark.usefixtures("counted_once")

BATCHES = usually(120, 600)
LAMBDAS = (0.01, 0.1, 0.3, 1, 3, 10, 30, 100)
"""Expected reports of a symbol that are noise."""

CENTRAL = NoiseLaw.of("geometric", Fraction(6065, 10000), 25)


def batches(query: Query, people: Sequence[People], dummies: int = 0) -> list[Estimates]:
    """What is published of many batches, with uniform dummies or the noise of the query."""
    reports, valid = simulated(replace(query, noise=None), people, BATCHES, 1), sum(size for size, _ in people)
    generator, symbols = np.random.default_rng(2), query.symbols
    if query.noise is None:
        added = generator.multinomial(dummies, [1 / symbols] * symbols, size=BATCHES)
    else:
        law = np.array([weight / (1 << TABLE_BITS) for weight in query.noise.weights])
        added = generator.choice(len(law), size=(BATCHES, symbols), p=law / law.sum())
    each = zip(reports, added, strict=True)
    return [query.estimates(Tally(found + more, valid + int(more.sum())), int(more.sum())) for found, more in each]


def all_covered(found: Sequence[Estimates], truth: Truth, statistic: str) -> bool:
    """Whether each of the statistic's rows covers often enough, of the batches in which it has a value."""

    def covers(row: Row) -> bool:
        room = 1e-9 * (1 + abs(truth[row.key]))
        return row.estimate is not None and row.estimate.lower - room <= truth[row.key] <= row.estimate.upper + room

    seen: dict[tuple[str, str | None], list[bool]] = {}
    for row in (row for each in found for row in each.rows if row.statistic == statistic and row.estimate is not None):
        seen.setdefault(row.key, []).append(covers(row))
    # A ratio has no value if nobody seems to answer.
    return bool(seen) and all(np.mean(each) > least_share(len(each)) for each in seen.values())


def share_together(found: Sequence[Estimates], truth: Truth) -> float:
    """How often every row's simultaneous interval has its truth."""

    def covers(row: Row) -> bool:
        low, high = (row.estimate and row.estimate.simultaneous) or (-math.inf, math.inf)
        room = 1e-9 * (1 + abs(truth[row.key]))
        return low - room <= truth[row.key] <= high + room

    return float(np.mean([all(covers(row) for row in each.rows if row.key in truth) for each in found]))


NAMES = tuple(f"c{number}" for number in range(20))
HELD = (1500, 300, 100, 50, 30, 10, 5, 3, 1, 1, *[0] * 10)
KINDS = {"plain": (0, None), "dummies": (200, None), "noise": (0, CENTRAL)}


@pytest.mark.sampled("plain-1", "dummies-0.3", "noise-0.3")
@pytest.mark.parametrize("expected", LAMBDAS)
@pytest.mark.parametrize("kind", KINDS)
def test_bands_of_counts_cover_all_at_once(kind: str, expected: float) -> None:
    dummies, noise = KINDS[kind]
    gamma = int(expected * 20 / sum(HELD) * DENOMINATOR / 1.01)
    query = Query(Histogram("c", NAMES), KRandomizedResponse(20, min(gamma, DENOMINATOR * 3 // 4)), noise)
    people = [(size, at(place, 20)) for place, size in enumerate(HELD) if size]
    truth = {("count", name): float(size) for name, size in zip(NAMES, HELD, strict=True)}
    found = batches(query, people, dummies)
    assert share_together(found, truth) > least_share(BATCHES)
    assert all_covered(found, truth, "count")


def test_bands_of_the_normal_law_do_not() -> None:
    """Power: the test notices intervals as they were, of 3.02 standard errors each."""
    query = Query(Histogram("c", NAMES), KRandomizedResponse(20, int(0.5 * 20 / 2000 * DENOMINATOR)))
    found = batches(query, [(size, at(place, 20)) for place, size in enumerate(HELD) if size])
    numbers = np.array([[(each.value, each.standard_error) for each in counts(one)] for one in found])
    away = np.abs(numbers[:, :, 0] - np.array(HELD)) / numbers[:, :, 1]
    assert np.mean(away.max(axis=1) <= 3.02) < least_share(BATCHES)


CATEGORIES = tuple(f"c{number}" for number in range(30))
MANY = Grouped("c", (Histogram("g", ("a", "b")),), Histogram("c", CATEGORIES))


def randomizer_of(kind: str, symbols: int, people: int, expected: float) -> Randomizer:
    """Of so many expected reports of a symbol that are noise."""
    if kind == "unary":
        return UnaryEncoding(symbols, 2**31, int(expected / people * DENOMINATOR))
    return KRandomizedResponse(symbols, int(expected * symbols / people * DENOMINATOR))


@pytest.mark.sampled("plain-0.3", "unary-0.3")
@pytest.mark.parametrize("expected", LAMBDAS)
@pytest.mark.parametrize("kind", [*KINDS, "unary"])
def test_empty_cells_and_totals_are_seldom_called_significant(kind: str, expected: float) -> None:
    """2 groups of 30 categories: of all families, in 2.5 % at most any that nobody has is."""
    dummies, noise = KINDS.get(kind, (0, None))
    people = [(6000, at(0, 60)), (4000, at(31, 60))]
    found = batches(Query(MANY, randomizer_of(kind, 60, 10_000, expected), noise), people, dummies)
    held = {"c0", "c1"}
    wrong = [
        any(row.significant and row.category not in held for row in each.rows if row.statistic == "count")
        for each in found
    ]
    assert np.mean(wrong) < most_share(BATCHES, 0.025)
    # Power: those that people have are found, in the totals too.
    assert all(row.significant for each in found for row in each.rows[:2])


FEW = Grouped("c", (Histogram("g", ("a", "b", "c")), Histogram("h", ("d", "e"))), Histogram("c", ("x", "y", "z")))
IN_CELLS = (2400, 60, 0, 9, 0, 2, 0, 0, 0, 1, 1, 0, 150, 0, 0, 30, 5, 0)
"""People of each joint symbol: a group has nobody."""


@pytest.mark.sampled("plain-0.3", "unary-0.3")
@pytest.mark.parametrize("expected", LAMBDAS)
@pytest.mark.parametrize("kind", [*KINDS, "unary"])
def test_totals_over_groups_are_covered_each_and_together(kind: str, expected: float) -> None:
    """Of everybody, of each attribute's values and of each group: 48 counts, of which some are of many symbols."""
    dummies, noise = KINDS.get(kind, (0, None))
    query = Query(FEW, randomizer_of(kind, 18, sum(IN_CELLS), expected), noise)
    found = batches(query, [(size, at(place, 18)) for place, size in enumerate(IN_CELLS) if size], dummies)
    truth = FEW.truth(
        [
            {"g": "abc"[place // 6], "h": "de"[place // 3 % 2], "c": "xyz"[place % 3]}
            for place, size in enumerate(IN_CELLS)
            for _ in range(size)
        ]
    )
    assert len(truth) == 48
    assert share_together(found, truth) > least_share(BATCHES)
    assert all_covered(found, truth, "count")
    assert all_covered(found, truth, "answered")


@pytest.mark.sampled(9)
@pytest.mark.parametrize("expected", LAMBDAS)
@pytest.mark.parametrize("answered", [5, 60, 900])
@pytest.mark.parametrize("kind", KINDS)
def test_means_where_few_answer_are_covered_and_in_their_range(kind: str, answered: int, expected: float) -> None:
    (dummies, noise), people, steps = KINDS[kind], 1000, 4
    gamma = min(int(expected * 6 / people * DENOMINATOR), DENOMINATOR * 9 // 10)
    query = Query(Number("delay", -10.0, 50.0, optional=True, levels=steps), KRandomizedResponse(6, gamma), noise)
    low = answered // 3
    groups = [(low, at(0, 6)), (answered - low, at(3, 6)), (people - answered, at(5, 6))]
    total = -10.0 * low + 35.0 * (answered - low)
    truth = {("answered", None): float(answered), ("sum", None): total, ("mean", None): total / answered}
    found = batches(query, groups, dummies)
    for statistic in ("answered", "sum", "mean"):
        assert all_covered(found, truth, statistic), statistic
    assert share_together(found, truth) > least_share(BATCHES)
    means = [row.estimate for each in found for row in each.rows if row.statistic == "mean" and row.estimate]
    assert all(-10.0 <= each.lower <= each.value <= each.upper <= 50.0 for each in means)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("expected", LAMBDAS)
@pytest.mark.parametrize("place", [0, 2, 4], ids=["lowest", "middle", "highest"])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_where_few_reports_are_noise_are_covered(kind: str, place: int, expected: float) -> None:
    """All people are alike: the noise is on one side, or on both."""
    (dummies, noise), people = KINDS[kind], 800
    gamma = min(int(expected * 5 / people * DENOMINATOR), DENOMINATOR * 9 // 10)
    query = Query(Number("delay", 0.0, 40.0, levels=4), KRandomizedResponse(5, gamma), noise)
    found = batches(query, [(people - 3, at(place, 5)), (3, at(1, 5))], dummies)
    total = 10.0 * (place * (people - 3) + 3)
    truth = {("sum", None): total, ("mean", None): total / people}
    assert all_covered(found, truth, "sum")
    assert all_covered(found, truth, "mean")


@pytest.mark.sampled("answer-100-plain", "optional-0.3-plain")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expected", LAMBDAS)
@pytest.mark.parametrize("optional", [False, True], ids=["all answer", "optional"])
def test_shares_and_quantiles_are_covered_all_at_once(optional: bool, expected: float, kind: str) -> None:
    dummies, noise = KINDS[kind]
    question, symbols = Distribution("d", (0.0, 1.0, 2.0, 3.0, 4.0, 5.0), optional=optional), 6 if optional else 5
    answers = [0.5] * 20 + [2.5] * 90 + [4.5] * 1890
    silent = [(300, at(5, 6))] if optional else []
    people = [(20, at(0, symbols)), (90, at(2, symbols)), (1890, at(4, symbols)), *silent]
    gamma = int(expected * symbols / (2300 if optional else 2000) * DENOMINATOR)
    found = batches(Query(question, KRandomizedResponse(symbols, gamma), noise), people, dummies)
    truth = question.truth(answers)
    assert share_together(found, truth) > least_share(BATCHES)
    assert all_covered(found, truth, "cdf")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("expected", LAMBDAS)
@pytest.mark.parametrize("kind", KINDS)
def test_variances_are_covered(kind: str, expected: float) -> None:
    (dummies, noise), question = KINDS[kind], Variance("v", 0.0, 3.0, levels=3)
    answers = [0.5] * 800 + [2.5] * 400
    gamma = int(expected * 5 / 1200 * DENOMINATOR)
    query = Query(question, KRandomizedResponse(5, gamma), noise)
    people = []
    for number, size in ((0.5, 800), (2.5, 400)):
        nearest, below, above = question.neighbors(number)
        law = [0.0] * 5
        law[nearest - 1], law[nearest], law[nearest + 1] = float(below), float(1 - below - above), float(above)
        people.append((size, law))
    found = batches(query, people, dummies)
    for statistic in ("variance", "mean", "sum"):
        assert all_covered(found, question.truth(answers), statistic)
