"""Decodes the cells of hashed reports into the counts of any symbols, with their standard errors.

N_x is the number of reports in the cell of x in their row. With n people, D dummies, keep = (1−γ)(1−κ), and κ the
probability that two symbols share a cell (`queries.randomizers.hash_functions`),

    ĉ_x = (N_x − n·base − D/g) / keep

is unbiased over the reports and the hash functions. With c_x people of x, its variance is

    c_x·q(1−q)/keep² + (n−c_x)·p(1−p)/keep² + D·(1/g)(1−1/g)/keep² + Σ_{j≠x} c_j(c_j−1)·κ/((1−κ)R)

with q = 1−γ+γ/g and p = base. The last term, about Σc²/(gR), is the covariance between people of one symbol: they
collide with x in the same rows. Three steps make this term small and known:

- The common symbols among those decoded are *explained*: the reports that (1−γ)ĉ_j people are expected to add to each
  row are subtracted from the table before the others are decoded, and added back for j itself. The sum then runs over
  the other symbols only. Only symbols that somebody has may be explained. If a text is very common and not decoded,
  symbols collide with it that nobody has. Explained by these, its cells would look empty, and they themselves far too
  many to be chance. So a symbol has to stand out of the table as it was before it was explained, unless all symbols are
  decoded, and the table has twice as many cells as there may be common ones: then each explains what it holds.
- Explained reports still cause noise in their cells. So x gets the variance of the reports in its own
  cells, instead of the mean over all cells that the formula has.
- The rest of the term is measured for all texts, also those that were not looked for: people of one symbol
  make the squares of the table's counts larger. With S = Σ(T − mean)² over the residual table of N reports,
  (S − N(1 − 1/(gR)))/(1−γ)² estimates Σ c(c−1)/R.

If the dummies are noise of the shuffler, their numbers in the cells vary otherwise than those of uniform dummies: as
those of D' uniform ones (`randomizer.equal_dummies`). Then D' replaces D in the variance, and in N, and D stays in the
mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from hubbub.queries.randomizers.hash_functions import words
from hubbub.queries.randomizers.hashed_noise import Noise, NoiseSamples
from hubbub.queries.randomizers.randomizer import Randomizer, Tally, equal_dummies

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.randomizers.randomizer import Vector

Symbols = npt.NDArray[np.uint64]

RowTable = npt.NDArray[np.float32]
"""The content of each cell of a row."""

Halves = tuple[Symbols, Symbols]
"""The lower and the upper 32 bits of mixed symbols."""

MOST_DECODED = 2**24
"""Most symbols decoded at once: about 400 MB, and a minute."""

EXPLAINED = 1000
"""Most symbols that are explained, the most common ones."""

COMMON = 6.0
"""From so many standard errors of an absent symbol on, a symbol is explained."""

SEARCHED, LEAST_SEARCHED = 8, 32
"""Common symbols are searched in an eighth of the rows, which give their counts accurately enough; in 32 at least."""

SEARCHES = 4
"""Most searches. Beside what one explains, the next finds symbols that are less common; most often two are enough."""

WRONGLY_EXPLAINED = 1e-6
"""Most probability that one search explains reports by any symbol that nobody has."""

REFINEMENTS = 60
"""Most steps that fit the counts of common symbols jointly; about ten are needed, because few symbols collide often."""

ACCURATE = 1e-12
"""The fit ends at this residual relative to the counts: far below the last digit that results state."""

_AT_ONCE = 2**15
"""Symbols hashed together: their words stay in the processor's cache."""

_ROWS_AT_ONCE = 2
"""Rows whose cells are added before a symbol's sum takes them; their tables stay in the cache, too."""

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


class _Hashing(Randomizer, Protocol):
    """The members of `hashed.HashedResponse` that decoding needs, beside those of a randomizer."""

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


@dataclass(frozen=True, eq=False)
class Decoded:
    """Counts of the requested symbols, their variances, and bounds of their p-values; shape (symbols,) each.

    `log_chances` are the logarithms of bounds on the probability that the cells of a symbol that nobody has contain so
    many reports (`hashed_noise.Noise`).
    """

    counts: Vector
    variances: Vector
    log_chances: Vector


def every_symbol(
    randomizer: _Hashing, tally: Tally, dummies: int, noise: ChainNoise | None = None
) -> tuple[Vector, Vector]:
    """Decode all symbols; return their counts, and by how much each variance differs from the mean one.

    Raises:
        ValueError: if there are too many, as for a text.
    """
    if randomizer.symbols > MOST_DECODED:
        raise ValueError(f"{randomizer.symbols} symbols are more than {MOST_DECODED}; decode only those you look for")
    all_symbols = np.arange(randomizer.symbols, dtype=np.uint64)
    decoded = decode(randomizer, tally, dummies, all_symbols, noise, complete=True)
    indicator, people = np.array([1.0, 0.0]), tally.valid - dummies
    hit, miss = randomizer.variances(indicator).tolist()
    clipped = np.clip(decoded.counts, 0, people)
    of_dummies = equal_dummies(randomizer, dummies, noise) * randomizer.dummy_variance(indicator)
    usual = clipped * hit + (people - clipped) * miss + of_dummies
    return decoded.counts, decoded.variances - usual


def decode(
    randomizer: _Hashing,
    tally: Tally,
    dummies: int,
    symbols: Symbols,
    noise: ChainNoise | None = None,
    *,
    complete: bool = False,
) -> Decoded:
    """Return the counts of distinct symbols, from a batch's cells with that many dummies among them.

    With `noise`, each shuffler drew their numbers, one for each cell of each row, from that law. If the symbols are
    `complete`, nobody has another one; then `log_chances` are no bounds. It takes about 5 ns for each symbol and row.
    """
    table = _Table(randomizer, tally, dummies, noise)
    mixed = _mixed(symbols)
    common = _Explained(np.empty(0, dtype=np.intp), mixed[:0], np.empty(0))
    for _ in range(SEARCHES):
        before, common = common.places, _searched(table, mixed, common, complete=complete)
        if np.isin(common.places, before).all():
            break  # nothing new is explained: another search would find the same
    gathered = table.counts(mixed, common)
    counts, spread = gathered.counts, table.spread(gathered)
    # An explained symbol's reports come from its own people, who are counted here and add their own variance.
    counts[common.places] += common.counts
    gathered.known[common.places] -= randomizer.truthful * common.counts
    spread[common.places] -= randomizer.truthful * common.counts
    own = randomizer.support_gap + randomizer.support_other
    clipped = np.clip(counts, 0, tally.valid - dummies)
    logs = gathered.log_chances(slice(None), randomizer.support_gap)
    return Decoded(counts, (clipped * own * (1 - own) + spread) / randomizer.support_gap**2, logs)


@dataclass(frozen=True, eq=False)
class _CellSums:
    """The sums over the cells of symbols.

    Attributes:
        counts: ĉ among the people who are not explained.
        known: the explained reports expected in the cells.
        expected: the other reports expected of each symbol.
        collisions: the variance that people of one symbol add to the number of these reports.
        noise: the law of their number in the rows that were read, if nobody has the symbol.
        whole: by how much the numbers were scaled up from these rows to all.
    """

    counts: Vector
    known: Vector
    expected: float
    collisions: float
    noise: Noise
    whole: float

    def log_chances(self, some: slice | npt.NDArray[np.intp], gap: float) -> Vector:
        """Return bounds of ln P[as many reports, if nobody has the symbol] of some symbols, by the rows read."""
        reports = (self.counts[some] * gap + self.expected) / self.whole
        return self.noise.log_chances(reports, np.maximum(self.known[some], 0.0) / self.whole)


@dataclass(frozen=True, eq=False)
class _Explained:
    """The explained symbols: their indices among those decoded, their mixed bits, and the people of each."""

    places: npt.NDArray[np.intp]
    mixed: Symbols
    counts: Vector

    def above(self, least: float) -> _Explained:
        """Return the most common ones, with more than `least` people each."""
        # Few of millions are left to be sorted.
        some = np.flatnonzero(self.counts > least)
        order = some[np.argsort(self.counts[some])[::-1][:EXPLAINED]]
        return _Explained(self.places[order], self.mixed[order], self.counts[order])


def _searched(table: _Table, mixed: Symbols, known: _Explained, *, complete: bool) -> _Explained:
    """Return the common symbols, given those that are known already.

    A new one is found if its count is no chance, with a probability of `WRONGLY_EXPLAINED` that any is. The table so
    far does not depend on the cells of a symbol that nobody has, so the bound of its chance holds (`Noise`). If the
    symbols are `complete`, a high count is enough: one that only collides is sorted out by the common one. That takes
    enough cells: of more symbols than half of the cells, the fit would be one of many.
    """
    step = max(1, min(SEARCHED, table.rows // LEAST_SEARCHED))
    gathered, least = table.counts(mixed, known, step), COMMON * table.error * np.sqrt(step)
    high = np.setdiff1d(np.flatnonzero(gathered.counts > least), known.places)
    if complete and 2 * (len(high) + len(known.places)) <= table.cells:
        new = high
    else:
        chances = gathered.log_chances(high, table.support_gap)
        new = high[chances <= np.log(WRONGLY_EXPLAINED / max(len(mixed), 1))]
    gathered.counts[known.places] += known.counts
    places = np.concatenate([known.places, new])
    found = _Explained(places, mixed[places], gathered.counts[places]).above(least)
    return _Explained(found.places, found.mixed, table.fitted(found.mixed)).above(COMMON * table.error)


class _Table:
    """A batch's cells, row by row."""

    def __init__(self, randomizer: _Hashing, tally: Tally, dummies: int, noise: ChainNoise | None) -> None:
        self._randomizer = randomizer
        ordered = np.sort(tally.counts)
        bounds = np.searchsorted(ordered, np.arange(randomizer.rows + 1) * randomizer.cells)
        ends = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        self._rows = [ordered[start:end] - row * randomizer.cells for row, (start, end) in enumerate(ends)]
        self._reports = tally.valid
        self._dummies = dummies
        self._people = tally.valid - dummies
        self._noisy = equal_dummies(randomizer, dummies, noise)
        # Uniform dummies add as much to a variance as to a mean, but for a part 1/g.
        varying = self._noisy * (1 - randomizer.dummy_mean) - dummies
        self._more = 0.0 if noise is None else varying * randomizer.dummy_mean

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._randomizer.rows

    @property
    def cells(self) -> int:
        """How many cells all rows have."""
        return self._randomizer.rows * self._randomizer.cells

    @property
    def support_gap(self) -> float:
        """By how much more often a report is in the cell of its own symbol than in that of another."""
        return self._randomizer.support_gap

    @property
    def error(self) -> float:
        """The standard error of a symbol that nobody has, without the part of collisions."""
        indicator, randomizer = np.array([1.0, 0.0]), self._randomizer
        people = self._people * float(randomizer.variances(indicator)[1])
        return float(np.sqrt(people + self._noisy * randomizer.dummy_variance(indicator)))

    def spread(self, gathered: _CellSums) -> Vector:
        """Return the variance of the reports in the cells of each symbol if nobody has it, shape (symbols,)."""
        return gathered.expected + self._more + gathered.known + gathered.collisions

    def counts(self, mixed: Symbols, explained: _Explained, step: int = 1) -> _CellSums:
        """Return the sums over the cells of each symbol.

        Only every `step`-th row is read; the sums are scaled up for the other rows.
        """
        randomizer, square, seen = self._randomizer, 0.0, NoiseSamples()
        found, known, looked_at = np.zeros(len(mixed)), np.zeros(len(mixed)), range(0, randomizer.rows, step)
        halves, sums = _halved(mixed), (found, known) if len(explained.counts) else (found,)
        share = randomizer.truthful * explained.counts / randomizer.rows
        for first in range(0, len(looked_at), _ROWS_AT_ONCE):
            tables: list[Sequence[RowTable]] = []
            some_rows = looked_at[first : first + _ROWS_AT_ONCE]
            for row in some_rows:
                held = np.bincount(self._rows[row], minlength=randomizer.cells).astype(np.float32)
                of_common = np.zeros(randomizer.cells, dtype=np.float32)
                if len(share):
                    hashes = self._hashes(row, explained.mixed)
                    of_common = np.bincount(hashes, share, randomizer.cells).astype(np.float32)
                    held -= of_common
                square += float(np.square(held, dtype=np.float64).sum())
                seen.add(held, of_common)
                tables.append((held, of_common))
            self._gather(some_rows, halves, tables, sums)
        whole = randomizer.rows / len(looked_at)
        left = self._reports - float(share.sum()) * randomizer.rows
        around_mean = square * whole - left**2 / (randomizer.rows * randomizer.cells)
        expected = self._expected(explained)
        collisions = self._collisions(around_mean) * randomizer.support_gap**2
        counts = (found * whole - expected) / randomizer.support_gap
        return _CellSums(counts, known * whole, expected, collisions, seen.noise(len(looked_at)), whole)

    def fitted(self, mixed: Symbols) -> Vector:
        """Return the counts of a few symbols that jointly explain the reports in their cells best, shape (symbols,).

        If one symbol is very common, many others that collide with it in some row seem common too, and collide with
        each other. Subtracting the reports of each in turn need not converge. Instead the counts solve M·c = ĉ. Here ĉ
        is the estimate from each symbol's cells alone, and M_ij = (the share of rows in which i and j collide − κ)/(1 −
        κ) is a Gram matrix up to the last digits of κ. So conjugate gradients approach the solution, in few steps if
        few symbols collide often.
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
        """Return how many reports of people who are not explained, and uniform reports, are expected for a symbol."""
        randomizer = self._randomizer
        by_collision = randomizer.truthful * randomizer.collision
        left = self._people - float(explained.counts.sum())
        uniform = self._people * (randomizer.support_other - by_collision) + self._dummies * randomizer.dummy_mean
        return left * by_collision + uniform

    def _collisions(self, square: float) -> float:
        randomizer = self._randomizer
        expected = (self._people + self._noisy) * (1 - 1 / (randomizer.rows * randomizer.cells))
        pairs = max(0.0, square - expected) / randomizer.truthful**2
        return pairs * randomizer.collision / (1 - randomizer.collision)

    def _hashes(self, row: int, mixed: Symbols) -> npt.NDArray[np.int64]:
        return _hashed(self._words(row), mixed, self._randomizer.cells).astype(np.int64)

    def _words(self, row: int) -> tuple[np.uint64, np.uint64, np.uint64]:
        low, high, shift = words(self._randomizer.cells, self._randomizer.rows, self._randomizer.gamma, row)
        return np.uint64(low), np.uint64(high), np.uint64(shift)

    def _gather(
        self, rows: Sequence[int], halves: Halves, tables: Sequence[Sequence[RowTable]], sums: Sequence[Vector]
    ) -> None:
        """Add the content of each symbol's cell of these rows to its sums; a row has a table for each of the sums."""
        row_words, (low, high) = [self._words(row) for row in rows], halves
        for start in range(0, len(low), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            # Few numbers of single precision are added before the sums take them: whole ones below 2²⁴ exactly.
            gathered = [np.zeros(len(low[some]), dtype=np.float32) for _ in sums]
            for words_of_row, of_row in zip(row_words, tables, strict=True):
                hashed = _hashed_halves(words_of_row, (low[some], high[some]), self._randomizer.cells).view(np.int64)
                for found, table in zip(gathered, of_row, strict=False):
                    found += table.take(hashed)
            for total, found in zip(sums, gathered, strict=True):
                total[some] += found


def _solved(multiplied: Callable[[Vector], Vector], wanted: Vector) -> Vector:
    """Return an approximate x with M·x = `wanted`, for a positive semidefinite matrix M, by conjugate gradients."""
    solution, direction, left = np.zeros_like(wanted), wanted, wanted
    square = _product(left, left)
    enough = ACCURATE**2 * square
    for _ in range(REFINEMENTS):
        changed = multiplied(direction)
        curvature = _product(direction, changed)
        if curvature <= 0 or square <= enough:
            break
        solution = solution + square / curvature * direction
        left = left - square / curvature * changed
        before, square = square, _product(left, left)
        direction = left + square / before * direction
    return solution


def _product(one: Vector, other: Vector) -> float:
    # Not by @, which rounds differently from one processor to the next: then a checker might take a step more or less.
    return float((one * other).sum())


def _halved(mixed: Symbols) -> Halves:
    """Return x₀ and x₁ of mixed symbols: they are the same in every row."""
    return mixed & _LOW, mixed >> _HALF


def _hashed(row_words: tuple[np.uint64, np.uint64, np.uint64], mixed: Symbols, cells: int) -> Symbols:
    """Return h_r of mixed symbols, as `hash_functions.cell_of` does."""
    return _hashed_halves(row_words, _halved(mixed), cells)


def _hashed_halves(row_words: tuple[np.uint64, np.uint64, np.uint64], halves: Halves, cells: int) -> Symbols:
    """Return h_r of mixed symbols, given by their halves: arithmetic of 64-bit words wraps around."""
    low, high, shift = row_words
    hashed = halves[0] * low
    hashed += halves[1] * high
    hashed += shift
    if cells & (cells - 1) == 0:
        # ⌊2^b·⌊y / 2³²⌋ / 2³²⌋ = ⌊y / 2^(64−b)⌋, as b ≤ 32; and b > 0, as a row has several cells.
        hashed >>= np.uint64(65 - cells.bit_length())
        return hashed
    hashed >>= _HALF
    hashed *= np.uint64(cells)
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
