"""Bounds on chance from the table itself are never below it, whatever is in the table."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.queries.randomizers.hashed_noise import Noise, NoiseSamples

ROWS = 16


def noise_of(table: np.ndarray) -> Noise:
    seen = NoiseSamples()
    for row in table:
        seen.add(row.astype(np.float32), np.zeros(len(row), dtype=np.float32))
    return seen.noise(len(table))


@pytest.mark.parametrize("common", [0, 40], ids=["even", "one cell of each row is full"])
def test_bounds_are_above_the_exact_law_and_not_far(common: int) -> None:
    table = np.random.default_rng(3).poisson(0.5, (ROWS, 64))
    table[:, 0] += common
    # The exact law of a sum of one uniform cell of each row, by convolution.
    law = np.array([1.0])
    for row in table:
        law = np.convolve(law, np.bincount(row) / len(row))
    tails = np.cumsum(law[::-1])[::-1]
    reports = np.arange(len(tails))
    bounds = noise_of(table).log_chances(reports.astype(float), np.zeros(len(tails)))
    likely = tails > 1e-12
    assert np.all(bounds[likely] >= np.log(tails[likely]))
    above = likely & (reports > (reports @ law) + 1)
    assert np.all(bounds[above] <= 0.75 * np.log(tails[above]) + 3)


def test_a_collision_with_a_common_text_is_less_of_a_surprise_where_there_is_one() -> None:
    """A bound that takes every report for one by itself would call it a discovery."""
    even = np.random.default_rng(3).poisson(0.5, (ROWS, 64))
    full = even.copy()
    full[:, 0] += 40
    once, nothing = np.array([48.0]), np.zeros(1)
    assert noise_of(even).log_chances(once, nothing)[0] < -30
    assert noise_of(full).log_chances(once, nothing)[0] > np.log(ROWS / 64) - 1


def test_explained_reports_add_the_noise_of_their_own() -> None:
    noise = noise_of(np.random.default_rng(3).poisson(0.5, (ROWS, 64)))
    alone, beside = noise.log_chances(np.array([30.0, 30.0]), np.array([0.0, 20.0]))
    assert alone < beside < 0


def test_cells_with_explained_reports_are_left_to_these_where_there_are_others() -> None:
    row, common = np.array([1.0, 1.0, -9.0, 9.0], dtype=np.float32), np.array([0, 0, 9, 9], dtype=np.float32)
    seen = NoiseSamples()
    seen.add(row, common)
    assert dict(zip(seen.noise(1).values.tolist(), seen.noise(1).shares.tolist(), strict=True)) == {1.0: 1.0}
    seen = NoiseSamples()
    seen.add(row[2:], common[2:])
    assert sorted(seen.noise(1).values.tolist()) == [-9.0, 9.0]
