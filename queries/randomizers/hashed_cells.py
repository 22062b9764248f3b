"""The reported cells of hashed reports: a tally that keeps each of them, as bytes and as numbers."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from hubbub.queries.randomizers.randomizer import Tally

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import Counts


class Cells(Tally):
    """A tally whose `counts` are not by symbol: they are the reported cells, one for each valid report."""

    def __add__(self, other: Tally) -> Cells:
        joined = np.concatenate([self.counts, other.counts])
        return Cells(joined, self.valid + other.valid, self.invalid + other.invalid)

    @property
    def canonical(self) -> Counts:
        """The cells, sorted: the order of the reports carries no information."""
        ordered: Counts = np.sort(self.counts)
        return ordered

    def written(self) -> bytes:
        """Return the cells as bytes (`packed`)."""
        return packed(self)

    @classmethod
    def read(cls, written: bytes, valid: int) -> Cells:
        """Return the tally that `packed` wrote; raise ValueError if the bytes are something else."""
        return unpacked(written, valid)


def packed(tally: Tally) -> bytes:
    """Return the cells of a tally as bytes: sorted, as compressed differences of neighbors."""
    gaps = np.diff(np.sort(tally.counts), prepend=0).astype("<u4")
    # Bytes of one significance are grouped, because the high bytes are nearly all 0 and compress to almost nothing.
    return zlib.compress(gaps.view(np.uint8).reshape(-1, 4).T.tobytes(), 6)


def unpacked(table: bytes, valid: int) -> Cells:
    """Return the cells that `packed` wrote, one for each valid report.

    Raises:
        ValueError: if the bytes are something else.
    """
    reader = zlib.decompressobj()
    try:
        planes = reader.decompress(table, 4 * valid + 1)
    except zlib.error as error:
        raise ValueError(f"the table of cells is damaged: {error}") from error
    if len(planes) != 4 * valid or not reader.eof or reader.unused_data:
        raise ValueError(f"the table of cells does not have {valid} of them; is it another round's?")
    gaps = np.ascontiguousarray(np.frombuffer(planes, dtype=np.uint8).reshape(4, -1).T).view("<u4").ravel()
    return Cells(np.cumsum(gaps, dtype=np.int64), valid)


def cells_in(reports: bytes, cells: int) -> Cells:
    """Return the tally of reports that are joined without separators: numbers in range(cells)."""
    found = np.frombuffer(reports, dtype=">u4").astype(np.int64)
    inside = found[found < cells]
    return Cells(inside, len(inside), len(found) - len(inside))


def check_cells(tally: Tally, cells: int) -> None:
    """Return only if a tally has one cell of range(cells) for each valid report; raise ValueError otherwise."""
    counts: Counts = tally.counts
    if counts.shape != (tally.valid,) or (counts < 0).any() or (counts >= cells).any():
        raise ValueError(f"cells of shape {counts.shape}; {tally.valid} numbers from 0 to {cells - 1} are expected")
