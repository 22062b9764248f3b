"""Counts of many simulated batches at once, under a query's exact randomizer, for statistical tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

from hubbub.accountant.mechanisms import KRR
from hubbub.queries.estimation.estimates import Estimate, Estimates
from hubbub.queries.query import Query
from hubbub.queries.randomizers.randomizer import Tally

People = tuple[int, Sequence[float]]
"""So many devices, with this law of the encoded symbol."""


def simulated(query: Query, people: Sequence[People], batches: int, seed: int) -> npt.NDArray[np.int64]:
    """Counts of each batch, shape (batches, symbols)."""
    generator, mechanism = np.random.default_rng(seed), query.mechanism
    if isinstance(mechanism, KRR):
        rows = np.array([[float(p) for p in mechanism.law(symbol)] for symbol in range(query.symbols)])
        drawn = [generator.multinomial(size, np.array(law) @ rows, size=batches) for size, law in people]
        return np.asarray(np.sum(drawn, axis=0), dtype=np.int64)
    found = np.zeros((batches, query.symbols), dtype=np.int64)
    own, another = (float(query.randomizer.support_other + keep) for keep in (query.randomizer.support_gap, 0))
    for size, law in people:
        # Bits are independent given the symbol, so each count is a sum of two binomials.
        holders = generator.multinomial(size, law, size=batches)
        found += generator.binomial(holders, own) + generator.binomial(size - holders, another)
    return found


def published(query: Query, people: Sequence[People], batches: int, seed: int) -> list[Estimates]:
    """What is published of each of these batches."""
    valid = sum(size for size, _ in people)
    return [query.estimates(Tally(counts, valid), 0) for counts in simulated(query, people, batches, seed)]


def at(symbol: int, symbols: int) -> list[float]:
    """The law of a symbol that is encoded for certain."""
    return [float(symbol == other) for other in range(symbols)]


# What many estimates of one number are compared with the truth by

RATE = 1e-6
"""How often a check of so many batches fails although all is right, with a new seed: exactly, or nearly."""


def most_deviations(batches: int) -> float:
    """How many of its standard errors, known from the batches themselves, a mean may be off by (Student's law)."""
    return float(stats.t.isf(RATE / 2, batches - 1))


def least_share(batches: int, chance: float = 0.95) -> float:
    """The share that what happens with that chance must exceed (the binomial law)."""
    return float(stats.binom.ppf(RATE, batches, chance) - 1) / batches


def most_share(batches: int, chance: float) -> float:
    """The share that what happens with that chance must stay below."""
    return 1 - least_share(batches, 1 - chance)


def variance_ratios(batches: int) -> tuple[float, float]:
    """Between what the true variance over that seen must be (χ², for numbers that are near normal)."""
    least, most = (stats.chi2.isf(rate, batches - 1) / (batches - 1) for rate in (RATE / 2, 1 - RATE / 2))
    return 1 / float(least), 1 / float(most)


def z_score(estimates: Sequence[Estimate], truth: float) -> float:
    """How far their mean is off, in its standard errors."""
    found = np.array([each.value for each in estimates])
    return float((found.mean() - truth) / (found.std(ddof=1) / math.sqrt(len(found))))


def coverage(estimates: Sequence[Estimate], truth: float) -> float:
    """The share of intervals that have the truth; ends that were scaled are off by their rounding."""
    room = 1e-9 * (1 + abs(truth))
    return sum(each.lower - room <= truth <= each.upper + room for each in estimates) / len(estimates)


def error_ratio(estimates: Sequence[Estimate]) -> float:
    """Stated error over observed deviation."""
    stated = math.sqrt(np.mean([(each.standard_error or 0.0) ** 2 for each in estimates]))
    return float(stated / np.std([each.value for each in estimates], ddof=1))
