"""From the cells of hashed reports to the counts of any symbols, with their standard errors.

N_x is the number of reports in the cell of x in their row. With n people, D dummies, keep = (1−γ)(1−κ), and κ the
probability that two symbols share a cell (`queries.randomizers.hash_functions`),

    ĉ_x = (N_x − n·base − D/g) / keep

is unbiased over the reports and the hash functions. Its variance is, with c_x people of x,

    c_x·q(1−q)/keep² + (n−c_x)·p(1−p)/keep² + D·(1/g)(1−1/g)/keep² + Σ_{j≠x} c_j(c_j−1)·κ/((1−κ)R)

q = 1−γ+γ/g, p = base. The last term, about Σc²/(gR), is what people of one symbol have in common: they collide with x
in the same rows. Three steps make it small and known:

- The common symbols among those decoded are *explained*: what (1−γ)ĉ_j reports are expected to add to each row is taken
  out of the table before the others are decoded, and put back for j itself. Only the others are left in the sum.
- What is explained is still there as noise, in the cells where it is: x has the variance of its own cells' reports, in
  place of the mean over all cells that the formula has.
- What is left is measured, whatever the texts are and whether or not they were looked for: people of one symbol make
  the squares of the table's counts larger. With S = Σ(T − mean)² over the residual table of N reports,
  (S − N(1 − 1/(gR)))/(1−γ)² estimates Σ c(c−1)/R.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from hubbub.queries.randomizers.hash_functions import words
from hubbub.queries.randomizers.hashed_noise import Noise, NoiseSamples
from hubbub.queries.randomizers.randomizer import Tally

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import Counts, Vector

Symbols = npt.NDArray[np.uint64]

MOST_DECODED = 2**24
"""Most symbols decoded at once: some 400 MB, and a minute."""

EXPLAINED = 1000
"""Most symbols that are explained, the most common ones."""

COMMON = 6.0
"""In standard errors of an absent symbol: from here on one is explained."""

SEARCHED = 8
"""Common symbols are looked for in an eighth of the rows, where their counts are known well enough."""

SEARCHES = 2
"""How often: in the first, many seem common that only collide with one that is, and these are out of the way then."""

REFINEMENTS = 12
"""Most steps in which the counts of common symbols are fitted together; few are needed, as few collide often."""

_AT_ONCE = 2**15
"""Symbols hashed together: their words stay in the processor's cache."""

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


class _Hashing(Protocol):
    """What decoding needs of the randomizer; its members are those of `hashed.HashedResponse`."""

    @property
    def symbols(self) -> int: ...
    @property
    def cells(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def gamma(self) -> int: ...
    @property
    def truthful(self) -> float: ...
    @property
    def collision(self) -> float: ...
    @property
    def support_gap(self) -> float: ...
    @property
    def support_other(self) -> float: ...
    @property
    def dummy_mean(self) -> float: ...
    def variances(self, weights: Vector) -> Vector: ...
    def dummy_variance(self, weights: Vector) -> float: ...


class Cells(Tally):
    """A tally whose `counts` are not by symbol: they are the cells that were reported, each as often as it was."""

    def __add__(self, other: Tally) -> Cells:
        joined = np.concatenate([self.counts, other.counts])
        return Cells(joined, self.valid + other.valid, self.invalid + other.invalid)

    @property
    def canonical(self) -> Counts:
        """The cells, sorted: in which order reports came says nothing."""
        ordered: Counts = np.sort(self.counts)
        return ordered

    def written(self) -> bytes:
        """Return the cells as they travel (`packed`)."""
        return packed(self)

    @classmethod
    def read(cls, written: bytes, valid: int) -> Cells:
        """Return the tally that `packed` wrote; raises ValueError where the bytes are something else."""
        return unpacked(written, valid)


def packed(tally: Tally) -> bytes:
    """Return the cells of a tally as they travel: compressed differences of neighbours, sorted."""
    gaps = np.diff(np.sort(tally.counts), prepend=0).astype("<u4")
    # Bytes of one weight together, so that the high ones, nearly all 0, take no room.
    return zlib.compress(gaps.view(np.uint8).reshape(-1, 4).T.tobytes(), 6)


def unpacked(table: bytes, valid: int) -> Cells:
    """Return the cells that `packed` wrote, one for each valid report.

    Raises:
        ValueError: where the bytes are something else.
    """
    reader = zlib.decompressobj()
    try:
        planes = reader.decompress(table, 4 * valid + 1)
    except zlib.error as error:
        raise ValueError(f"the table of cells is damaged: {error}") from error
    if len(planes) != 4 * valid or not reader.eof or reader.unused_data:
        raise ValueError(f"the table of cells does not hold {valid} of them; is it another round's?")
    gaps = np.ascontiguousarray(np.frombuffer(planes, dtype=np.uint8).reshape(4, -1).T).view("<u4").ravel()
    return Cells(np.cumsum(gaps, dtype=np.int64), valid)


def cells_in(reports: bytes, cells: int) -> Cells:
    """Return the tally of reports that are joined without separators: numbers in range(cells)."""
    found = np.frombuffer(reports, dtype=">u4").astype(np.int64)
    inside = found[found < cells]
    return Cells(inside, len(inside), len(found) - len(inside))


def check_cells(tally: Tally, cells: int) -> None:
    """Return only if a tally holds one cell of range(cells) for each valid report; raises ValueError otherwise."""
    counts: Counts = tally.counts
    if counts.shape != (tally.valid,) or (counts < 0).any() or (counts >= cells).any():
        raise ValueError(f"cells of shape {counts.shape}, {tally.valid} numbers from 0 to {cells - 1} are expected")


@dataclass(frozen=True, eq=False)
class Decoded:
    """Counts of the symbols asked for, their variances, and what chance has to do with them; shape (symbols,) each.

    `log_chances` are the logarithms of bounds on how often so many reports are in the cells of a symbol that nobody
    holds (`noise.Noise`).
    """

    counts: Vector
    variances: Vector
    log_chances: Vector


def every_symbol(randomizer: _Hashing, tally: Tally, dummies: int) -> tuple[Vector, Vector]:
    """Decode all symbols there are; return their counts, and by how much each variance differs from the mean one.

    Raises:
        ValueError: where they are too many, as those of a text.
    """
    if randomizer.symbols > MOST_DECODED:
        raise ValueError(f"{randomizer.symbols} symbols are more than {MOST_DECODED}; decode those that you look for")
    decoded = decode(randomizer, tally, dummies, np.arange(randomizer.symbols, dtype=np.uint64))
    indicator, people = np.array([1.0, 0.0]), tally.valid - dummies
    hit, miss = randomizer.variances(indicator).tolist()
    clipped = np.clip(decoded.counts, 0, people)
    usual = clipped * hit + (people - clipped) * miss + dummies * randomizer.dummy_variance(indicator)
    return decoded.counts, decoded.variances - usual


def decode(randomizer: _Hashing, tally: Tally, dummies: int, symbols: Symbols) -> Decoded:
    """Return the counts of distinct symbols, from a batch's cells with that many dummies among them.

    Takes about 5 ns a symbol and row.
    """
    table = _Table(randomizer, tally, dummies)
    mixed = _mixed(symbols)
    common = _Explained(np.empty(0, dtype=np.intp), mixed[:0], np.empty(0))
    for _ in range(SEARCHES):
        common = _searched(table, mixed, common)
    gathered = table.counts(mixed, common)
    counts, spread = gathered.counts, gathered.expected + gathered.known + gathered.collisions
    # What explains a symbol stands for its own people, who are counted, and add their own variance.
    counts[common.places] += common.counts
    gathered.known[common.places] -= randomizer.truthful * common.counts
    spread[common.places] -= randomizer.truthful * common.counts
    own = randomizer.support_gap + randomizer.support_other
    clipped = np.clip(counts, 0, tally.valid - dummies)
    logs = gathered.noise.log_chances(
        counts * randomizer.support_gap + gathered.expected, np.maximum(gathered.known, 0.0)
    )
    return Decoded(counts, (clipped * own * (1 - own) + spread) / randomizer.support_gap**2, logs)


@dataclass(frozen=True, eq=False)
class _CellSums:
    """What the cells of symbols hold: ĉ among the people who are not explained, and the explained reports expected.

    `expected` are the other reports expected of each, `collisions` what those of people who are alike add to the
    variance of their number, and `noise` is its law where nobody holds the symbol.
    """

    counts: Vector
    known: Vector
    expected: float
    collisions: float
    noise: Noise


@dataclass(frozen=True, eq=False)
class _Explained:
    """Symbols, by their places among those decoded and mixed, whose people are taken out, and how many these are."""

    places: npt.NDArray[np.intp]
    mixed: Symbols
    counts: Vector

    def above(self, least: float) -> _Explained:
        """Return the most common ones, those that hold more than `least` people."""
        order = np.argsort(self.counts)[::-1][:EXPLAINED]
        order = order[self.counts[order] > least]
        return _Explained(self.places[order], self.mixed[order], self.counts[order])


def _searched(table: _Table, mixed: Symbols, known: _Explained) -> _Explained:
    """Return the symbols that are common, beside those known."""
    counts = table.counts(mixed, known, SEARCHED).counts
    counts[known.places] += known.counts
    every = _Explained(np.arange(len(mixed)), mixed, counts)
    found = every.above(COMMON * table.error * np.sqrt(min(SEARCHED, table.rows)))
    return _Explained(found.places, found.mixed, table.fitted(found.mixed)).above(COMMON * table.error)


class _Table:
    """A batch's cells, row by row."""

    def __init__(self, randomizer: _Hashing, tally: Tally, dummies: int) -> None:
        self._randomizer = randomizer
        ordered = np.sort(tally.counts)
        bounds = np.searchsorted(ordered, np.arange(randomizer.rows + 1) * randomizer.cells)
        ends = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        self._rows = [ordered[start:end] - row * randomizer.cells for row, (start, end) in enumerate(ends)]
        self._reports = tally.valid
        self._dummies = dummies
        self._people = tally.valid - dummies

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._randomizer.rows

    @property
    def error(self) -> float:
        """The standard error of a symbol that nobody holds, without what collisions add."""
        indicator, randomizer = np.array([1.0, 0.0]), self._randomizer
        people = self._people * float(randomizer.variances(indicator)[1])
        return float(np.sqrt(people + self._dummies * randomizer.dummy_variance(indicator)))

    def counts(self, mixed: Symbols, explained: _Explained, step: int = 1) -> _CellSums:
        """Return what the cells of each symbol hold.

        Only every `step`-th row is looked at, and stands for those that are not.
        """
        randomizer, square, seen = self._randomizer, 0.0, NoiseSamples()
        found, known, looked_at = np.zeros(len(mixed)), np.zeros(len(mixed)), range(0, randomizer.rows, step)
        share = randomizer.truthful * explained.counts / randomizer.rows
        for row in looked_at:
            held = np.bincount(self._rows[row], minlength=randomizer.cells).astype(np.float32)
            of_common, gathered = np.zeros(randomizer.cells, dtype=np.float32), [(held, found)]
            if len(share):
                of_common = np.bincount(self._hashes(row, explained.mixed), share, randomizer.cells).astype(np.float32)
                held -= of_common
                gathered.append((of_common, known))
            square += float(np.square(held, dtype=np.float64).sum())
            seen.add(held, of_common)
            self._gather(row, mixed, gathered)
        whole = randomizer.rows / len(looked_at)
        left = self._reports - float(share.sum()) * randomizer.rows
        around_mean = square * whole - left**2 / (randomizer.rows * randomizer.cells)
        expected = self._expected(explained)
        collisions = self._collisions(around_mean) * randomizer.support_gap**2
        counts = (found * whole - expected) / randomizer.support_gap
        return _CellSums(counts, known * whole, expected, collisions, seen.noise(randomizer.rows))

    def fitted(self, mixed: Symbols) -> Vector:
        """Return the counts of a few symbols that explain the reports in their cells best together, shape (symbols,).

        Where one is very common, many others seem so that collide with it in the same row, and with each other: taking
        out what each explains in turn need not converge. The counts solve M·c = ĉ, where ĉ is what each one's cells say
        by themselves, and M_ij = (the share of rows in which i and j collide − κ)/(1 − κ), a Gram matrix but for κ's
        last digits. So conjugate gradients approach them, in few steps where few collide often.
        """
        randomizer, held = self._randomizer, np.zeros(len(mixed))
        cells = np.empty((randomizer.rows, len(mixed)), dtype=np.int64)
        for row in range(randomizer.rows):
            cells[row] = self._hashes(row, mixed)
            ends = (np.searchsorted(self._rows[row], cells[row], side) for side in ("right", "left"))
            held += np.subtract(*ends)
            cells[row] += row * randomizer.cells
        _, shared = np.unique(cells.ravel(), return_inverse=True)
        shared = shared.reshape(cells.shape)

        def explained(counts: Vector) -> Vector:
            together = np.bincount(shared.ravel(), np.tile(counts, randomizer.rows))[shared].sum(axis=0)
            product: Vector = together / randomizer.rows - randomizer.collision * counts.sum()
            return product / (1 - randomizer.collision)

        nobody = _Explained(np.empty(0, dtype=np.intp), mixed[:0], np.empty(0))
        return _solved(explained, (held - self._expected(nobody)) / randomizer.support_gap)

    def _expected(self, explained: _Explained) -> float:
        """Return how many reports of people who are not explained, and uniform ones, are expected of a symbol."""
        randomizer = self._randomizer
        by_collision = randomizer.truthful * randomizer.collision
        left = self._people - float(explained.counts.sum())
        uniform = self._people * (randomizer.support_other - by_collision) + self._dummies * randomizer.dummy_mean
        return left * by_collision + uniform

    def _collisions(self, square: float) -> float:
        randomizer = self._randomizer
        expected = self._reports * (1 - 1 / (randomizer.rows * randomizer.cells))
        pairs = max(0.0, square - expected) / randomizer.truthful**2
        return pairs * randomizer.collision / (1 - randomizer.collision)

    def _hashes(self, row: int, mixed: Symbols) -> npt.NDArray[np.int64]:
        return _hashed(self._words(row), mixed, np.uint64(self._randomizer.cells)).astype(np.int64)

    def _words(self, row: int) -> tuple[np.uint64, np.uint64, np.uint64]:
        low, high, shift = words(self._randomizer.cells, self._randomizer.rows, self._randomizer.gamma, row)
        return np.uint64(low), np.uint64(high), np.uint64(shift)

    def _gather(self, row: int, mixed: Symbols, gathered: Sequence[tuple[npt.NDArray[np.float32], Vector]]) -> None:
        """Add to each symbol what its cell of the row holds, in each of the tables that are given with a sum."""
        cells, row_words = np.uint64(self._randomizer.cells), self._words(row)
        for start in range(0, len(mixed), _AT_ONCE):
            hashed = _hashed(row_words, mixed[start : start + _AT_ONCE], cells)
            for held, found in gathered:
                found[start : start + _AT_ONCE] += held.take(hashed.view(np.int64))


def _solved(multiplied: Callable[[Vector], Vector], wanted: Vector) -> Vector:
    """Return what a positive semidefinite matrix multiplies to `wanted`, nearly: by conjugate gradients."""
    solution = np.zeros_like(wanted)
    direction = left = wanted
    for _ in range(REFINEMENTS):
        changed = multiplied(direction)
        square, curvature = float(left @ left), float(direction @ changed)
        if curvature <= 0 or square <= 1e-12 * float(wanted @ wanted):
            break
        solution = solution + square / curvature * direction
        left = left - square / curvature * changed
        direction = left + float(left @ left) / square * direction
    return solution


def _hashed(row_words: tuple[np.uint64, np.uint64, np.uint64], mixed: Symbols, cells: np.uint64) -> Symbols:
    """Return h_r of mixed symbols, as `hashing.cell_of` does: arithmetic of 64-bit words wraps around."""
    low, high, shift = row_words
    hashed = mixed & _LOW
    hashed *= low
    other = mixed >> _HALF
    other *= high
    hashed += other
    hashed += shift
    hashed >>= _HALF
    hashed *= cells
    hashed >>= _HALF
    return hashed


def _mixed(symbols: Symbols) -> Symbols:
    """Return the symbols mixed, as `queries.randomizers.hash_functions.mix` does."""
    mixed = symbols ^ (symbols >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
