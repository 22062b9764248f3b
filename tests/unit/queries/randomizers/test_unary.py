"""Unary encoding has exactly the law that the accountant computes with, on the device and in the shuffler's dummies."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.mechanisms import RAPPOR
from hubbub.queries.errors import FieldError, TaskError
from hubbub.queries.fields import Fields
from hubbub.queries.randomizers import unary
from hubbub.queries.randomizers.unary import MAXIMUM_BITS, UnaryEncoding

LAST = 2**32 - 1
"""The last draw of four bytes."""

NUMERATORS = [(3 * 2**30, 2**30), (2**31, 1), (LAST, LAST - 1), (LAST, 1), (2, 1), (1_717_986_919, 17_367_567)]
"""Truthful and other over 2³²: at the ends of their ranges, and within them."""

Law = dict[bytes, Fraction]
Report = Callable[[tuple[int, ...]], bytes]


def reading(*draws: int, width: int = 4) -> Callable[[int], bytes]:
    """Randomness that is exactly these draws, and fails where more is asked for."""
    left = [b"".join(draw.to_bytes(width, "big") for draw in draws)]

    def random(count: int) -> bytes:
        found, left[0] = left[0][:count], left[0][count:]
        assert len(found) == count
        return found

    return random


def packed(bits: tuple[int, ...]) -> bytes:
    """Bit j of a report is bit j % 8, from the lowest, of its byte j // 8."""
    return sum(bit << place for place, bit in enumerate(bits)).to_bytes(-(-len(bits) // 8), "little")


def certified(mechanism: RAPPOR, held: int) -> Law:
    """The law that the accountant computes with."""
    every = itertools.product((0, 1), repeat=mechanism.categories)
    return {packed(bits): mechanism.probability(held, bits) for bits in every}


def by_chunks(randomizer: UnaryEncoding, report: Report) -> Law:
    """The law of the report that is made of one draw for each bit, from all draws at once.

    The 2³² draws are cut where a bit may change. Every combination of chunks is tried at all its ends, one side of a
    cut and the other, and has the mass of its draws. That nothing else changes a bit is seen at one byte per draw.
    """
    cuts = [0, randomizer.other, randomizer.truthful, 2**32]
    chunks = [(start, end - 1) for start, end in itertools.pairwise(cuts)]
    law: Counter[bytes] = Counter()
    for chosen in itertools.product(chunks, repeat=randomizer.symbols):
        (found,) = {report(draws) for draws in itertools.product(*chosen)}
        law[found] += math.prod(last - first + 1 for first, last in chosen)
    return {each: Fraction(mass, 2 ** (32 * randomizer.symbols)) for each, mass in law.items()}


# On the device


def _report(randomizer: UnaryEncoding, held: int, draws: tuple[int, ...]) -> bytes:
    return randomizer.randomize(held, reading(*draws))


@pytest.mark.parametrize("symbols", [2, 3])
@pytest.mark.parametrize(("truthful", "other"), NUMERATORS)
def test_the_law_is_the_certified_one_to_the_last_draw(symbols: int, truthful: int, other: int) -> None:
    randomizer = UnaryEncoding(symbols, truthful, other)
    mechanism = RAPPOR(symbols, Fraction(truthful, 2**32), Fraction(other, 2**32))
    assert randomizer.mechanism == mechanism
    for held in range(symbols):
        law = by_chunks(randomizer, partial(_report, randomizer, held))
        assert law == certified(mechanism, held)
        assert sum(law.values()) == 1


@pytest.fixture
def _one_byte_per_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that every draw there is can be enumerated: probabilities are then over 256."""
    monkeypatch.setattr(unary, "DRAW_BYTES", 1)


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("_one_byte_per_draw")
@pytest.mark.parametrize(("truthful", "other"), [(192, 64), (255, 1), (77, 76), (2, 1)])
def test_the_law_is_the_certified_one_over_every_tape_of_two_bytes(truthful: int, other: int) -> None:
    randomizer, mechanism = UnaryEncoding(2, truthful, other), RAPPOR(2, Fraction(truthful, 256), Fraction(other, 256))
    tapes = [number.to_bytes(2, "big") for number in range(2**16)]
    for held in (0, 1):
        law = Counter(randomizer.randomize(held, reading(*tape, width=1)) for tape in tapes)
        assert {each: Fraction(count, 2**16) for each, count in law.items()} == certified(mechanism, held)


@pytest.mark.parametrize("symbols", [2, 7, 8, 9, 16, 17, MAXIMUM_BITS])
def test_each_bit_has_its_own_draw_and_place(symbols: int) -> None:
    """A draw of `other` leaves all bits but that of the symbol 0; one below it sets the bit at its place."""
    randomizer = UnaryEncoding(symbols, 2**31, 2**30)
    width = randomizer.report_bytes
    assert width == math.ceil(symbols / 8)
    places = {0, 1, symbols // 2, symbols - 1}
    for held, place in itertools.product(places, places):
        draws = [2**30] * symbols
        draws[place] -= 1
        expected = 1 << held | 1 << place
        assert randomizer.randomize(held, reading(*draws)) == expected.to_bytes(width, "little")
    assert randomizer.randomize(0, reading(*[2**31] * symbols)) == bytes(width)


def test_all_reports_have_one_width() -> None:
    for symbols in range(2, 26):
        randomizer = UnaryEncoding(symbols, 2**31, 2**30)
        for held, draw in itertools.product((0, symbols - 1), (0, LAST)):
            assert len(randomizer.randomize(held, reading(*[draw] * symbols))) == randomizer.report_bytes


# At the shuffler


def symbol_draw(number: int) -> int:
    """The draw that a dummy's symbol is taken from: it is read with the lowest byte first, unlike a bit's."""
    return int.from_bytes(number.to_bytes(4, "little"), "big")


def _dummy(randomizer: UnaryEncoding, drawn: int, draws: tuple[int, ...]) -> bytes:
    return randomizer.dummies(1, reading(drawn, *draws))


@pytest.mark.parametrize(("truthful", "other"), NUMERATORS)
def test_a_dummy_has_the_law_of_a_uniform_symbol_s_report(truthful: int, other: int) -> None:
    randomizer = UnaryEncoding(3, truthful, other)
    dummy: Law = {}
    for symbol in range(3):
        law = by_chunks(randomizer, partial(_dummy, randomizer, symbol_draw(symbol)))
        for each, mass in law.items():
            dummy[each] = dummy.get(each, Fraction(0)) + mass / 3
    of_people = [certified(randomizer.mechanism, held) for held in range(3)]
    assert dummy == {each: sum((law[each] for law in of_people), Fraction(0)) / 3 for each in of_people[0]}


def test_the_symbol_of_a_dummy_is_drawn_by_rejection() -> None:
    """2³² is 1 modulo 3: its last number is drawn again, and all others hit each symbol alike."""
    randomizer = UnaryEncoding(3, LAST, 1)
    some = 2**31  # a draw that sets the bit of the symbol, and no other
    for number in (0, 1, 2, 3, 2**32 - 4, 2**32 - 3, 2**32 - 2):
        expected = bytes([1 << number % 3])
        assert randomizer.dummies(1, reading(symbol_draw(number), some, some, some)) == expected
        assert randomizer.dummies(1, reading(LAST, symbol_draw(number), some, some, some)) == expected


@pytest.fixture(params=[1, 20, 2**20])
def bits_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports one by one, a few at a time, and all at once."""
    monkeypatch.setattr(unary, "_BITS_AT_ONCE", request.param)


@pytest.mark.usefixtures("bits_at_once")
@pytest.mark.parametrize("symbols", [2, 8, 9, 40])
def test_the_shuffler_makes_of_a_tape_what_devices_make(symbols: int) -> None:
    """One report after the other, however many are made at once: numpy's way is the device's, bit by bit."""
    randomizer = UnaryEncoding(symbols, 3 * 2**30, 2**30)
    held = [number * 7 % symbols for number in range(50)]
    bits = [int(draw) for draw in np.random.default_rng(symbols).integers(0, 2**32, symbols * 50)]
    expected = b"".join(
        randomizer.randomize(symbol, reading(*bits[place * symbols : (place + 1) * symbols]))
        for place, symbol in enumerate(held)
    )
    assert randomizer.dummies(50, reading(*map(symbol_draw, held), *bits)) == expected


def test_no_dummies_are_no_bytes() -> None:
    assert UnaryEncoding(9, 2**31, 1).dummies(0, reading()) == b""


# At the analyzer


def slowly(reports: list[bytes], symbols: int) -> tuple[list[int], int, int]:
    """Counts, valid and invalid reports, bit by bit."""
    numbers = [int.from_bytes(each, "little") for each in reports]
    valid = [number for number in numbers if number < 2**symbols]
    return [sum(number >> bit & 1 for number in valid) for bit in range(symbols)], len(valid), len(numbers) - len(valid)


@given(st.integers(2, 40).flatmap(lambda k: st.tuples(st.just(k), st.lists(st.integers(0, 2 ** (-(-k // 8) * 8) - 1)))))
def test_the_tally_counts_every_bit_of_valid_reports_and_no_other(case: tuple[int, list[int]]) -> None:
    symbols, numbers = case
    reports = [number.to_bytes(-(-symbols // 8), "little") for number in numbers]
    tally = UnaryEncoding(symbols, 2**31, 1).tally(b"".join(reports))
    assert (tally.counts.tolist(), tally.valid, tally.invalid) == slowly(reports, symbols)


@pytest.mark.usefixtures("bits_at_once")
@pytest.mark.parametrize("symbols", [2, 8, 9, 300])
def test_the_tally_is_the_same_however_many_are_counted_at_once(symbols: int) -> None:
    width = -(-symbols // 8)
    reports = [np.random.default_rng(number).bytes(width) for number in range(60)]
    tally = UnaryEncoding(symbols, 2**31, 1).tally(b"".join(reports))
    assert (tally.counts.tolist(), tally.valid, tally.invalid) == slowly(reports, symbols)


@pytest.mark.parametrize("symbols", [2, 7, 9, 15, 17, MAXIMUM_BITS - 1])
def test_a_bit_above_the_last_symbol_s_makes_a_report_invalid(symbols: int) -> None:
    """And counts for nothing, whatever else the report says."""
    randomizer = UnaryEncoding(symbols, 2**31, 1)
    width, every = randomizer.report_bytes, 2**symbols - 1
    for above in range(symbols, 8 * width):
        bad = (every | 1 << above).to_bytes(width, "little")
        tally = randomizer.tally(bad + every.to_bytes(width, "little") + bad)
        assert (tally.counts.tolist(), tally.valid, tally.invalid) == ([1] * symbols, 1, 2)


@pytest.mark.parametrize("symbols", [8, 16, MAXIMUM_BITS])
def test_where_the_bits_fill_their_bytes_every_report_is_valid(symbols: int) -> None:
    randomizer = UnaryEncoding(symbols, 2**31, 1)
    tally = randomizer.tally(b"\xff" * 2 * randomizer.report_bytes)
    assert (tally.counts.tolist(), tally.valid, tally.invalid) == ([2] * symbols, 2, 0)


def test_the_tally_of_nothing_is_zero_and_tallies_add_up() -> None:
    randomizer = UnaryEncoding(3, 2**31, 1)
    nothing = randomizer.tally(b"")
    assert (nothing.counts.tolist(), nothing.valid, nothing.invalid) == ([0, 0, 0], 0, 0)
    together = nothing + randomizer.tally(b"\x03\x08") + randomizer.tally(b"\x02\x00")
    assert (together.counts.tolist(), together.valid, together.invalid) == ([1, 2, 0], 3, 1)


# Limits and planning


def read(symbols: int, **changes: object) -> UnaryEncoding:
    content = {"truthful": [2**31, 2**32], "other": [2**30, 2**32], **changes}
    return UnaryEncoding.read(Fields("query[0]", content, planned=True), symbols)


def test_the_most_symbols_are_read_and_one_more_is_refused() -> None:
    assert read(MAXIMUM_BITS) == UnaryEncoding(4096, 2**31, 2**30)
    limit = "4097 symbols are too many for a bit each; ask about at most 4096, or use krr"
    with pytest.raises(FieldError, match=f"query.0..randomizer is unary; {limit}"):
        read(MAXIMUM_BITS + 1)
    with pytest.raises(TaskError, match=limit):
        UnaryEncoding.families(MAXIMUM_BITS + 1)
    assert len(UnaryEncoding.families(MAXIMUM_BITS)) == 2


@pytest.mark.parametrize(("truthful", "other"), [(2**31, 2**31), (2**31, 2**31 + 1), (1, 1), (1, LAST)])
def test_other_is_below_truthful(truthful: int, other: int) -> None:
    """At truthful a report says nothing; above it, ε_local would be of another order than the one computed."""
    with pytest.raises(FieldError, match=rf"query.0..other is {other}; it must be below truthful, which is {truthful}"):
        read(3, truthful=[truthful, 2**32], other=[other, 2**32])


@pytest.mark.parametrize("key", ["truthful", "other"])
@pytest.mark.parametrize(
    "value",
    [
        *(0, 1, 0.5, "1/2", None, [], [1], [1, 2], [0, 2**32], [2**32, 2**32], [-1, 2**32]),
        *([True, 2**32], [1.0, 2**32], [2**31, 2**31], [1, 2**32, 1], [1, 2**33]),
    ],
    ids=str,
)
def test_probabilities_are_whole_numbers_over_two_to_the_32_within_it(key: str, value: object) -> None:
    with pytest.raises(FieldError, match=rf"query.0..{key} is .*; it must be \[w, 4294967296\] with w from 1 to"):
        read(3, **{key: value})


@pytest.mark.parametrize(("truthful", "other"), [(2, 1), (LAST, 1), (LAST, LAST - 1)])
def test_the_ends_of_the_range_are_read(truthful: int, other: int) -> None:
    assert read(3, truthful=[truthful, 2**32], other=[other, 2**32]) == UnaryEncoding(3, truthful, other)


@pytest.mark.parametrize("symbols", [2, 100, MAXIMUM_BITS])
def test_families_are_of_rising_privacy_and_within_the_limits(symbols: int) -> None:
    noise_levels = [1, 2, 3, 1000, 2**31, LAST - 1, LAST]
    for family in UnaryEncoding.families(symbols):
        made = [family.at(noise_level) for noise_level in noise_levels]
        for one in made:
            assert isinstance(one, UnaryEncoding)
            assert one.symbols == symbols
            assert 0 < one.other < one.truthful < 2**32
        locals_ = [one.mechanism.epsilon_local for one in made]
        assert locals_ == sorted(locals_, reverse=True)
        assert locals_[0] > 20 > 0.01 > locals_[-1]


def test_one_family_tells_the_truth_half_the_time_the_other_is_symmetric() -> None:
    optimized, symmetric = UnaryEncoding.families(5)
    assert optimized.at(2**30) == UnaryEncoding(5, 2**31, 2**29)
    assert symmetric.at(2**30) == UnaryEncoding(5, 2**32 - 2**29, 2**29)
