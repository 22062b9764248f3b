"""k-ary randomized response has exactly the law that the accountant computes with."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from hubbub.accountant.mechanisms import KRR
from hubbub.queries.randomizers import krr
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.sampling import uniform
from support.krr_queries import report, symbol


def draws(*values: int) -> Callable[[int], bytes]:
    left = list(values)
    return lambda count: left.pop(0).to_bytes(count, "big")


@pytest.fixture
def bytes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte per draw, so that every draw there is can be enumerated: γ is then over 256."""
    monkeypatch.setattr(krr, "DRAW_BYTES", 1)
    monkeypatch.setattr(krr, "uniform", functools.partial(uniform, width=1))


def enumerated_law(held: int, symbols: int, gamma: int) -> tuple[Fraction, ...]:
    """The law at one byte per draw: every first draw, and for it every second draw that is not rejected."""
    law = [Fraction(0)] * symbols
    for first in range(256):
        outcomes = []
        for second in range(256):
            try:
                outcomes.append(symbol(KRandomizedResponse(symbols, gamma).randomize(held, draws(first, second))))
            except IndexError:  # rejected
                continue
        for outcome in outcomes:
            law[outcome] += Fraction(1, 256 * len(outcomes))
    return tuple(law)


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("bytes_only")
@pytest.mark.parametrize(("symbols", "gamma"), [(2, 1), (2, 128), (3, 77), (5, 256), (16, 200), (33, 255)])
def test_enumerated_law_is_the_mechanisms_law(symbols: int, gamma: int) -> None:
    mechanism = KRR(symbols, Fraction(gamma, 256))
    for held in {0, symbols // 2, symbols - 1}:
        assert enumerated_law(held, symbols, gamma) == mechanism.law(held)


@pytest.mark.parametrize("gamma", [1, 17_367_567, 2**31, 2**32 - 1])
def test_draw_below_gamma_is_the_blanket_and_gamma_itself_the_truth(gamma: int) -> None:
    randomizer = KRandomizedResponse(5, gamma)
    assert randomizer.randomize(3, draws(gamma - 1, 1)) == report(1)
    assert randomizer.randomize(3, draws(gamma)) == report(3)
    assert randomizer.randomize(3, draws(2**32 - 1)) == report(3)
    assert randomizer.randomize(3, draws(0, 4)) == report(4)


def test_gamma_of_one_never_tells_the_truth() -> None:
    assert KRandomizedResponse(5, 2**32).randomize(3, draws(2**32 - 1, 2)) == report(2)


@pytest.mark.parametrize("symbols", [2, 255, 257, 10**6])
def test_every_report_has_four_bytes(symbols: int) -> None:
    randomizer = KRandomizedResponse(symbols, 2**31)
    assert randomizer.report_bytes == 4
    for held in (0, symbols // 2, symbols - 1):
        assert randomizer.randomize(held, draws(2**32 - 1)) == held.to_bytes(4, "big")


def test_the_mechanism_is_the_exact_one() -> None:
    assert KRandomizedResponse(7, 3).mechanism == KRR(7, Fraction(3, 2**32))


# Dummies


@pytest.mark.parametrize("symbols", [2, 3, 7, 10**6])
def test_dummies_are_uniform_symbols_by_rejection_at_thresholds(symbols: int) -> None:
    """Draws from the last, incomplete chunk of 2³² numbers are drawn again, all others hit every symbol alike."""
    limit = 2**32 - 2**32 % symbols
    for low in (0, limit - symbols):
        given = [low + place for place in (0, 1, symbols - 1)]
        if limit < 2**32:
            given.insert(1, limit)
            given.insert(3, 2**32 - 1)
        tape = np.array(given, dtype="<u4").tobytes()
        made = KRandomizedResponse(symbols, 1).dummies(3, reading(tape))
        assert made == report(0) + report(1) + report(symbols - 1)


def reading(tape: bytes) -> Callable[[int], bytes]:
    """Randomness that is read from a tape."""
    left = [tape]

    def random(count: int) -> bytes:
        found, left[0] = left[0][:count], left[0][count:]
        assert len(found) == count
        return found

    return random


# Counting


@pytest.mark.parametrize("symbols", [2, 3, 300])
def test_the_tally_counts_symbols_and_what_is_none_is_invalid(symbols: int) -> None:
    found = [0, symbols - 1, symbols, 0, 2**32 - 1, 1, symbols - 1, symbols << 8]
    tally = KRandomizedResponse(symbols, 1).tally(b"".join(map(report, found)))
    seen = Counter(number for number in found if number < symbols)
    assert tally.counts.tolist() == [seen[number] for number in range(symbols)]
    assert (tally.valid, tally.invalid) == (5, 3)


def test_the_tally_of_nothing_is_zero_and_tallies_add_up() -> None:
    randomizer = KRandomizedResponse(3, 1)
    nothing = randomizer.tally(b"")
    assert (nothing.counts.tolist(), nothing.valid, nothing.invalid) == ([0, 0, 0], 0, 0)
    together = nothing + randomizer.tally(report(1) + report(9)) + randomizer.tally(report(2) + report(1))
    assert (together.counts.tolist(), together.valid, together.invalid) == ([0, 2, 1], 3, 1)
