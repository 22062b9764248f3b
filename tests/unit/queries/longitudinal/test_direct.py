"""The count of a state that is sent each round covers however few reports are noise: summed over its exact law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.over_rounds import Batch
from hubbub.queries.randomizers.randomizer import Tally

PEOPLE = 300


@pytest.mark.sampled(5)
@pytest.mark.parametrize("expected", [0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0])
@pytest.mark.parametrize("dummies", [0, 7])
def test_the_count_of_a_round_is_covered(expected: float, dummies: int) -> None:
    """`expected` reports of each state are noise; of counts near both ends and in the middle."""
    gamma = round(2 * expected / PEOPLE * DENOMINATOR)
    sending, half = SendingStates(2, gamma, Horizon(4, 1)), gamma / DENOMINATOR / 2
    valid, intervals = PEOPLE + dummies, []
    for seen in range(valid + 1):
        batch = Batch(Tally(np.array([valid - seen, seen]), valid), dummies)
        estimate = {row.statistic: row.estimate for row in sending.rows(2, {2: batch})}["count"]
        assert estimate is not None
        intervals.append((estimate.lower, estimate.upper))
    lower, upper = np.array(intervals).T
    for count in (0, 1, 2, 5, 20, PEOPLE // 2, PEOPLE - 3, PEOPLE):
        law = np.convolve(
            binom.pmf(np.arange(count + 1), count, 1 - half),
            binom.pmf(np.arange(PEOPLE - count + 1), PEOPLE - count, half),
        )
        law = np.convolve(law, binom.pmf(np.arange(dummies + 1), dummies, 0.5))
        covered = float(law @ ((lower <= count + 1e-9) & (count - 1e-9 <= upper)))
        assert covered >= 0.95 - 1e-9
