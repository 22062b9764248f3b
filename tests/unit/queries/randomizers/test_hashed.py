"""The exact law of its reports, hash functions that devices and decoders compute alike, and its limits."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.queries.errors import FieldError
from hubbub.queries.fields import Fields
from hubbub.queries.randomizers.hash_functions import MOST_ROWS, mix, words
from hubbub.queries.randomizers.hashed import MOST_CELLS, HashedResponse
from hubbub.queries.randomizers.hashed_cells import Cells
from hubbub.queries.randomizers.hashed_decoding import _hashed, _mixed, decode
from hubbub.queries.randomizers.randomizer import Tally

HALF = 2**31
SMALL = HashedResponse(5, 4, 2, HALF)

# Written by the first version of this module; the mixing agrees with SplitMix64 as published.
KNOWN_MIXED = [0, 6238072747940578789, 13029008266876403067]
KNOWN_WORDS = (4712272327316413479, 9864197321094310935, 10882827873036782067)
KNOWN_PLACES = [1499, 3343, 3325]


class Dealt:
    """Draws that are dealt in turn, each as wide as it is asked for."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = iter(numbers)

    def __call__(self, width: int) -> bytes:
        return next(self._numbers).to_bytes(width, "big")


def test_reports_have_exactly_the_law_that_is_certified() -> None:
    """Every outcome of the three draws: row, uniform or not, and cell."""
    for symbol in range(SMALL.symbols):
        found: Counter[int] = Counter()
        for row, uniformly, cell in itertools.product(range(2), (0, HALF), range(4)):
            report = SMALL.randomize(symbol, Dealt(row, uniformly, cell))
            found[int.from_bytes(report, "big")] += 1
        law = SMALL.mechanism.law(tuple(SMALL.place(row, symbol) for row in range(2)))
        assert [Fraction(found[cell], 16) for cell in range(8)] == list(law)


def test_the_hash_functions_are_known_answers() -> None:
    """Devices in the field compute them: a change would make their reports noise."""
    assert [mix(symbol) for symbol in (0, 1, 2**64 - 1)] == KNOWN_MIXED
    assert words(4096, 256, 1 << 30, 7) == KNOWN_WORDS
    known = HashedResponse(10**6, 4096, 256, 1 << 30)
    assert [known.place(row, 123_456) for row in (0, 1, 255)] == KNOWN_PLACES


@given(
    st.integers(3, MOST_CELLS) | st.integers(2, 20).map(lambda bits: 2**bits),
    st.integers(1, MOST_ROWS),
    st.lists(st.integers(0, 2**64 - 1), min_size=1),
)
def test_decoders_hash_as_devices_do(cells: int, rows: int, symbols: list[int]) -> None:
    randomizer, row = HashedResponse(2**64, cells, rows, HALF), rows - 1
    some = _mixed(np.array(symbols, dtype=np.uint64))
    low, high, shift = (np.uint64(word) for word in words(cells, rows, HALF, row))
    assert _hashed((low, high, shift), some, cells).tolist() == [randomizer.place(row, x) for x in symbols]


def test_looking_up_reads_each_symbol_s_cell_of_every_row() -> None:
    """A table in which the count of a symbol is known by hand, for numbers of rows and cells of every kind."""
    for cells, rows in ((4, 1), (16, 3), (1000, 5), (4096, 8)):
        randomizer = HashedResponse(2**64, cells, rows, HALF)
        symbols = np.arange(50, dtype=np.uint64)
        generator = np.random.default_rng(cells)
        content = generator.integers(0, rows * cells, 3000)
        found = decode(randomizer, Cells(content, 3000), 0, symbols).counts
        held = np.bincount(content, minlength=rows * cells)
        own = [sum(held[row * cells + randomizer.place(row, x)] for row in range(rows)) for x in range(50)]
        counts = (np.array(own) - 3000 * randomizer.support_other) / randomizer.support_gap
        assert found == pytest.approx(counts, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("cells", [3, 7, 16, 1000, 65_536, 2**20])
def test_the_probability_of_a_collision_is_that_of_two_uniform_hashes(cells: int) -> None:
    kept = [(2**32 * (y + 1) + cells - 1) // cells - (2**32 * y + cells - 1) // cells for y in range(min(cells, 4096))]
    if cells <= 4096:
        assert sum(kept) == 2**32
        exact = Fraction(sum(each**2 for each in kept), 2**64)
        assert HashedResponse(9, cells, 1, HALF).collision == pytest.approx(float(exact), rel=1e-14)
    assert 1 <= HashedResponse(9, cells, 1, HALF).collision * cells <= 1 + (cells / 2**32) ** 2 / 4 + 1e-15


def test_symbols_collide_as_often_as_stated() -> None:
    """64 rows of 4 cells over 40 neighboring symbols: 49,920 pairs, two-sided false-alarm rate 1e-6 if independent."""
    randomizer = HashedResponse(40, 4, 64, HALF)
    together = sum(
        randomizer.place(row, one) == randomizer.place(row, other)
        for row in range(64)
        for one, other in itertools.combinations(range(40), 2)
    )
    pairs = 64 * 780
    assert abs(together - pairs / 4) < 4.9 * (pairs * 3 / 16) ** 0.5


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"cells": 2}, "from 3 to 1048576"),
        ({"cells": 2**20 + 1}, "from 3 to 1048576"),
        ({"rows": 0}, "from 1 to 4096"),
        ({"rows": True}, "from 1 to 4096"),
        ({"gamma": [0, 2**32]}, "with w from 1"),
        ({"gamma": [2**32, 2**32]}, "with w from 1"),
    ],
)
def test_numbers_out_of_range_are_refused(changed: dict[str, Any], says: str) -> None:
    content = {"cells": 16, "rows": 4, "gamma": [HALF, 2**32]} | changed
    with pytest.raises(FieldError, match=says):
        HashedResponse.read(Fields("query[0]", content, planned=True), 9)


def test_a_report_beyond_the_table_is_invalid_and_the_others_are_kept() -> None:
    reports = b"".join(number.to_bytes(4, "big") for number in (0, 7, 8, 2**32 - 1, 7))
    tally = SMALL.tally(reports)
    assert (sorted(tally.counts.tolist()), tally.valid, tally.invalid) == ([0, 7, 7], 3, 2)
    both = tally + tally
    assert (len(both.counts), both.valid, both.invalid) == (6, 6, 4)


@pytest.mark.parametrize("counts", [[0, 7], [0, 7, 8], [0, 7, -1], [[0, 7, 1]]])
def test_a_tally_that_is_not_this_randomizer_s_is_refused(counts: Any) -> None:
    with pytest.raises(ValueError, match="cells of shape"):
        SMALL.check(Tally(np.array(counts), 3))


def test_a_text_s_symbols_are_not_all_decoded() -> None:
    with pytest.raises(ValueError, match="decode only those you look for"):
        HashedResponse(2**64, 16, 4, HALF).debias(Tally(np.zeros(0, dtype=np.int64), 0), 0)


def test_dummies_are_uniform_cells() -> None:
    found = np.frombuffer(SMALL.dummies(3, Dealt(int.from_bytes(bytes([5, 0, 0, 0, 6, 0, 0, 0, 15, 0, 0, 0])))), ">u4")
    assert found.tolist() == [5, 6, 7]


def test_without_noise_counts_come_out_but_for_collisions() -> None:
    """γ of one in 2³²: a hundred symbols, the common ones explained, so that the rest is right to a few people."""
    randomizer, generator = HashedResponse(100, 512, 64, 1), np.random.default_rng(7)
    people = np.concatenate([np.full(5000, 3), np.full(2000, 50), generator.integers(0, 100, 1000)])
    reports = b"".join(randomizer.randomize(int(symbol), generator.bytes) for symbol in people)
    decoded = decode(randomizer, randomizer.tally(reports), 0, np.arange(100, dtype=np.uint64))
    error = decoded.counts - np.bincount(people, minlength=100)
    assert np.abs(error).max() < 40
    assert np.abs(error / np.sqrt(decoded.variances)).max() < 5
