"""Exports rounds to the `dp_accounting` library, in which they compose with other mechanisms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.composition import PAIR_ERROR
from hubbub.accountant.errors import AccountingError, needs_extra, shown
from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.numbers import real
from hubbub.accountant.pairs import Part, dominating_grid, one_round

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

LOG_TAIL = 60.0
"""At most a mass of e^−60 is exported as an infinite loss."""

POINTS_LIMIT = 10**7
"""Most points of the exported grid."""


@answering
def to_dp_accounting(part: Part, interval: float = 1e-4) -> PrivacyLossDistribution:
    """Return a pessimistic privacy loss distribution of all rounds of `part`, on a grid of `interval` nats.

    Losses are put on multiples of `interval` by connecting the dots, which keeps the guarantee: δ and ε of the result
    are never below the truth, apart from the library's own rounding. A smaller interval is tighter and slower.
    Raises AccountingError if the library is missing or the interval gives no grid of at most 10^7 points.
    """
    if not 0 < real(interval) < math.inf:
        raise AccountingError(f"interval is {shown(interval)}; give a finite number above 0, such as 1e-4")
    # Imported here, as it is an extra and takes a second to load.
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError as missing:
        raise AccountingError(needs_extra("to_dp_accounting", "dp-accounting", "dp-accounting")) from missing
    grid = dominating_grid(one_round(part), LOG_TAIL)
    if grid.losses[-1] - grid.losses[0] > POINTS_LIMIT * interval:
        raise AccountingError(
            f"interval is {shown(interval)}, so its grid has over {POINTS_LIMIT} points; make it larger"
        )
    masses = regridded(grid, interval)
    pmf = pld_pmf.create_pmf(masses, interval, grid.infinite, pessimistic_estimate=True)
    one = privacy_loss_distribution.PrivacyLossDistribution(pmf)
    return one if part.rounds == 1 else one.self_compose(part.rounds)


def regridded(grid: LossGrid, interval: float) -> dict[int, float]:
    """Return P-masses by multiples of `interval`; each mass is split between its two neighbors, keeping P- and Q-mass.

    The masses' own relative error is added to them.
    """
    # Keeping both masses spreads the likelihood ratio, which only raises every δ; keeping the mean loss need not.
    losses = grid.losses
    index = np.floor(losses / interval).astype(np.int64)
    up = np.clip(np.expm1(-(losses - index * interval)) / np.expm1(-interval), 0.0, 1.0)
    first = int(index.min())
    size = int(index.max()) - first + 2
    masses = np.bincount(index - first, grid.masses * (1 - up), size)
    masses += np.bincount(index - first + 1, grid.masses * up, size)
    return {first + place: float(mass) * (1 + PAIR_ERROR) for place, mass in enumerate(masses) if mass > 0}
