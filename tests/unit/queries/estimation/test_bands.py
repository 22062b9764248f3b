"""Near intervals, whose margin is that of a Poisson law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hubbub.queries.estimation.bands import half_width, near_half_width, rate_of


@pytest.mark.sampled(2)
@pytest.mark.parametrize("intervals", [1, 10, 1000, 10**6])
def test_a_near_interval_reaches_as_far_as_a_poisson_law_at_any_mean(intervals: int) -> None:
    rate = rate_of(intervals)
    z = half_width(rate)
    for mean in np.geomspace(1e-4, 1e4, 4001).tolist():
        beyond = mean + near_half_width(z, math.sqrt(mean), 1.0)
        # A whole number above its end is missed.
        assert stats.poisson.sf(math.floor(beyond), mean) <= rate / 2, mean
