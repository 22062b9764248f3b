"""Tells weak Ed25519 public keys: those that libraries do not verify alike, or that anybody can sign with.

A public key is the bytes of a point of edwards25519 (RFC 8032). Honest keys are points of the prime order L, in their
one form. The curve has 8·L points, so there are others:

- A point whose order divides 8. For these anybody can make signatures, of the neutral point for every text at once.
- A point of mixed order, which is one of order L plus one of the former. Whoever knows the secret of its first part can
  make signatures that one library verifies and another refuses: RFC 8032 allows to multiply by 8 before comparing.
  OpenSSL does not multiply, others do.
- A point in a second form, with y + p for y. OpenSSL verifies with both, so one party would have two keys.

Nobody gets such a key by making one. So each of them is refused, whatever it signed.
"""

from __future__ import annotations

from functools import lru_cache

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)
"""A square root of -1."""

_Point = tuple[int, int, int, int]
"""X, Y, Z and T: x = X/Z, y = Y/Z and x·y = T/Z."""

WEAK = "is weak, as it is no point of prime order in its one form: nothing shows who signs with it"
"""What an error says of such a key."""

ANOTHER_KEY = "have its party make another with `hubbub identity`"
"""What to do about it."""


@lru_cache(maxsize=1024)
def is_weak(public: bytes) -> bool:
    """Whether a public key (32 bytes) is no point of order L in its one form; takes a millisecond or two."""
    point = _decoded(public)
    return point is None or _is_neutral(point) or not _is_neutral(_times(_ORDER, point))


def _decoded(public: bytes) -> _Point | None:
    """Return the point (RFC 8032, section 5.1.3); None if the bytes are not the one form of a point."""
    number = int.from_bytes(public, "little")
    y, sign = number % 2**255, number >> 255
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P or (x == 0 and sign):
        return None
    if x % 2 != sign:
        x = _P - x
    return x, y, 1, x * y % _P


def _is_neutral(point: _Point) -> bool:
    x, y, z, _ = point
    return x == 0 and y == z


def _sum(one: _Point, other: _Point) -> _Point:
    """Return the sum of two points (RFC 8032, section 5.1.4), which may be the same."""
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * _D * one[3] * other[3] % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(factor: int, point: _Point) -> _Point:
    found: _Point = (0, 1, 1, 0)
    for digit in bin(factor)[2:]:
        found = _sum(found, found)
        if digit == "1":
            found = _sum(found, point)
    return found
