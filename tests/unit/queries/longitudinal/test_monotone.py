"""Against a library, and what is promised of it for every truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from hubbub.queries.estimation.estimates import Estimate
from hubbub.queries.longitudinal.monotone import rising, rising_rows

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_it_is_the_least_squares_fit_from_0_on(values: list[float]) -> None:
    expected = np.maximum(isotonic_regression(values).x, 0)
    assert rising(values) == pytest.approx(list(expected), abs=1e-6)


@given(st.lists(st.tuples(NUMBERS, st.floats(0, 1e6, allow_subnormal=False)), min_size=1, max_size=40))
def test_no_truth_that_rises_is_farther_from_it_than_from_the_estimates(pairs: list[tuple[float, float]]) -> None:
    values = np.array([value for value, _ in pairs])
    truth = np.cumsum([step for _, step in pairs])
    fitted = np.array(rising(list(values)))
    scale = 1e-9 * (np.abs(values).max() + truth.max() + 1)
    assert np.abs(fitted - truth).max() <= np.abs(values - truth).max() + scale
    assert ((fitted - truth) ** 2).sum() <= ((values - truth) ** 2).sum() * (1 + 1e-9) + scale


@given(st.lists(st.tuples(NUMBERS, st.floats(1e-3, 1e5), st.floats(-1, 1)), min_size=1, max_size=30))
def test_a_band_that_holds_is_kept(triples: list[tuple[float, float, float]]) -> None:
    """A rising truth that lies in the band of the estimates lies in that of the series."""
    truth = np.cumsum(np.abs([value for value, _, _ in triples]))
    counts = {}
    for place, (_, error, share) in enumerate(triples):
        # Off by less than 1.96 standard errors, so within any band.
        value = float(truth[place]) + 1.9 * share * error
        counts[place] = Estimate(value, error, value - 1.96 * error, value + 1.96 * error)
    for row, true in zip(rising_rows(counts), truth.tolist(), strict=True):
        assert row.estimate is not None
        assert row.estimate.lower <= true * (1 + 1e-9) + 1e-9
        assert row.estimate.upper >= true * (1 - 1e-9) - 1e-9


def test_noise_around_a_flat_series_is_averaged_out() -> None:
    draws = np.random.default_rng(5).normal(1000, 50, size=(200, 64))
    plain = ((draws - 1000) ** 2).mean()
    fitted = np.array([rising(list(each)) for each in draws])
    # The expected number of pools is about ln 64 of 64: a tenth of the squared error is left.
    assert ((fitted - 1000) ** 2).mean() < 0.15 * plain
