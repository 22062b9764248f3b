"""Writes tests/vectors/wire/signatures.json: Ed25519 signatures that every program verifies alike, or refuses alike.

    python tests/vectors/make_signatures.py

Programs differ in points of the curve that are not of prime order, and in second forms of points and numbers. For each
case `right` says whether the signature is one. `tests/unit/protos/identity/test_weak_keys.py` checks the file.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.protos.identity.weak_keys import is_weak  # noqa: E402
from support.transparency_logs import WEAK_KEYS  # noqa: E402

FILE = Path(__file__).parent / "wire" / "signatures.json"

LABEL, BODY = "hubbub-key/1", b"{}"
MESSAGE = LABEL.encode() + b"\0" + BODY
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
SECRET = int.from_bytes(hashlib.sha512(b"a secret that protects nothing").digest()) % ORDER

Point = tuple[int, int]
"""x and y: slow and plain, and no code that is checked by these vectors."""

_D = -121665 * pow(121666, -1, P) % P


def _at(y: int, sign: int = 0) -> Point:
    """The point with that y."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert (x * x - square) % P == 0
    return (x if x % 2 == sign else P - x), y


def _sum(one: Point, other: Point) -> Point:
    k = _D * one[0] * other[0] * one[1] * other[1] % P
    x = (one[0] * other[1] + one[1] * other[0]) * pow(1 + k, -1, P)
    return x % P, (one[1] * other[1] + one[0] * other[0]) * pow(1 - k, -1, P) % P


def _times(factor: int, point: Point) -> Point:
    found: Point = (0, 1)
    for digit in bin(factor)[2:]:
        found = _sum(found, found)
        if digit == "1":
            found = _sum(found, point)
    return found


def _encoded(point: Point) -> bytes:
    return (point[1] | (point[0] % 2) << 255).to_bytes(32, "little")


BASE = _at(4 * pow(5, -1, P) % P)
OF_ORDER_8 = _at(int.from_bytes(bytes.fromhex(WEAK_KEYS["a point of order 8"]), "little"))


def _challenge(r: bytes, key: bytes) -> int:
    return int.from_bytes(hashlib.sha512(r + key + MESSAGE).digest(), "little") % ORDER


def _made(of_key: int, of_r: int, exact: bool) -> tuple[bytes, bytes]:
    """A key and a signature by it, with so many times the point of order 8 in the key and in R.

    If it is `exact`, R is S·B - k·A. Else the two are equal after both are multiplied by 8 alone.
    """
    key = _encoded(_sum(_times(SECRET, BASE), _times(of_key, OF_ORDER_8)))
    for nonce in range(5, 1000):
        r = _encoded(_sum(_times(nonce, BASE), _times(of_r, OF_ORDER_8)))
        k = _challenge(r, key)
        if ((of_r + k * of_key) % 8 == 0) is exact:
            return key, r + ((nonce + k * SECRET) % ORDER).to_bytes(32, "little")
    raise AssertionError("one in eight is")


Case = tuple[str, bytes, bytes, bool]
"""What is different, the key, the signature, and whether it is right."""


def cases() -> Iterator[Case]:
    """Return every case."""
    key, right = _made(0, 0, exact=True)
    yield "a key and an R of prime order", key, right, True
    number = int.from_bytes(right[32:], "little")
    yield "S in a second form, S + L", key, right[:32] + (number + ORDER).to_bytes(32, "little"), False
    yield "S with its highest bit set", key, right[:63] + bytes([right[63] | 128]), False
    for many, order in ((1, 8), (2, 4), (4, 2)):
        yield f"an R of mixed order, with a part of order {order}", *_made(0, many, exact=False), False
        what = f"a key of mixed order, with a part of order {order}"
        yield f"{what}: R is S·B - k·A", *_made(many, 0, exact=True), False
        yield f"{what}: R is that after multiplying by 8 alone", *_made(many, 0, exact=False), False
    yield "a key and an R of mixed order: R is S·B - k·A", *_made(1, 3, exact=True), False
    # R is the neutral point, in each of its forms: S·B = k·A holds for the neutral R.
    for what, r in (("in its one form", WEAK_KEYS["the neutral point"]), ("as y = p + 1", _SECOND_NEUTRAL)):
        k = _challenge(bytes.fromhex(r), key)
        signature = bytes.fromhex(r) + (k * SECRET % ORDER).to_bytes(32, "little")
        yield f"the neutral point for R, {what}", key, signature, r != _SECOND_NEUTRAL
    forged = bytes([1]) + bytes(63)
    for name, public in WEAK_KEYS.items():
        yield f"the key is {name}, and anybody signed", bytes.fromhex(public), forged, False
    second = (3 + P).to_bytes(32, "little")
    yield "a key in a second form, y = p + 3", second, forged, False
    yield "a key that is no point", (2).to_bytes(32, "little"), forged, False


_SECOND_NEUTRAL = WEAK_KEYS["the neutral point as y = p + 1"]


def content() -> dict[str, Any]:
    """Return what the file has."""
    return {
        "origin": "November 2026: keys and signatures made for this file, by whole numbers; the keys protect nothing.",
        "label": LABEL,
        "body": BODY.decode(),
        "message": MESSAGE.hex(),
        "cases": [
            {"what": what, "key": key.hex(), "weak": is_weak(key), "signature": signature.hex(), "right": right}
            for what, key, signature, right in cases()
        ],
    }


def encoded() -> bytes:
    """Return the file."""
    return (json.dumps(content(), indent=1, ensure_ascii=False) + "\n").encode()


if __name__ == "__main__":
    FILE.write_bytes(encoded())
