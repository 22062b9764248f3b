"""Laws of a sum of several symbols' noise: in all batches, and given the known sum of all symbols' noise.

Of each symbol every shuffler adds a draw of one law, so H shufflers make s symbols' noise a sum of H·s draws.

With A_s the noise of s of m symbols, P(A_s = a | A_m = S) is proportional to P(A_s = a)·P(A_{m−s} = S − a).
"""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.randomizers.randomizer import Vector

_LEAST = 1e-300
"""The least p-value beside the noise of one symbol: smaller parts of its sum are lost."""

LONGEST_LAW = 2**22
"""Most values of a sum of noise whose law is computed: about a second. Of longer sums only tails are."""

_LOST = 1e-11
"""More than a sum's law is wrong by, all its values together; p-values of sums are raised by it."""

_SMALL = 1e-14
"""The values of a sum at its ends that are less probable are left out, and what they have together is added."""

_CUT = 1e-11
"""The mass that is cut from either end of a conditional law."""

_LEAST_CHANCE = 1e-7
"""A sum of noise that is less probable is not used: its conditional law would lose digits. Honest shufflers draw
such a sum less than once in ten thousand batches."""

_DIRECT = 2**26
"""Most products by which the noise of one symbol is summed over the shufflers, which keeps all digits: a tenth of a
second."""


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
def noise_sum(noise: ChainNoise, some: int, symbols: int, total: int) -> NoiseSum:
    """Return the law of the noise of `some` of the `symbols`, given that all noise adds up to `total`.

    If there are two symbols, that of one is drawn, and the other's follows; both have the same law. If the law given
    the total would be too long to compute, or the total is improbable, the total is not used: the sum then has its law
    over all totals, which is wider, and as valid over all batches.
    """
    table = law_of_sum(noise, 1)
    if symbols == 2:
        return NoiseSum(0, table, 1) if some == 1 else NoiseSum(total, np.ones(1), 1)
    if symbols * noise.largest < LONGEST_LAW:
        least, law, chance = _given_total(noise, some, symbols, total)
        if chance >= _LEAST_CHANCE:
            return NoiseSum(least, law, 1)
    return NoiseSum(0, table, some)


@lru_cache(maxsize=64)
def _given_total(noise: ChainNoise, some: int, symbols: int, total: int) -> tuple[int, Vector, float]:
    """Return the conditional law of the noise of so many symbols, its first value, and the chance of the total."""
    inside, outside = law_of_sum(noise, some), law_of_sum(noise, symbols - some)
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
def kept_law_of_sum(noise: ChainNoise, symbols: int) -> tuple[int, Vector, float]:
    """Return the law of the noise of so many symbols: its first value, and the probability of each from there.

    The last number is more than all other values have together, and the errors of these probabilities. The law of one
    symbol has all its digits, unless it is too long.
    """
    law = law_of_sum(noise, symbols)
    if symbols == 1 and _is_direct(noise):
        return 0, law, _LEAST
    inside = np.flatnonzero(law > _SMALL)
    kept = law[inside[0] : inside[-1] + 1]
    return int(inside[0]), kept, max(0.0, 1 - float(kept.sum())) + _LOST


def law_of_sum(noise: ChainNoise, symbols: int) -> Vector:
    """Return the probability of each value of the noise of so many symbols, from 0 on.

    The symbols' draws are independent; shape (symbols · largest + 1,).
    """
    table = np.array([weight / (1 << TABLE_BITS) for weight in noise.law.weights])
    if symbols == 1 and _is_direct(noise):
        # All terms are positive, so small probabilities keep their digits too, which a transform would lose.
        return reduce(np.convolve, [table] * noise.shufflers)
    size = symbols * noise.largest + 1
    law: Vector = np.maximum(np.fft.irfft(np.fft.rfft(table, size) ** (symbols * noise.shufflers), size), 0.0)
    return law


def _is_direct(noise: ChainNoise) -> bool:
    """Whether the noise of one symbol is summed over the shufflers term by term."""
    return noise.shufflers == 1 or noise.largest**2 <= _DIRECT
