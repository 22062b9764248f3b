"""Hashed reports, decoded: unbiased over reports and hash functions, with errors that are what they say.

Every batch has hash functions of its own: γ's numerator differs by one, which changes them and nothing that can be
seen. A mean passes within Z standard errors, a variance within Z deviations of that of a normal law's; Z = 4.9 is a
two-sided false-alarm rate of 1e-6 a check, and there are 22. Seeds are fixed, so a run does not flake.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.randomizers.hash_functions import words
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.hashed_cells import Cells
from hubbub.queries.randomizers.hashed_decoding import _hashed, _mixed, decode
from hubbub.queries.texts.lookup import FALSE_DISCOVERIES, standing_out
from hubbub.queries.texts.text import Text

Z = 4.9
BATCHES = 400
HELD = np.array([0, 0, 0, 30, 400])
"""People by symbol; 600 more hold one each, which nobody looks up."""

ALONE = 600
PEOPLE = int(HELD.sum()) + ALONE


def reports(
    randomizer: HashedResponse,
    dummies: int,
    generator: np.random.Generator,
    people: np.ndarray = HELD,
    alone: int = ALONE,
) -> Cells:
    """A batch drawn from the exact law."""
    held = np.repeat(np.arange(len(people)), people)
    symbols = _mixed(np.concatenate([held, 10**6 + np.arange(alone)]).astype(np.uint64))
    rows = generator.integers(0, randomizer.rows, len(symbols))
    cells = generator.integers(0, randomizer.cells, len(symbols))
    true = generator.integers(0, 2**32, len(symbols)) >= randomizer.gamma
    for row in np.unique(rows[true]):
        own = np.flatnonzero(true & (rows == row))
        low, high, shift = (
            np.uint64(word) for word in words(randomizer.cells, randomizer.rows, randomizer.gamma, int(row))
        )
        cells[own] = _hashed((low, high, shift), symbols[own], randomizer.cells).astype(np.int64)
    noise = generator.integers(0, randomizer.rows * randomizer.cells, dummies)
    return Cells(np.concatenate([rows * randomizer.cells + cells, noise]), len(symbols) + dummies)


@cache
def batches(cells: int, rows: int, dummies: int, size: int = BATCHES, wrong: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Decoded counts and stated variances, shape (size, symbols); `wrong` shifts γ's numerator for the decoder."""
    generator, asked = np.random.default_rng(cells + rows + dummies), np.arange(len(HELD), dtype=np.uint64)
    counts, variances = [], []
    for batch in range(size):
        sent = HashedResponse(2**64, cells, rows, 2**31 + batch)
        tally = reports(sent, dummies, generator)
        decoded = decode(HashedResponse(2**64, cells, rows, sent.gamma + wrong), tally, dummies, asked)
        counts.append(decoded.counts)
        variances.append(decoded.variances)
    return np.array(counts), np.array(variances)


@pytest.mark.sampled("101")
@pytest.mark.parametrize(("cells", "rows", "dummies"), [(32, 16, 0), (101, 8, 500)])
def test_decoded_counts_are_unbiased_and_their_errors_as_stated(cells: int, rows: int, dummies: int) -> None:
    counts, variances = batches(cells, rows, dummies)
    errors = counts - HELD
    stated = variances.mean(axis=0)
    assert np.all(np.abs(errors.mean(axis=0)) < Z * np.sqrt(stated / BATCHES))
    # Heavier tails than a normal law's, from collisions, widen what a variance may be off by; 1.5 times is ample.
    assert np.all(np.abs(errors.var(axis=0) / stated - 1) < 1.5 * Z * np.sqrt(2 / BATCHES))


def test_the_formula_of_the_standard_error_is_that_of_planning() -> None:
    """Over hash functions: what one report adds, times the people, and what collisions of the common symbol add."""
    randomizer = HashedResponse(2**64, 32, 16, 2**31)
    hit, miss = randomizer.variances(np.array([1.0, 0.0])).tolist()
    _, variances = batches(32, 16, 0)
    for symbol, people in enumerate(HELD.tolist()):
        planned = people * hit + (PEOPLE - people) * miss
        assert variances[:, symbol].mean() == pytest.approx(planned, rel=0.15)


def test_a_decoder_of_another_law_is_seen() -> None:
    """Decoded as if γ were a quarter less: the common symbol's count is off by many standard errors of its mean.

    Its functions are another family's then too, so this shows that reports decode under their own alone.
    """
    counts, variances = batches(32, 16, 0, 50, -(2**29))
    off = np.abs((counts - HELD).mean(axis=0)) / np.sqrt(variances.mean(axis=0) / 50)
    assert off.max() > 3 * Z


LOOKED_UP, TEXTS, COMMON = 20_000, 5, 50_000
"""Of the looked-up texts, the first ones have 2,000 people each; half of all people have a text beside these."""


@pytest.mark.parametrize("common", [False, True], ids=["not looked up", "looked up"])
def test_what_collides_with_a_common_text_does_not_stand_out(common: bool) -> None:
    """In 16 rows of 256 cells, one in 16 texts collides. They must not explain the common text's reports by themselves.

    If they did, some thousand would stand out in six of these ten batches: a false share of 0.6 in the mean.
    """
    people = np.array([2000] * TEXTS + [0] * (LOOKED_UP - TEXTS) + [COMMON])
    asked, shares = np.arange(LOOKED_UP + common, dtype=np.uint64), []
    for batch in range(10):
        sent = HashedResponse(2**64, 256, 16, int(0.3 * 2**32) + batch)
        tally = reports(sent, 0, np.random.default_rng(batch), people, 40_000)
        found = [place for place, _ in standing_out(Text("word"), Debiased(sent, tally), asked)]
        shares.append(sum(people[place] == 0 for place in found) / max(1, len(found)))
        # Where it is looked up, it explains its own reports, and every text that people have is found.
        assert not common or {*range(TEXTS), LOOKED_UP} <= set(found)
    assert np.mean(shares) <= FALSE_DISCOVERIES


def test_where_all_symbols_are_decoded_each_explains_what_it_holds() -> None:
    """A hundred symbols collide so often that hardly one stands out by itself; together they explain the table."""
    people, sent = np.array([700] * 60 + [1160] * 50 + [0] * 390), HashedResponse(500, 64, 16, int(0.3 * 2**32))
    tally, asked = reports(sent, 0, np.random.default_rng(3), people, 0), np.arange(500, dtype=np.uint64)
    found = [decode(sent, tally, 0, asked, complete=complete) for complete in (True, False)]
    seen = [np.sqrt(np.mean((each.counts - people) ** 2)) for each in found]
    stated = [np.sqrt(each.variances.mean()) for each in found]
    assert 2 * seen[0] < seen[1]
    assert stated == pytest.approx(seen, rel=0.2)


def test_where_cells_are_few_symbols_are_not_fitted_to_them() -> None:
    """256 cells for 500 symbols, most of which collide: a fit would give nearly all of them counts that nobody has."""
    people, off = np.array([700] * 60 + [1160] * 50 + [0] * 390), []
    for batch in range(20):
        sent = HashedResponse(500, 64, 4, int(0.3 * 2**32) + batch)
        tally = reports(sent, 0, np.random.default_rng(batch), people, 0)
        found = decode(sent, tally, 0, np.arange(500, dtype=np.uint64), complete=True)
        off.append(np.abs(found.counts - people) / np.sqrt(found.variances))
    # Of the 60: 95 % of their intervals have the truth, and 36 % with a fit.
    assert np.mean(np.array(off)[:, :60] < 1.96) > 0.9
