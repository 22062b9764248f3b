"""Every outcome is enumerated at one byte, and the thresholds are checked at four."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest

from hubbub.queries.randomizers.sampling import AHEAD_BYTES, drawn_ahead, happens, uniform


def replay(*values: int, width: int) -> Callable[[int], bytes]:
    """Randomness that gives exactly these draws, and fails where another is asked for."""
    left = list(values)

    def random(count: int) -> bytes:
        assert count == width
        return left.pop(0).to_bytes(width, "big")

    return random


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 100, 127, 128, 129, 255, 256])
def test_uniform_hits_every_number_by_equally_many_draws(count: int) -> None:
    hits: Counter[int] = Counter()
    for value in range(256):
        try:
            hits[uniform(count, replay(value, width=1), width=1)] += 1
        except IndexError:  # rejected: another draw was asked for
            hits[-1] += 1
    rejected = hits.pop(-1, 0)
    assert hits == dict.fromkeys(range(count), 256 // count)
    assert rejected == 256 % count


def test_uniform_draws_again_after_a_rejection() -> None:
    assert uniform(3, replay(255, 255, 4, width=1), width=1) == 1


@pytest.mark.parametrize("count", [2, 3, 17, 10**6])
def test_uniform_rejects_from_the_largest_multiple_on_at_four_bytes(count: int) -> None:
    limit = 2**32 - 2**32 % count
    assert uniform(count, replay(limit - 1, width=4)) == count - 1
    if limit < 2**32:
        assert uniform(count, replay(limit, 5, width=4)) == 5 % count


@pytest.mark.parametrize("numerator", [0, 1, 100, 255])
def test_coin_of_one_byte_is_exact(numerator: int) -> None:
    heads = sum(happens(Fraction(numerator, 256), replay(value, width=1), width=1) for value in range(256))
    assert heads == numerator


@pytest.mark.parametrize("probability", [Fraction(1, 3), Fraction(2, 7), Fraction(254, 255), Fraction(1, 1000)])
def test_coin_is_exact_to_the_last_undecided_draw(probability: Fraction) -> None:
    outcomes: Counter[str] = Counter()
    for value in range(65536):
        try:
            outcomes[str(happens(probability, replay(*divmod(value, 256), width=1), width=1))] += 1
        except IndexError:
            outcomes["undecided"] += 1
    assert outcomes["undecided"] == 1
    assert outcomes["True"] <= probability * 65536 <= outcomes["True"] + 1


def test_coin_compares_at_four_bytes_and_goes_on_where_they_are_equal() -> None:
    third = 2**32 // 3
    assert happens(Fraction(1, 3), replay(third - 1, width=4))
    assert not happens(Fraction(1, 3), replay(third + 1, width=4))
    assert happens(Fraction(1, 3), replay(third, third - 1, width=4))
    assert not happens(Fraction(1, 2), replay(2**31, width=4))


def test_bytes_that_are_drawn_ahead_are_given_once_each() -> None:
    """No byte of the source twice, whatever lengths are asked for: two coins from one byte would not be independent."""
    given: list[bytes] = []

    def source(count: int) -> bytes:
        # Every four bytes are a number of their own.
        first = sum(map(len, given)) // 4
        given.append(b"".join((first + place).to_bytes(4, "big") for place in range(-(-count // 4)))[:count])
        return given[-1]

    random = drawn_ahead(source)
    lengths = [4, 16, 8, 4, 0, AHEAD_BYTES, 4, AHEAD_BYTES + 4, 12, *[16] * 600, AHEAD_BYTES - 4, 8]
    drawn = [random(count) for count in lengths]
    assert [len(each) for each in drawn] == lengths
    joined = b"".join(drawn)
    numbers = [joined[start : start + 4] for start in range(0, len(joined), 4)]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) <= {each[start : start + 4] for each in given for start in range(0, len(each), 4)}
