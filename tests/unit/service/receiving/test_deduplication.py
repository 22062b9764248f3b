"""Copies in a batch are found, and envelopes that were made to begin alike cost no more than others."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter

import pytest

from hubbub.service.receiving.deduplication import distinct

WIDTH = 600
"""Bytes of an envelope here; a digest has 16 of them."""


def left(envelopes: list[bytes]) -> tuple[list[bytes], int]:
    counted: Counter[str] = Counter()
    out = b"".join(distinct(lambda: [b"".join(envelopes)], len(envelopes), WIDTH, counted))
    return [out[start : start + WIDTH] for start in range(0, len(out), WIDTH)], counted["duplicate"]


@pytest.mark.parametrize("beginning", [b"", bytes(16)])
def test_the_first_of_each_stays_in_its_place(beginning: bytes) -> None:
    envelopes = [beginning + os.urandom(WIDTH - len(beginning)) for _ in range(50)]
    assert left([*envelopes, envelopes[3], envelopes[0], envelopes[3]]) == (envelopes, 3)
    assert left(envelopes) == (envelopes, 0)


def test_envelopes_that_begin_alike_are_not_kept_in_memory() -> None:
    """4,000 envelopes of one beginning, read in chunks of 40: all of them, 2.4 MB, were remembered whole."""
    chunks = [b"".join(bytes(8) + os.urandom(WIDTH - 8) for _ in range(40)) for _ in range(100)]
    counted: Counter[str] = Counter()
    tracemalloc.start()
    try:
        passed = sum(len(chunk) for chunk in distinct(lambda: chunks, 4000, WIDTH, counted))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (passed, counted) == (4000 * WIDTH, Counter())
    assert peak < 400_000
