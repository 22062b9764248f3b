"""Laws of samplers are exact, a wrong sampler is seen, and the modules are left as they were."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from loop.decision_tree import MODULES, law_of

from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.sampling import Random, draw, happens, uniform


def test_a_law_is_summed_over_all_branches() -> None:
    found = law_of(lambda source: draw(source, 1) < 3)
    assert found.masses == {True: Fraction(3, 256), False: Fraction(253, 256)}
    assert found.left == 0
    # Of 256 numbers one is drawn again, as often as it comes.
    found = law_of(lambda source: uniform(3, source, 1), Fraction(1, 2**40))
    assert found.left == Fraction(1, 2**40)
    assert found.masses[0] == found.masses[1] == found.masses[2] == (1 - found.left) / 3
    assert found.is_(dict.fromkeys(range(3), Fraction(1, 3)))


def test_numbers_are_compared_shifted_and_divided() -> None:
    def parts(source: Random) -> tuple[bool, bool, int]:
        number = draw(source, 1)
        first = number >= 16
        number -= 16 if first else 0
        return first, number == 5, number % 2

    found = law_of(parts)
    assert found.masses == {
        (False, False, 0): Fraction(8, 256),
        (False, False, 1): Fraction(7, 256),
        (False, True, 1): Fraction(1, 256),
        (True, False, 0): Fraction(120, 256),
        (True, False, 1): Fraction(119, 256),
        (True, True, 1): Fraction(1, 256),
    }


def test_a_rest_of_many_is_left_unknown() -> None:
    found = law_of(lambda source: uniform(10**6, source) < 250_000, Fraction(1, 2**60))
    assert found.is_({True: Fraction(1, 4), False: Fraction(3, 4)})


def test_a_coin_of_endless_digits_is_between_what_was_found_and_what_is_left() -> None:
    found = law_of(lambda source: happens(Fraction(1, 3), source, 1))
    assert 0 < found.left < Fraction(1, 2**89)
    assert found.is_({True: Fraction(1, 3), False: Fraction(2, 3)})
    assert not found.is_({True: Fraction(1, 3) + 2 * found.left, False: Fraction(2, 3) - 2 * found.left})


def test_a_sampler_that_is_wrong_by_one_number_of_all_is_seen() -> None:
    right = KRandomizedResponse(3, 2**30)
    law = dict(enumerate(right.mechanism.law(1)))

    def drawn(response: KRandomizedResponse) -> bool:
        return law_of(lambda source: int.from_bytes(response.randomize(1, source), "big")).is_(law)

    assert drawn(right)
    assert not drawn(KRandomizedResponse(3, 2**30 + 1))
    # Less than all of the mass, or an outcome that cannot be.
    assert not law_of(lambda source: draw(source, 1) < 3).is_({True: Fraction(3, 256)})
    assert not law_of(lambda source: draw(source, 1) < 3).is_({True: Fraction(3, 256), None: Fraction(253, 256)})


def test_modules_have_their_own_numbers_again_even_after_an_error() -> None:
    def broken(source: Random) -> bool:
        draw(source, 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        law_of(broken)
    assert all("int" not in vars(module) for module in MODULES)
    assert draw(lambda count: b"\x05" * count, 1) == 5


def test_parts_of_bytes_are_numbers_of_their_own() -> None:
    def two(source: Random) -> tuple[bool, bool]:
        drawn: Any = source(3)
        return drawn[0:1].number() < 64, drawn[1:3].number() < 2**15

    quarter, half = Fraction(1, 4), Fraction(1, 2)
    assert law_of(two).masses[True, True] == quarter * half
