"""The characters in which unknown texts are searched, as the bytes that may continue a beginning."""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

Level = Mapping[bytes, list[bytes]]
"""Continuations of one length, by the incomplete character at their end; b"" if the last character is complete."""

LEFT_OUT = frozenset({"Cc", "Cs", "Co", "Cn"})
"""Categories of Unicode that are left out by default: controls, surrogates, private use and unassigned."""


@dataclass(frozen=True)
class Alphabet:
    """The bytes that may follow each incomplete character; b"" means that no character is begun.

    `after[part]` maps each byte that may follow to the part that it leads to, b"" if it completes the character.
    """

    after: Mapping[bytes, Mapping[bytes, bytes]]
    _levels: dict[tuple[bytes, int], Level] = field(default_factory=dict, compare=False, repr=False)
    _counts: dict[tuple[bytes, int], tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, characters: Iterable[str]) -> Alphabet:
        """Return the alphabet of some characters.

        Raises:
            UnicodeEncodeError: if one cannot be written in UTF-8.
        """
        after: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
        for character in characters:
            written = character.encode()
            for place in range(len(written)):
                part = written[: place + 1]
                after[written[:place]][part[-1:]] = b"" if part == written else part
        return cls(dict(after))

    def count(self, beginning: bytes, length: int, unended: bool) -> int:
        """Return how many continuations of up to `length` bytes there are to look up; see `continuations`."""
        part = part_of(beginning)
        if (part, length) not in self._counts:
            counts, ends = Counter({part: 1}), 0
            for _ in range(length):
                longer: Counter[bytes] = Counter()
                for before, number in counts.items():
                    for further in self.after.get(before, {}).values():
                        longer[further] += number
                counts, ends = longer, ends + longer[b""]
            self._counts[part, length] = (ends, counts.total())
        ends, further_on = self._counts[part, length]
        return ends + (further_on if unended else 0)

    def continuations(self, beginning: bytes, length: int) -> tuple[list[bytes], list[bytes]]:
        """Return the continuations of a beginning: ends of texts in 1 to `length` bytes, unended ones in `length`."""
        part = part_of(beginning)
        ends = [each for place in range(1, length + 1) for each in self._level(part, place).get(b"", ())]
        return ends, [each for words in self._level(part, length).values() for each in words]

    def _level(self, part: bytes, length: int) -> Level:
        # Cached, because most beginnings end with a whole character and so have the same continuations.
        if length == 0:
            return {part: [b""]}
        if (part, length) not in self._levels:
            longer: dict[bytes, list[bytes]] = defaultdict(list)
            for before, words in self._level(part, length - 1).items():
                for byte, further in self.after.get(before, {}).items():
                    longer[further] += [word + byte for word in words]
            self._levels[part, length] = dict(longer)
        return self._levels[part, length]


def part_of(beginning: bytes) -> bytes:
    """Return the bytes of the incomplete character that a beginning ends with; b"" if it ends with a whole one."""
    # A character has at most four bytes, and only the first of them is not 10xxxxxx.
    for place in range(1, min(3, len(beginning)) + 1):
        byte = beginning[-place]
        if byte & 0xC0 != 0x80:
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return beginning[-place:] if place < length else b""
    return b""


@lru_cache(maxsize=1)
def every_character() -> Alphabet:
    """Return the alphabet of all characters that Unicode assigns, without the categories in `LEFT_OUT`.

    It is the Unicode of the Python that runs, so a newer one has more characters.
    """
    points = map(chr, range(sys.maxunicode + 1))
    return Alphabet.of(each for each in points if unicodedata.category(each) not in LEFT_OUT)
