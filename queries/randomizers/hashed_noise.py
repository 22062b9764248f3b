"""How many reports are in the cells of a symbol that nobody holds, read off the table itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import Vector

TILTS = np.geomspace(2**-10, 8, 100)
"""Where Chernoff's bound is evaluated: it holds at each, and the best of them is within a hundredth of the smallest."""

NEAR = 2.0
"""In standard deviations: counts nearer to the mean than this never stand out."""

_FINE = 8
"""Parts of a report that cells are rounded up to: few values then stand for millions of cells."""


@dataclass(frozen=True, eq=False)
class Noise:
    """What a cell of a row holds of nobody that is known: `values`, each in a share of the cells; (values,) both.

    A symbol that nobody holds has one cell of each row, as if drawn: over the hash functions they are uniform, and
    independent from row to row. So its reports are a sum of such draws, whatever the table holds: a common text that
    nobody looked for stands in it as cells with many reports, and one collision with it adds them all. (Between rows it
    is BLAKE2b that makes them so. Within one, `hash_functions` proves it for two symbols at a time; that it holds
    beside all that are in the table at once is assumed.) By Chernoff's bound, with `known` explained reports expected
    in its cells, sums of parts of at most 1 that add their own noise,

        ln P[N ≥ a] ≤ min_t  rows·ln E e^{t·value} + known·(e^t − 1 − t) − t·a.
    """

    rows: int
    values: Vector
    shares: Vector

    def log_chances(self, reports: Vector, known: Vector) -> Vector:
        """Return the logarithms of the bounds for so many reports, those explained taken out; shape (symbols,)."""
        logs, mean = np.zeros(len(reports)), float(self.shares @ self.values)
        spread = self.rows * float(self.shares @ (self.values - mean) ** 2)
        # Whatever is nearer to the mean than this is no surprise: 0 bounds it well enough, and takes no time.
        some = np.flatnonzero(reports > self.rows * mean + NEAR * np.sqrt(spread))
        found, above, beside = np.zeros(len(some)), reports[some], known[some]
        for tilt in TILTS.tolist():
            largest = tilt * float(self.values.max())
            moment = largest + np.log(float(self.shares @ np.exp(tilt * self.values - largest)))
            np.minimum(found, self.rows * moment + beside * (np.expm1(tilt) - tilt) - tilt * above, out=found)
        logs[some] = found
        return logs


class NoiseSamples:
    """Counts the cells by what they hold, apart where explained reports are expected: those have noise of their own."""

    def __init__(self) -> None:
        self._cells: tuple[Counter[int], Counter[int]] = (Counter(), Counter())

    def add(self, held: npt.NDArray[np.float32], of_common: npt.NDArray[np.float32]) -> None:
        """Add the cells of a row, given what explained reports are expected, which are taken out already."""
        clear = of_common < 1 / _FINE
        parts = (held, held[:0]) if clear.all() else (held[clear], held[~clear])
        for cells, found in zip(parts, self._cells, strict=True):
            numbers = np.ceil(_FINE * cells).astype(np.int64)
            least = int(numbers.min(initial=0))
            times = np.bincount(numbers - least)
            some = np.flatnonzero(times)
            found.update(dict(zip((some + least).tolist(), times[some].tolist(), strict=True)))

    def noise(self, rows: int) -> Noise:
        """Return the law of a cell; where few are without explained reports, the noise of these is in it as well."""
        clear, other = self._cells
        found = clear if clear.total() > other.total() / 16 else clear + other
        values, times = np.array(list(found)), np.array(list(found.values()))
        return Noise(rows, values / _FINE, times / times.sum())
