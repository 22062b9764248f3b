"""A million candidates looked up in a million hashed reports, against hashing them alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from row import Outcome, Row, timed_once

from hubbub.queries.randomizers.hash_functions import words
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.hashed_cells import Cells
from hubbub.queries.randomizers.hashed_decoding import decode

CANDIDATES = REPORTS = 10**6
RUNS = 3
RANDOMIZER = HashedResponse(2**64 - 1, 65_536, 256, int(0.52 * 2**32))


def decoding() -> Iterator[Outcome]:
    """Uniform cells: what they hold does not change the work, and nobody is common."""
    generator = np.random.default_rng(1)
    cells = generator.integers(0, RANDOMIZER.rows * RANDOMIZER.cells, REPORTS)
    symbols = generator.integers(0, 2**63, CANDIDATES, dtype=np.uint64)
    limits, found = [], []
    for _ in range(RUNS):
        limits.append(timed_once(lambda: hashing(symbols))[0])
        found.append(timed_once(lambda: decode(RANDOMIZER, Cells(cells, REPORTS), 0, symbols))[0])
    yield Row.of("decode", "s", found, limits)


def hashing(symbols: np.ndarray) -> None:
    """Every symbol's cell of every row, some symbols at a time, by the formula (`hash_functions`), for any cells."""
    half, lower, cells = np.uint64(32), np.uint64(2**32 - 1), np.uint64(RANDOMIZER.cells)
    for row in range(RANDOMIZER.rows):
        low, high, shift = (np.uint64(word) for word in words(RANDOMIZER.cells, RANDOMIZER.rows, RANDOMIZER.gamma, row))
        for start in range(0, len(symbols), 2**15):
            some = symbols[start : start + 2**15]
            hashed = some & lower
            hashed *= low
            other = some >> half
            other *= high
            hashed += other
            hashed += shift
            hashed >>= half
            hashed *= cells
            hashed >>= half


ROWS = (decoding,)
