"""Tells weak Ed25519 public keys: those that libraries do not verify alike, or that anybody can sign with.

A public key is the bytes of a point of edwards25519 (RFC 8032). Honest keys are points of the prime order L, in their
one form. The curve has 8·L points, so there are others:

- A point whose order divides 8. For these anybody can make signatures, of the neutral point for every text at once.
- A point of mixed order, which is one of order L plus one of the former. Whoever knows the secret of its first part can
  make signatures that one library verifies and another refuses: RFC 8032 allows to multiply by 8 before comparing.
  OpenSSL does not multiply, others do.
- A point in a second form, with y + p for y. OpenSSL verifies with both, so one party would have two keys.

Nobody gets such a key by making one. So each of them is refused, whatever it signed. libsodium knows the order of a
point; OpenSSL, which signs and verifies here, does not say it.
"""

from __future__ import annotations

from functools import lru_cache

from nacl.bindings import crypto_core_ed25519_BYTES, crypto_core_ed25519_is_valid_point

WEAK = "is weak, as it is no point of prime order in its one form: nothing shows who signs with it"
"""What an error says of such a key."""

ANOTHER_KEY = "have its party make another with `hubbub identity`"
"""What to do about it."""


@lru_cache(maxsize=1024)
def is_weak(public: bytes) -> bool:
    """Whether a public key (32 bytes) is no point of order L in its one form."""
    return len(public) != crypto_core_ed25519_BYTES or not crypto_core_ed25519_is_valid_point(public)
