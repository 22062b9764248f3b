"""Draws uniform numbers and biased coins from random bytes, exactly, without floating point."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

Random = Callable[[int], bytes]
"""Returns so many uniform, independent bytes. The default everywhere is `os.urandom`."""

DRAW_BYTES = 4
"""Width of a draw: γ is a whole number over 2³², so 32 bits decide it exactly."""


AHEAD_BYTES = 4096
"""How many bytes `drawn_ahead` draws at a time."""


def drawn_ahead(random: Random) -> Random:
    """Return a source that draws many bytes of `random` at a time, and returns each of them once.

    A call of the system takes a microsecond for any few bytes, and other threads get the interpreter meanwhile. Such a
    source is for one thread, and for one piece of work: a process that is forked would draw the same bytes again.
    """
    held, used = b"", 0

    def drawn(count: int) -> bytes:
        nonlocal held, used
        if count > len(held) - used:
            if count > AHEAD_BYTES:
                return random(count)
            held, used = random(AHEAD_BYTES), 0
        used += count
        return held[used - count : used]

    return drawn


def draw(random: Random, width: int = DRAW_BYTES) -> int:
    """Return a uniform number below 256 ** `width`."""
    return int.from_bytes(random(width), "big")


def uniform(count: int, random: Random, width: int = DRAW_BYTES) -> int:
    """Return a number from 0 to `count` - 1, exactly uniform; `count` is at most 256 ** `width`.

    Draws at or above the largest multiple of `count` are rejected, so equally many draws give each number.
    """
    span = 256**width
    limit = span - span % count
    while True:
        number = draw(random, width)
        if number < limit:
            return number % count


def happens(probability: Fraction, random: Random, width: int = DRAW_BYTES) -> bool:
    """Return True with exactly `probability`, a rational in [0, 1)."""
    return happens_in(probability.numerator, probability.denominator, random, width)


def happens_in(count: int, whole: int, random: Random, width: int = DRAW_BYTES) -> bool:
    """Return True with exactly the probability `count` / `whole`, in [0, 1); they may have common factors.

    The digits of a uniform real number in base 256 ** `width` are drawn until one differs from the probability's digit
    at that place. This digit decides whether the real number is below the probability. One draw is nearly always
    enough.
    """
    rest = count
    span: int = 256**width
    while True:
        digit, rest = divmod(rest * span, whole)
        drawn = draw(random, width)
        if drawn != digit:
            return drawn < digit
        # All further digits of the probability are 0, so the real number is not below it.
        if rest == 0:
            return False
