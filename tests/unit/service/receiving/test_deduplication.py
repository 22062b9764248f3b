"""Copies in a batch are found, and envelopes that were made to begin alike cost no more than others."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from collections.abc import Callable

import pytest

from hubbub.service.receiving.deduplication import distinct

WIDTH = 600
"""Bytes of an envelope where nothing else is said."""


def left(
    envelopes: list[bytes], random: Callable[[int], bytes] = os.urandom, chunk: int = 20
) -> tuple[list[bytes], int]:
    """What is left of a batch in chunks of so many envelopes, and how many copies were left out."""
    counted: Counter[str] = Counter()
    width = len(envelopes[0])
    chunks = [b"".join(envelopes[start : start + chunk]) for start in range(0, len(envelopes), chunk)]
    out = b"".join(distinct(lambda: chunks, len(envelopes), width, counted, random))
    return [out[start : start + width] for start in range(0, len(out), width)], counted["duplicate"]


@pytest.mark.parametrize("beginning", [b"", bytes(16)])
def test_the_first_of_each_stays_in_its_place(beginning: bytes) -> None:
    envelopes = [beginning + os.urandom(WIDTH - len(beginning)) for _ in range(50)]
    assert left([*envelopes, envelopes[3], envelopes[0], envelopes[3]]) == (envelopes, 3)
    assert left(envelopes) == (envelopes, 0)


@pytest.mark.parametrize("width", [1, 5, 52, 54, 1140])
def test_envelopes_of_any_width_are_compared_whole(width: int) -> None:
    """Pairs that differ in one byte, each byte once: the last ones are not a whole word."""
    one = os.urandom(width)
    others = [one[:place] + bytes([one[place] ^ 1]) + one[place + 1 :] for place in range(width)]
    assert left([one, *others]) == ([one, *others], 0)
    assert left([one, *others, others[-1], one]) == ([one, *others], 2)


def test_what_has_one_fingerprint_is_no_copy() -> None:
    """With zeros as secret numbers all fingerprints are 0, so every envelope is suspected."""
    envelopes = [os.urandom(WIDTH) for _ in range(50)]
    assert left([*envelopes, envelopes[7]], bytes) == (envelopes, 1)


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
