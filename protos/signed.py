"""Canonical JSON and Ed25519 signatures over it: the one form of every statement a party signs.

The canonical form of a value is its JSON with sorted keys, no white space, UTF-8, integers as they are and floats as
the shortest decimal that reads back as the same number. A document has exactly one such form, so its bytes can be
hashed and signed, and bytes that are not of that form are refused rather than read generously.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hubbub.protos.errors import SignatureError
from hubbub.queries.errors import shown

IDENTITY_BYTES = 32
"""Length of a raw Ed25519 public key."""

SIGNATURE_BYTES = 64
"""Length of an Ed25519 signature."""


_HEX = re.compile(r"[0-9a-f]*")


class Label(StrEnum):
    """What a signature is about. Each carries the protocol's version, so no signature serves for another purpose."""

    TASK = "hubbub/v1 task"
    KEY_RECORD = "hubbub/v1 key record"
    KEY_SET = "hubbub/v1 key set"
    BATCH_RECORD = "hubbub/v1 batch record"
    BATCH_DIGEST = "hubbub/v1 batch digest"
    CERTIFICATE = "hubbub/v1 certificate"


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of `value` (dict, list, str, int, finite float, bool or None).

    Raises:
        SignatureError: where the value has no JSON form (NaN, bytes, keys that are no strings, lone surrogates).
    """
    try:
        _check_keys(value)
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SignatureError(f"no canonical form: {error}; use finite numbers, text, lists and mappings") from error


def parse_canonical(document: bytes) -> Any:
    """Return the value whose canonical form is exactly `document`.

    Raises:
        SignatureError: where the bytes are no JSON, or JSON in another than the canonical form.
    """
    try:
        text = document.decode()
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise SignatureError(f"not canonical JSON: {error}; use the bytes as they were written") from error
    if canonical(value) != document:
        raise SignatureError("not in canonical form; use the bytes as they were written, without reformatting")
    return value


def _check_keys(value: Any) -> None:
    """Refuse keys that are no text: JSON would write 1, True and None as the texts "1", "true" and "null"."""
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            raise TypeError("a key is no text")
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for member in value:
        _check_keys(member)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice")
    for value in members.values():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a number is out of range")
    return members


def sign(label: Label, body: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the Ed25519 signature (64 bytes) of `body` under `label`."""
    return key.sign(_message(label, body))


def check_signature(label: Label, body: bytes, signature: bytes, identity: bytes) -> None:
    """Return only if `signature` is `identity`'s over `body` under `label`.

    Raises:
        SignatureError: otherwise.
    """
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, _message(label, body))
    except (InvalidSignature, ValueError) as error:
        what = label.value.removeprefix("hubbub/v1 ")
        raise SignatureError(
            f"the {what}'s signature is not by {fingerprint(identity)}; it was changed, or somebody else signed it"
        ) from error


def _message(label: Label, body: bytes) -> bytes:
    return label.value.encode() + b"\x00" + body


def fingerprint(identity: bytes) -> str:
    """Return a public key (32 bytes) as people compare it: its hex digits in groups of eight."""
    digits = identity.hex()
    return "-".join(digits[start : start + 8] for start in range(0, len(digits), 8))


@dataclass(frozen=True)
class SignedDocument:
    """A canonical JSON document and one signature over it."""

    body: bytes
    signature: bytes

    @classmethod
    def make(cls, label: Label, content: dict[str, Any], key: Ed25519PrivateKey) -> SignedDocument:
        """Sign `content` under `label`."""
        body = canonical(content)
        return cls(body, sign(label, body, key))

    def content(self, label: Label, identity: bytes) -> dict[str, Any]:
        """Return the document, checked to be signed by `identity` (32 bytes) under `label`.

        Raises:
            SignatureError: where the signature, the form or the document's kind is wrong.
        """
        check_signature(label, self.body, self.signature, identity)
        value = parse_canonical(self.body)
        if not isinstance(value, dict):
            raise SignatureError(f"a signed document is a mapping, this one is a {type(value).__name__}")
        return value

    def as_json(self) -> dict[str, Any]:
        """Return the document as a part of a larger one: the body as JSON, the signature as hex."""
        return {"body": parse_canonical(self.body), "signature": self.signature.hex()}

    @classmethod
    def from_json(cls, value: Any) -> SignedDocument:
        """Read what `as_json` wrote.

        Raises:
            SignatureError: where the parts are missing or of another kind.
        """
        if not isinstance(value, dict) or set(value) != {"body", "signature"} or not isinstance(value["body"], dict):
            raise SignatureError("a signed document has exactly the members body and signature")
        return cls(canonical(value["body"]), from_hex(value["signature"], SIGNATURE_BYTES, "signature"))


def from_hex(value: Any, length: int, what: str) -> bytes:
    """Return `length` bytes from their lower-case hex digits.

    Raises:
        SignatureError: naming `what` has another form.
    """
    if isinstance(value, str) and len(value) == 2 * length and _HEX.fullmatch(value):
        return bytes.fromhex(value)
    raise SignatureError(f"{what} must be {2 * length} lower-case hex digits, got {shown(value)}")
