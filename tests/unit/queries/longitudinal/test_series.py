"""Sums of nodes, smoothing against a dense least squares fit, and rounds that are missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hubbub.accountant.mechanisms.longitudinal import Horizon, Vector
from hubbub.queries.longitudinal.over_rounds import Batch
from hubbub.queries.longitudinal.series import TreeEstimates, rows_of, smoothed
from hubbub.queries.randomizers.randomizer import Tally

HORIZON = Horizon(16, 3)
VECTOR = Vector.best(HORIZON, 3.0)


def batch(number: int, differences: dict[int, int], people: int = 1000, dummies: int = 0) -> Batch:
    """Signs whose plus exceed the minus by so many at each level."""
    counts = np.full(2 * HORIZON.levels, 100, dtype=np.int64)
    for level, difference in differences.items():
        counts[2 * level + 1] += difference
    return Batch(Tally(counts, people + dummies), dummies)


def nodes(periods: int, *missing: tuple[int, int]) -> TreeEstimates:
    random = np.random.default_rng(periods)
    values = [random.normal(size=periods >> level) for level in range(periods.bit_length())]
    variances = [random.uniform(1, 3, size=periods >> level) for level in range(periods.bit_length())]
    for level, place in missing:
        variances[level][place] = math.inf
    return TreeEstimates(tuple(values), tuple(variances))


@pytest.mark.parametrize(
    ("periods", "missing"), [(1, ()), (2, ()), (7, ()), (16, ()), (13, ((0, 2), (1, 3))), (16, ((3, 0), (4, 0)))]
)
def test_smoothing_is_the_least_squares_fit_with_its_variances(periods: int, missing: Any) -> None:
    tree = nodes(periods, *missing)
    rows, values, weights = [], [], []
    for level, variances in enumerate(tree.variances):
        for place, variance in enumerate(variances):
            if not math.isinf(variance):
                row = np.zeros(periods)
                row[place << level : (place + 1) << level] = 1
                rows.append(row)
                values.append(tree.values[level][place])
                weights.append(1 / variance)
    design, scale = np.array(rows), np.array(weights)
    covariance = np.linalg.inv(design.T @ (scale[:, None] * design))
    prefixes = np.tril(np.ones((periods, periods)))
    counts, spreads = smoothed(tree)
    assert counts == pytest.approx(prefixes @ covariance @ design.T @ (scale * np.array(values)), rel=1e-9)
    assert spreads == pytest.approx(np.diag(prefixes @ covariance @ prefixes.T), rel=1e-9)


def test_smoothing_never_makes_a_count_noisier() -> None:
    tree = nodes(16)
    for period, spread in enumerate(smoothed(tree)[1], 1):
        assert spread <= tree.prefix(period)[1] * (1 + 1e-12)


def test_a_count_is_the_sum_of_its_nodes_and_takes_only_levels_that_ended() -> None:
    batches = {number: batch(number, {level: 10 + level for level in range(5)}) for number in range(3)}
    (count, answered, *series) = rows_of(VECTOR, 2, batches)
    assert count.estimate is not None
    # [1, 3] is the node of level 1 that ended with round 1 and that of level 0 of round 2.
    assert count.estimate.value == pytest.approx(float(VECTOR.scale) * (11 + 10))
    assert answered.estimate is not None
    assert answered.estimate.value == 1000
    assert [row.category for row in series] == ["round 0", "round 1", "round 2"]


def test_a_standard_error_is_the_formulas() -> None:
    batches = {number: batch(number, {}) for number in range(7)}
    count = rows_of(VECTOR, 6, batches)[0].estimate
    assert count is not None
    assert count.standard_error == pytest.approx(math.sqrt(VECTOR.variance(7, 1000)))
    noisier = rows_of(VECTOR, 6, {number: batch(number, {}, dummies=500) for number in range(7)})[0].estimate
    assert noisier is not None
    assert noisier.standard_error == pytest.approx(math.sqrt(VECTOR.variance(7, 1500)))


def test_a_round_that_was_not_published_leaves_the_counts_that_need_it_without_a_value() -> None:
    batches = {number: batch(number, {}) for number in (0, 2, 3)}
    assert rows_of(VECTOR, 2, {number: batches[number] for number in (0, 2)})[0].estimate is None
    # The node of level 2 spans the round that is missing, so the next count has a value again.
    (count, _, *series) = rows_of(VECTOR, 3, batches)
    assert count.estimate is not None
    assert [row.estimate is None for row in series] == [False, False, False, False]
