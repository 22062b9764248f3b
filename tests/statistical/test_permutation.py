"""Chi-square over all permutations of a few elements, from the real CSPRNG.

False-alarm rate of each test here: 1e-9, by the chi-square law that the statistics approach (at least 250 expected in
each cell of the small ones). Their power is shown by a permutation that keeps ties, which is rejected.
"""

from __future__ import annotations

from collections import Counter
from math import factorial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2

from hubbub.shuffler.mix.mix import keystream, permutation, permuted_by_buckets
from support.krr_queries import INNER_BYTES

FALSE_ALARM = 1e-9


def chi_square(counts: Counter[tuple[int, ...]], size: int) -> float:
    expected = counts.total() / factorial(size)
    seen = sum((count - expected) ** 2 / expected for count in counts.values())
    return seen + expected * (factorial(size) - len(counts))


def orders(draws: int, size: int, draw: object = None) -> Counter[tuple[int, ...]]:
    source = draw or keystream()
    return Counter(tuple(permutation(size, source).tolist()) for _ in range(draws))


@pytest.mark.sampled("2-", "3-", "4-")
@pytest.mark.parametrize(("size", "draws"), [(2, 20_000), (3, 20_000), (4, 40_000), (5, 60_000)])
def test_all_orders_of_a_few_elements_are_equally_likely(size: int, draws: int) -> None:
    limit = chi2.isf(FALSE_ALARM, factorial(size) - 1)
    assert chi_square(orders(draws, size), size) < limit


# tests/unit/shuffler/mix/test_mix.py: buckets give the order of the keys, and the test above the law of orders.
@pytest.mark.exhaustive
def test_all_orders_are_equally_likely_through_buckets(tmp_path: Path) -> None:
    """The same through files, with the permutation's own keys: 4 envelopes in up to 4 buckets."""
    column = np.arange(4, dtype=np.uint8).repeat(INNER_BYTES).reshape(4, INNER_BYTES)
    source, counts = keystream(), Counter[tuple[int, ...]]()
    for _ in range(6_000):
        mixed = np.concatenate(list(permuted_by_buckets([column], 4, source, tmp_path, INNER_BYTES, limit=2)))
        counts[tuple(mixed[:, 0].tolist())] += 1
    assert chi_square(counts, 4) < chi2.isf(FALSE_ALARM, 23)


def test_orders_stay_uniform_when_ties_are_frequent() -> None:
    """Keys of 3 bits: of 4 of them, 59 % of the draws hold a tie and are drawn again."""
    wide = keystream()

    def narrow(count: int) -> npt.NDArray[np.uint64]:
        return wide(count) & np.uint64(7)

    assert chi_square(orders(20_000, 4, narrow), 4) < chi2.isf(FALSE_ALARM, 23)


def test_keeping_ties_would_be_found() -> None:
    """The test's power: the same narrow keys, ties kept in the order they came, are far outside."""
    wide = keystream()
    counts = Counter(tuple(np.argsort(wide(4) & np.uint64(7), kind="stable").tolist()) for _ in range(40_000))
    assert chi_square(counts, 4) > chi2.isf(FALSE_ALARM, 23)


def test_each_element_comes_to_each_place_equally_often_in_a_longer_list() -> None:
    size, draws = 40, 4_000
    source = keystream()
    places = np.zeros((size, size))
    for _ in range(draws):
        places[np.arange(size), permutation(size, source)] += 1
    statistic = ((places - draws / size) ** 2 / (draws / size)).sum() * (size - 1) / size
    assert statistic < chi2.isf(FALSE_ALARM, (size - 1) ** 2)
