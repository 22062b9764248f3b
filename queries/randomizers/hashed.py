"""Hashed response, for large domains and for texts: a report is a cell (row, hash), in four bytes for any domain.

A row r is drawn uniformly and is public. The symbol's hash h_r, one of g cells, is randomized by kRR over the g cells.
Counts are decoded afterwards (`queries.randomizers.hashed_decoding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.accountant.mechanisms import Hashed
from hubbub.queries.errors import FieldError
from hubbub.queries.fields import DENOMINATOR, Fields, check_count
from hubbub.queries.randomizers.hash_functions import HALF_WORD, MOST_ROWS, WORD, cell_of
from hubbub.queries.randomizers.sampling import DRAW_BYTES, Random, draw, uniform

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.randomizers.randomizer import RandomizerFamily, Tally, Vector

ROWS = 256
"""R, the rows of a planned randomizer. Collisions add about Σc²/(gR) to a variance; decoding takes R steps a text."""

MOST_CELLS = 2**20
"""Most cells of a row: with the most rows they fit the 32 bits of a report."""

LEAST_CELLS = 3

_CELL_BYTES = 4

_STEPS = (*(round(2 ** (quarter / 4)) for quarter in range(14, 80)), MOST_CELLS)
"""Numbers of cells to plan with: each about a fifth larger than the one before; they include powers of two."""

SHOWN_CELLS = (2**10, 2**12, 2**14, 2**16, 2**18)
"""Numbers of cells that a comparison shows, next to the one with the least error up to the planned share."""


@dataclass(frozen=True)
class HashedResponse:
    """Uniform on all cells of the row with probability γ = `gamma` / 2³², else the symbol's own cell."""

    kind: ClassVar[str] = "hashed"
    in_words: ClassVar[str] = (
        "a device sends where its answer is in a public table, whose places many answers share, or by chance "
        "any place (local hashing, hashed)"
    )
    most_symbols: ClassVar[int] = WORD
    needs_known_domain: ClassVar[bool] = False
    one_symbol_per_report: ClassVar[bool] = False

    symbols: int
    cells: int
    rows: int
    gamma: int

    @cached_property
    def mechanism(self) -> Hashed:
        return Hashed.from_numerator(self.cells, self.rows, self.gamma)

    def content(self) -> dict[str, Any]:
        """Return the form of the mechanism."""
        return self.mechanism.content()

    @property
    def report_bytes(self) -> int:
        """Length of a report."""
        return _CELL_BYTES

    @classmethod
    def read(cls, fields: Fields, symbols: int) -> Self:
        """Read γ as [w, 2³²], and the numbers of rows and cells."""
        check_count(fields.table, "cells", fields["cells"], LEAST_CELLS, MOST_CELLS)
        check_count(fields.table, "rows", fields["rows"], 1, MOST_ROWS)
        gamma = fields.ratio("gamma", "at 0 there is no privacy, at 1 no answer")
        if symbols > cls.most_symbols:
            raise FieldError(fields.table, "mechanism", f"is hashed, which takes at most 2**64 symbols, not {symbols}")
        return cls(symbols, fields["cells"], fields["rows"], gamma)

    @classmethod
    def families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Return one for each number of cells, with rising γ: few cells for common symbols, many for rare ones."""
        return tuple(OfCells(symbols, cells) for cells in _STEPS)

    @classmethod
    def shown_families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Return a few numbers of cells, far apart."""
        return tuple(OfCells(symbols, cells) for cells in SHOWN_CELLS)

    # On the device

    def place(self, row: int, symbol: int) -> int:
        """Return the cell of a symbol in a row: h_r."""
        return cell_of(self.cells, self.rows, self.gamma, row, symbol)

    def randomize(self, symbol: int, random: Random) -> bytes:
        """Return the report for a symbol in range(symbols).

        A 32-bit draw is compared with `gamma`, and row and uniform cell are drawn by rejection: the law is exactly the
        one that the certificate is computed for.
        """
        row = uniform(self.rows, random)
        uniformly = draw(random, DRAW_BYTES) < self.gamma
        cell = uniform(self.cells, random) if uniformly else self.place(row, symbol)
        return (row * self.cells + cell).to_bytes(_CELL_BYTES, "big")

    # At the shuffler

    def dummies(self, count: int, random: Random) -> bytes:
        """Return uniform cells: the accountant counts each as one more report from the blanket."""
        from hubbub.queries.randomizers.counting import uniform_symbols

        return uniform_symbols(count, self.rows * self.cells, random).astype(">u4").tobytes()

    @property
    def report_symbols(self) -> int:
        """One for each cell of each row: the cells of row 0, then those of row 1."""
        return self.rows * self.cells

    def reports_of(self, counts: Sequence[int]) -> bytes:
        """Return so many reports of each cell, in order."""
        from hubbub.queries.randomizers.counting import repeated

        return repeated(counts, self.report_symbols).astype(">u4").tobytes()

    # At the analyzer

    def likelihoods(self, reports: bytes, symbol: int) -> Vector:
        """Return 1 − γ + γ/g for the symbol's cell of the report's row and γ/g for every other, shape (reports,)."""
        import numpy as np

        found = np.frombuffer(reports, dtype=">u4").astype(np.int64)
        own = np.array([row * self.cells + self.place(row, symbol) for row in range(self.rows)], dtype=np.int64)
        # A number that is not a cell matches no cell of the symbol either.
        rows = np.minimum(found // self.cells, self.rows - 1)
        uniform_cell = self.gamma / DENOMINATOR / self.cells
        return np.where(found == own[rows], self.truthful + uniform_cell, uniform_cell)

    def tally(self, reports: bytes) -> Tally:
        """Keep the cells themselves, because there are too many symbols to count; other numbers are invalid."""
        from hubbub.queries.randomizers.hashed_cells import cells_in

        return cells_in(reports, self.rows * self.cells)

    def check(self, tally: Tally) -> None:
        """Return only if the tally can be this randomizer's; raise ValueError otherwise."""
        from hubbub.queries.randomizers.hashed_cells import check_cells

        check_cells(tally, self.rows * self.cells)

    def debias(self, tally: Tally, dummies: int, noise: ChainNoise | None = None) -> tuple[Vector, Vector]:
        """Decode every symbol: return the counts, and the (signed) contribution of collisions to each variance.

        Raises:
            ValueError: if there are too many symbols to decode them all.
        """
        from hubbub.queries.randomizers.hashed_decoding import every_symbol

        return every_symbol(self, tally, dummies, noise)

    @property
    def collision(self) -> float:
        """κ: the probability, over the hash functions, that two symbols share a cell of a row."""
        whole, more = divmod(HALF_WORD, self.cells)
        return (more * (whole + 1) ** 2 + (self.cells - more) * whole**2) / WORD

    @property
    def truthful(self) -> float:
        """1 − γ."""
        return 1 - self.gamma / DENOMINATOR

    @property
    def support_gap(self) -> float:
        """(1−γ)(1−κ): a true report counts for its own symbol always, and for another by collision."""
        return self.truthful * (1 - self.collision)

    @property
    def support_other(self) -> float:
        """A report of another symbol counts if the two collide, or by a uniform draw."""
        return self.truthful * self.collision + self.gamma / DENOMINATOR / self.cells

    @property
    def dummy_mean(self) -> float:
        """A dummy is each cell of its row with probability 1/g."""
        return 1 / self.cells

    def variances(self, weights: Vector) -> Vector:
        """Return v_p Σ_j w_j² + (v_q − v_p) w_y², over the report and the hash functions.

        v_q = q(1−q)/keep² for the symbol's own count, q = 1−γ+γ/g, and v_p = p(1−p)/keep² for another, p = `base`.
        Hits of different symbols are uncorrelated, because their hashes are. People of one symbol share its collisions;
        this covariance is not included here: `debias` returns it.
        """
        own, other = self.support_gap + self.support_other, self.support_other
        hit, miss = own * (1 - own) / self.support_gap**2, other * (1 - other) / self.support_gap**2
        variances: Vector = miss * float(weights @ weights) + (hit - miss) * weights**2
        return variances

    def dummy_variance(self, weights: Vector) -> float:
        """Return (1/g)(1−1/g) Σ_j w_j² / keep²."""
        return self.dummy_mean * (1 - self.dummy_mean) * float(weights @ weights) / self.support_gap**2


@dataclass(frozen=True)
class OfCells:
    """The family of one number of cells, with rising γ."""

    symbols: int
    cells: int

    def at(self, noise_level: int) -> HashedResponse:
        """Return the randomizer whose γ is `noise_level` / 2³²."""
        return HashedResponse(self.symbols, self.cells, ROWS, noise_level)
