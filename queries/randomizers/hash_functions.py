"""The public hash functions of hashed reports, in integer arithmetic; devices load this module, without numpy.

The randomizer's numbers determine the hash functions, so no party can choose them. A symbol's 64 bits are mixed into
x = (x₀, x₁) of 32 bits each. With words a₀, a₁, b of 64 bits, drawn for each row by BLAKE2b,

    h_r(x) = ⌊g · ⌊((a₀x₀ + a₁x₁ + b) mod 2⁶⁴) / 2³²⌋ / 2³²⌋.

Vector multiply-shift (Dietzfelbinger 1996; Thorup, "High speed hashing for integers and strings", 2015) is strongly
universal: for uniform words and two symbols the inner floors are independent and uniform on 2³² values. So two symbols
collide in a row with probability exactly κ = (m(q+1)² + (g−m)q²)/2⁶⁴, with 2³² = qg + m. This is 1/g if g is a power of
two, and always less than 1 + (g/2³²)²/4 times 1/g. Mixing breaks up regular differences between the numbers of
neighboring symbols, which multiplication would keep. Privacy needs none of this: it does not depend on the functions.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

WORD = 2**64
HALF_WORD = 2**32

MOST_ROWS = 2**12
"""Most rows of a randomizer."""


def cell_of(cells: int, rows: int, gamma: int, row: int, symbol: int) -> int:
    """Return the cell of a symbol in a row: h_r."""
    low, high, shift = words(cells, rows, gamma, row)
    mixed = mix(symbol)
    hashed = (low * (mixed % HALF_WORD) + high * (mixed // HALF_WORD) + shift) % WORD // HALF_WORD
    return hashed * cells // HALF_WORD


def mix(symbol: int) -> int:
    """Return the mixed 64 bits of a symbol, a bijection (the finalizer of SplitMix64)."""
    mixed = symbol
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % WORD
    return mixed ^ mixed >> 31


@lru_cache(maxsize=2 * MOST_ROWS)
def words(cells: int, rows: int, gamma: int, row: int) -> tuple[int, int, int]:
    """Return a row's words a₀, a₁ and b: BLAKE2b of the randomizer's numbers and the row's."""
    # Cached, because a fleet draws the same rows again and again.
    said = f"{cells} {rows} {gamma} {row}".encode()
    digest = hashlib.blake2b(said, digest_size=24, person=b"hubbub-hashed-1").digest()
    low, high, shift = (int.from_bytes(digest[start : start + 8], "little") for start in (0, 8, 16))
    return low, high, shift
