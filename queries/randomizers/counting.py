"""Draws millions of uniform symbols, and checks and debiases counts. Services import this module; devices do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import Randomizer, Tally, Vector


def uniform_symbols(count: int, symbols: int, random: Random) -> npt.NDArray[np.uint32]:
    """Return `count` symbols from range(`symbols`): exactly uniform and independent if the bytes of `random` are.

    32-bit draws at or above the largest multiple of `symbols` are rejected. Modulo `symbols`, they would make the first
    symbols more likely than the last.
    """
    limit = 2**32 - 2**32 % symbols
    found = np.empty(0, dtype=np.uint64)
    # Less than half of the draws are rejected for any `symbols`, so the loop ends soon.
    while len(found) < count:
        draws = np.frombuffer(random(4 * (count - len(found))), dtype="<u4").astype(np.uint64)
        found = np.concatenate([found, draws[draws < limit] % symbols])
    return found.astype(np.uint32)


def check_counts(tally: Tally, symbols: int) -> None:
    """Return only if a tally has a count for each symbol, from 0 to the valid reports; raise ValueError otherwise."""
    counts, valid = tally.counts, tally.valid
    if counts.shape != (symbols,) or (counts < 0).any() or (counts > valid).any():
        raise ValueError(f"counts of shape {counts.shape}; {symbols} counts from 0 to {valid} are expected")


def debiased(randomizer: Randomizer, tally: Tally, dummies: int) -> tuple[Vector, Vector]:
    """Return ĉ_j = (N_j − base·n − dummy_mean·D)/keep of counts by symbol, and zeros: the variances do not differ."""
    expected = (tally.valid - dummies) * randomizer.support_other + dummies * randomizer.dummy_mean
    counts = np.asarray((tally.counts - expected) / randomizer.support_gap, dtype=np.float64)
    return counts, np.zeros(len(counts))
