"""The bytes that may follow a beginning are exactly those of the characters."""

from __future__ import annotations

from itertools import product

import pytest

from hubbub.queries.texts.alphabet import Alphabet, every_character, part_of

CHARACTERS = "abß日🙂"
ALPHABET = Alphabet.of(CHARACTERS)


def by_hand(beginning: bytes, length: int) -> tuple[set[bytes], set[bytes]]:
    """Ends and continuations, read off all texts that are long enough."""
    texts = ["".join(each).encode() for number in range(1, 3 + length) for each in product(CHARACTERS, repeat=number)]
    ends = {text[len(beginning) :] for text in texts if text.startswith(beginning)}
    longer = {text[len(beginning) :][:length] for text in texts if text.startswith(beginning)}
    return {each for each in ends if 0 < len(each) <= length}, {each for each in longer if len(each) == length}


@pytest.mark.parametrize("beginning", ["", "a", "aß", b"a\xc3", b"\xe6", b"\xe6\x97", "日", b"\xf0\x9f\x99", "🙂"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_continuations_are_those_of_all_texts(beginning: str | bytes, length: int) -> None:
    written = beginning.encode() if isinstance(beginning, str) else beginning
    ends, further = ALPHABET.continuations(written, length)
    assert (set(ends), set(further)) == by_hand(written, length)
    assert len(set(ends)) == len(ends)
    assert len(set(further)) == len(further)
    assert ALPHABET.count(written, length, unended=True) == len(ends) + len(further)
    assert ALPHABET.count(written, length, unended=False) == len(ends)


@pytest.mark.parametrize("text", ["a", "ß", "日", "🙂", "aß", "日a"])
def test_what_is_cut_within_a_character_is_that_part_of_it(text: str) -> None:
    last = text[-1].encode()
    written = text.encode()
    for place in range(len(last)):
        assert part_of(written[: len(written) - place]) == (last[: len(last) - place] if place else b"")
    assert part_of(b"") == b""


def test_a_beginning_outside_the_alphabet_has_no_continuations() -> None:
    assert ALPHABET.continuations(b"\xe7", 2) == ([], [])


def test_by_default_every_character_is_looked_for_but_controls() -> None:
    ends, further = every_character().continuations(b"", 1)
    assert {each.decode() for each in ends} == {chr(code) for code in range(32, 127)}
    assert {b"\xc3", b"\xe6", b"\xf0"} <= set(further)
    assert not {b"\n", b"\xc0", b"\xff", b"\x80"} & set(further)
    two, _ = every_character().continuations(b"", 2)
    assert {"ß".encode(), "é".encode()} <= set(two)
