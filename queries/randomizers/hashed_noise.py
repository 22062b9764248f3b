"""Estimates, from the table itself, how many reports are in the cells of a symbol that nobody has."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS
from hubbub.queries.randomizers.randomizer import beside_noise

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.randomizers.randomizer import Randomizer, Vector

TILTS = np.geomspace(2**-10, 8, 100)
"""Values of t for Chernoff's bound. The bound is valid at each; the best is within a hundredth of the smallest."""

NEAR = 2.0
"""Counts within so many standard deviations of the mean never stand out."""

_LARGE = 100.0
"""From here on 4·sinh²(x/2) is e^x to all digits."""

_FINE = 8
"""Cells are rounded up to such a part of a report, so that few distinct values represent millions of cells."""


def added_moments(randomizer: Randomizer, noise: ChainNoise) -> Vector:
    """Return ln E e^{t·X} at each of `TILTS`: X is what the shufflers' noise adds to a symbol's cells beyond S/g.

    A shuffler adds z_c reports to each of the R·g cells, S in all, and S/g is subtracted. So X = Σ_c W_c z_c, with
    W_c = 1 − 1/g at the symbol's R cells and −1/g at all others. The W_c add up to 0, and the z_c are independent and
    symmetric around the reach. With K(t) = ln E e^{t(z − reach)} this is R·(K(t(1 − 1/g)) + (g − 1)·K(t/g)), exactly.
    Shufflers draw independently, so their moments add up.

    Raises:
        AccountingError: if the shufflers cannot imitate the reports. It is a ValueError.
    """
    law = beside_noise(randomizer, noise.law)
    cells, away = law.krr.categories, np.arange(1, law.noise.reach + 1)
    chances = np.array([weight / (1 << TABLE_BITS) for weight in law.noise.weights[law.noise.reach + 1 :]])

    def cumulant(tilt: float) -> float:
        # E e^{td} − 1 is a sum of 2·cosh(td) − 2 = 4·sinh²(td/2), in which no digits cancel if t is small.
        inside = np.minimum(tilt * away, _LARGE)
        logs = np.log(chances) + 2 * np.log(2 * np.sinh(inside / 2)) + (tilt * away - inside)
        return float(np.logaddexp(0, np.logaddexp.reduce(logs)))

    each = [cumulant(tilt * (1 - 1 / cells)) + (cells - 1) * cumulant(tilt / cells) for tilt in TILTS.tolist()]
    return noise.shufflers * (law.symbols // cells) * np.array(each)


@dataclass(frozen=True, eq=False)
class Noise:
    """The law of a cell's reports without the explained ones: `values`, each in a share of the cells; (values,) both.

    A symbol that nobody has gets one cell of each row. Over the hash functions these cells are uniform, and independent
    from row to row. So its number of reports is a sum of independent draws from the cells, for any contents of the
    table. A common text that nobody looked for is in the table as cells with many reports, and one collision with it
    adds them all. (BLAKE2b makes the cells independent between rows. Within a row, `hash_functions` proves uniformity
    for two symbols at a time; that it is true jointly with all symbols in the table is assumed.) Let `known` be the
    explained reports expected in its cells, sums of parts of at most 1 that add their own noise. By Chernoff's bound,

        ln P[N ≥ a] ≤ min_t  rows·ln E e^{t·value} + known·(e^t − 1 − t) − t·a.
    """

    rows: int
    values: Vector
    shares: Vector

    def log_chances(self, reports: Vector, known: Vector) -> Vector:
        """Return the logarithms of the bounds for so many reports, without the explained ones; shape (symbols,)."""
        logs, mean = np.zeros(len(reports)), float(self.shares @ self.values)
        spread = self.rows * float(self.shares @ (self.values - mean) ** 2)
        # Counts near the mean cannot stand out. For them 0, the trivial bound, is enough and costs no time.
        some = np.flatnonzero(reports > self.rows * mean + NEAR * np.sqrt(spread))
        found, above, beside = np.zeros(len(some)), reports[some], known[some]
        for tilt in TILTS.tolist():
            largest = tilt * float(self.values.max())
            moment = largest + np.log(float(self.shares @ np.exp(tilt * self.values - largest)))
            np.minimum(found, self.rows * moment + beside * (np.expm1(tilt) - tilt) - tilt * above, out=found)
        logs[some] = found
        return logs


class NoiseSamples:
    """Counts the cells by their reports, separately if explained reports are expected there, which add noise."""

    def __init__(self) -> None:
        self._cells: tuple[Counter[int], Counter[int]] = (Counter(), Counter())

    def add(self, held: npt.NDArray[np.float32], of_common: npt.NDArray[np.float32]) -> None:
        """Add the cells of a row. `of_common` are the explained reports expected, which `held` no longer includes."""
        clear = of_common < 1 / _FINE
        parts = (held, held[:0]) if clear.all() else (held[clear], held[~clear])
        for cells, found in zip(parts, self._cells, strict=True):
            numbers = np.ceil(_FINE * cells).astype(np.int64)
            least = int(numbers.min(initial=0))
            times = np.bincount(numbers - least)
            some = np.flatnonzero(times)
            found.update(dict(zip((some + least).tolist(), times[some].tolist(), strict=True)))

    def noise(self, rows: int) -> Noise:
        """Return the law of a cell. If few cells are free of explained reports, it includes the noise of the others."""
        clear, other = self._cells
        found = clear if clear.total() > other.total() / 16 else clear + other
        values, times = np.array(list(found)), np.array(list(found.values()))
        return Noise(rows, values / _FINE, times / times.sum())
