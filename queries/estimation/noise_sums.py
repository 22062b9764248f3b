"""Laws of a sum of several draws of the shuffler's noise: in all batches, and given the known sum of all draws.

With A_s the sum of s of m independent draws, P(A_s = a | A_m = S) is proportional to P(A_s = a)·P(A_{m−s} = S − a).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import NoiseLaw
    from hubbub.queries.randomizers.randomizer import Vector

_LEAST = 1e-300
"""The least p-value beside one draw of noise: smaller parts of its sum are lost."""

LONGEST_LAW = 2**22
"""Most values of a sum of noise whose law is computed: about a second. Of longer sums only tails are."""

_LOST = 1e-11
"""More than a sum's law is wrong by, all its values together; p-values of sums are raised by it."""

_SMALL = 1e-14
"""The values of a sum at its ends that are less probable are left out, and what they have together is added."""

_CUT = 1e-11
"""The mass that is cut from either end of a conditional law."""

_LEAST_CHANCE = 1e-7
"""A sum of noise that is less probable is not used: its conditional law would lose digits. An honest shuffler draws
such a sum less than once in ten thousand batches."""


class NoiseSum:
    """The law of a sum of `draws` independent draws of a table, whose first value is `least`."""

    def __init__(self, least: int, table: Vector, draws: int) -> None:
        values = least + np.arange(len(table))
        self.table, self.least, self.draws = table, least, draws
        middle = float(table @ values)
        self.mean = draws * middle
        furthest = max(middle - least, values[-1] - middle)
        self.variance = draws * float(table @ (values - middle) ** 2)
        # Bernstein's inequality for terms of at most `furthest`, or all there is.
        self.reach = min(draws * furthest, (60 * self.variance) ** 0.5 + 20 * furthest)

    def characteristic(self, period: int) -> npt.NDArray[np.complex128]:
        """Return E e^{iωA} at ω = 2πj/period, j = 0 … (period − 1)/2."""
        folded = np.bincount((self.least + np.arange(len(self.table))) % period, self.table, period)
        # numpy's transform has the other sign in the exponent.
        found: npt.NDArray[np.complex128] = np.conj(np.fft.rfft(folded)) ** self.draws
        return found


@lru_cache(maxsize=64)
def noise_sum(noise: NoiseLaw, draws: int, symbols: int, total: int) -> NoiseSum:
    """Return the law of the sum of `draws` of `symbols` draws of noise, given that all add up to `total`.

    If there are two symbols, one is drawn, and the other follows from it; both have the same law. If the law given the
    total would be too long to compute, or the total is improbable, the total is not used: the sum then has its law over
    all totals, which is wider, and as valid over all batches.
    """
    table = law_of_sum(noise, 1)
    if symbols == 2:
        return NoiseSum(0, table, 1) if draws == 1 else NoiseSum(total, np.ones(1), 1)
    if symbols * noise.largest < LONGEST_LAW:
        least, law, chance = _given_total(noise, draws, symbols, total)
        if chance >= _LEAST_CHANCE:
            return NoiseSum(least, law, 1)
    return NoiseSum(0, table, draws)


@lru_cache(maxsize=64)
def _given_total(noise: NoiseLaw, draws: int, symbols: int, total: int) -> tuple[int, Vector, float]:
    """Return the conditional law of the sum of so many draws, its first value, and the chance of the total."""
    inside, outside = law_of_sum(noise, draws), law_of_sum(noise, symbols - draws)
    least, most = max(0, total - len(outside) + 1), min(total, len(inside) - 1)
    # outside[total − a] for a from least to most.
    others = outside[total - most : total - least + 1][::-1]
    joint = inside[least : most + 1] * others
    chance = float(joint.sum())
    # The ends that have next to nothing are cut, as sums of them would take long.
    first, last = (int(np.searchsorted(np.cumsum(part), _CUT * chance)) for part in (joint, joint[::-1]))
    kept = joint[first : len(joint) - last]
    return least + first, kept / chance if chance > 0 else kept, chance


@lru_cache(maxsize=64)
def kept_law_of_sum(noise: NoiseLaw, draws: int) -> tuple[int, Vector, float]:
    """Return the law of a sum of so many independent draws: its first value, and the probability of each from there.

    The last number is more than all other values have together, and the errors of these probabilities. One draw has the
    table itself, with all its digits.
    """
    law = law_of_sum(noise, draws)
    if draws == 1:
        return 0, law, _LEAST
    inside = np.flatnonzero(law > _SMALL)
    kept = law[inside[0] : inside[-1] + 1]
    return int(inside[0]), kept, max(0.0, 1 - float(kept.sum())) + _LOST


def law_of_sum(noise: NoiseLaw, draws: int) -> Vector:
    """Return the probability of each value of a sum of so many draws, from 0 on; shape (draws · largest + 1,)."""
    table = np.array([weight / (1 << TABLE_BITS) for weight in noise.weights])
    if draws == 1:
        return table
    size = draws * noise.largest + 1
    law: Vector = np.maximum(np.fft.irfft(np.fft.rfft(table, size) ** draws, size), 0.0)
    return law
