"""Batches of a text's rounds, drawn from the exact law of hashed reports, many at once."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.randomizers.hash_functions import words
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.hashed_cells import Cells
from hubbub.queries.randomizers.hashed_decoding import _hashed, _mixed
from hubbub.queries.texts.text import Text


def batches(
    question: Text,
    randomizer: HashedResponse,
    held: Mapping[str, int],
    generator: np.random.Generator,
    dummies: int = 0,
) -> dict[int, Debiased]:
    """Every round up to the one for whole texts, answered by so many people of each text."""
    return {
        number: Debiased(randomizer, _cells(question, randomizer, held, number, generator, dummies), dummies)
        for number in range(len(question.prefixes) + 1)
    }


def _cells(
    question: Text,
    randomizer: HashedResponse,
    held: Mapping[str, int],
    number: int,
    generator: np.random.Generator,
    dummies: int,
) -> Cells:
    symbols = np.array([question.encode_in(text, number, os.urandom) for text in held], dtype=np.uint64)
    mixed = _mixed(np.repeat(symbols, list(held.values())))
    rows = generator.integers(0, randomizer.rows, len(mixed))
    cells = generator.integers(0, randomizer.cells, len(mixed))
    true = generator.integers(0, 2**32, len(mixed)) >= randomizer.gamma
    for row in range(randomizer.rows):
        own = np.flatnonzero(true & (rows == row))
        low, high, shift = (np.uint64(word) for word in words(randomizer.cells, randomizer.rows, randomizer.gamma, row))
        cells[own] = _hashed((low, high, shift), mixed[own], randomizer.cells).astype(np.int64)
    noise = generator.integers(0, randomizer.rows * randomizer.cells, dummies)
    return Cells(np.concatenate([rows * randomizer.cells + cells, noise]), len(mixed) + dummies)
