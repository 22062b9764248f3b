"""Writes and checks canonical JSON with Ed25519 signatures: every statement that a party signs has this form.

The canonical form of a value is its JSON as RFC 8785 writes it: no white space, UTF-8, keys sorted by their UTF-16 code
units, numbers as ECMAScript writes them (4 for 4.0, 0.000001 for 1e-06), so that a browser reproduces the bytes. A
document has exactly one canonical form, so its bytes can be hashed and signed. Bytes in any other form are refused.

A signed document is signed under the name of its format (`protos.identity.formats`), which it names itself.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hubbub.protos.errors import FormatError, SignatureError
from hubbub.protos.identity.formats import Kind, in_words
from hubbub.protos.identity.pem import what_it_is
from hubbub.protos.identity.weak_keys import ANOTHER_KEY, WEAK, is_weak
from hubbub.protos.strict_json import JsonError, NotJson, NotPlain, read_json, read_plain
from hubbub.queries.errors import shown

IDENTITY_BYTES = 32
"""Length of a raw Ed25519 public key."""

SIGNATURE_BYTES = 64
"""Length of an Ed25519 signature."""


_HEX = re.compile(r"[0-9a-f]*")

_LARGEST_WHOLE = 2**53 - 1
"""Every whole number up to this one is exactly one double, so ECMAScript reads and writes it exactly (RFC 7493)."""


def canonical(value: Any) -> bytes:
    """Return the canonical JSON (RFC 8785) of `value` (dict, list, str, int, finite float, bool or None).

    Raises:
        SignatureError: if the value has no JSON form (NaN, bytes, keys that are not text, lone surrogates), or if it
            contains an int beyond ±(2⁵³ - 1), which ECMAScript cannot distinguish from adjacent numbers.
    """
    try:
        return _unless_plain(value) or _plain(value)
    except (TypeError, ValueError, RecursionError) as error:
        # Cut, since the library's message quotes a number that is too large, with any number of digits.
        raise SignatureError(
            f"no canonical form: {error!s:.200}; use finite numbers, text, lists and mappings"
        ) from error


_PLAIN = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
"""Writes plain values in the form of RFC 8785, in a tenth of the time: a shuffler reads thousands of tickets a second.
"""


def _plain(value: Any) -> bytes:
    return _PLAIN.encode(value).encode()


def _unless_plain(value: Any) -> bytes | None:
    """Return a value's canonical form; None if it is plain, so that whoever contains it writes both at once.

    Plain is what has only printable ASCII text and whole numbers, which every writer writes the same way. A certificate
    of a year is plain but for a few numbers.
    """
    kind = type(value)
    if kind is dict and all(map(_is_text, value)):
        members = {name: _unless_plain(each) for name, each in value.items()}
        if not any(members.values()):
            return None
        lines = (_plain(name) + b":" + (members[name] or _plain(value[name])) for name in sorted(value))
        return b"{" + b",".join(lines) + b"}"
    if kind is list:
        items = list(map(_unless_plain, value))
        if not any(items):
            return None
        return b"[" + b",".join(item or _plain(each) for item, each in zip(items, value, strict=True)) + b"]"
    return None if _is_plain_alone(value) else rfc8785.dumps(value)


def _is_plain_alone(value: Any) -> bool:
    """Whether a value that contains no other is plain."""
    kind = type(value)
    if kind is int:
        return bool(-_LARGEST_WHOLE <= value <= _LARGEST_WHOLE)
    if kind is str:
        return bool(value.isascii() and value.isprintable())
    return value is None or kind is bool


def _is_text(key: Any) -> bool:
    return type(key) is str and key.isascii() and key.isprintable()


def parse_canonical(document: bytes) -> Any:
    """Return the value whose canonical form is exactly `document`.

    4.0 and 4 have the same text, so every whole number within ±(2⁵³ - 1) is returned as an int. Use `with_floats` to
    convert the members that must be floats.

    Raises:
        SignatureError: if the bytes are not JSON, or are JSON in a form that is not canonical.
    """
    try:
        return _read_plain(document)
    except NotPlain:
        value = _read(document)
    _check_canonical(value, document)
    return value


def _read_plain(document: bytes) -> Any:
    """Return the value whose canonical form a document is, if it is plain: a certificate of a year has 400 kB.

    Raises:
        NotPlain: if it is not shown here that the document is in canonical form; it may be all the same.
    """
    odd: list[tuple[str, str]] = []

    def fraction(text: str) -> float:
        value, pythons = _number(text)
        if pythons != text:
            odd.append((pythons, text))
        return value

    value = read_plain(document, fraction)
    # Only numbers with a fraction are written in another way by Python. If all members are in their order, so are they.
    written, parts, start = _PLAIN.encode(value), list[str](), 0
    for pythons, text in odd:
        place = written.find(pythons, start)
        parts += written[start:place], text
        start = place + len(pythons)
        if place < 0:
            raise NotPlain
    if "".join([*parts, written[start:]]).encode() != document:
        raise NotPlain
    return value


@lru_cache(maxsize=1024)
def _number(text: str) -> tuple[float, str]:
    """Return a number with a fraction or an exponent, which must be as RFC 8785 writes it, and how Python writes it."""
    value = float(text)
    # Infinity has no form, and the error is a ValueError too.
    if rfc8785.dumps(value) != text.encode():
        raise NotPlain
    return value, repr(value)


def _check_canonical(value: Any, document: bytes) -> None:
    # Writing it again detects every deviation that a parser accepts: white space, another order of keys, 1e2 for 100.
    if canonical(value) != document:
        raise SignatureError("not in canonical form; use the bytes as they were written, without reformatting")


def parse_named(document: bytes, kind: Kind, member: str) -> Any:
    """Return the same as `parse_canonical`, for a document that contains one of that kind as its `member`.

    The format is checked first: a document of another version is refused by the format's name, not for its members.

    Raises:
        FormatError: if it names another format.
        SignatureError: as `parse_canonical` does.
    """
    try:
        value, plain = _read_plain(document), True
    except NotPlain:
        value, plain = _read(document), False
    inside = value.get(member) if isinstance(value, dict) else None
    if isinstance(inside, dict):
        kind.check_named(inside)
    if not plain:
        _check_canonical(value, document)
    return value


def with_floats(members: Any, names: Collection[str]) -> Any:
    """Return a mapping in which the ints among the members `names` are floats.

    Canonical JSON has no fraction for a float of whole value, so it is read as an int; this is the way back. Anything
    that is not a mapping is returned unchanged, for the caller to check. A bool stays a bool.
    """
    if not isinstance(members, dict):
        return members
    return {name: _as_float(value) if name in names else value for name, value in members.items()}


def _as_float(value: Any) -> Any:
    # `parse_canonical` returns no larger ints. One from elsewhere stays an int, which the check that the
    # member is a float then refuses.
    return float(value) if type(value) is int and abs(value) <= _LARGEST_WHOLE else value


def instead_of_json(document: bytes) -> str | None:
    """Describe a file that cannot be a signed document, for an error; return None if it begins like an object."""
    # After a byte order mark there may be a document that an editor saved: it is refused as a changed one.
    if document.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{"):
        return None
    found = what_it_is(document, "not a JSON object")
    return f"a PEM file, {found}" if b"-----BEGIN " in document else found


def _read(document: bytes) -> Any:
    """Read JSON that need not be canonical."""
    try:
        return read_json(document, whole=_whole)
    except JsonError as error:
        raise SignatureError(f"not canonical JSON: {error}; use the bytes as they were written") from error


def is_json(document: bytes) -> bool:
    """Return whether bytes are JSON at all, in whatever form."""
    try:
        read_json(document)
    except NotJson:
        return False
    except JsonError:
        return True
    return True


def _whole(text: str) -> int | float:
    """Read a number that has neither fraction nor exponent: RFC 8785 writes floats below 1e21 in this way too."""
    number = float(text)
    # Beyond the limit only a float has a canonical form, so only a float can have been written there.
    return int(text) if abs(number) <= _LARGEST_WHOLE else number


def sign(label: str, body: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the Ed25519 signature (64 bytes) of `body` under `label`: a document's format, or a `Label`."""
    return key.sign(_message(label, body))


def check_signature(label: str, body: bytes, signature: bytes, identity: bytes) -> None:
    """Check that `signature` is `identity`'s over `body` under `label`.

    Raises:
        SignatureError: otherwise.
    """
    if not is_signed(label, body, signature, identity):
        raise _not_signed(in_words(label), identity)


GET_AGAIN = "; get the "
"""How the remedy begins in an error about a signature; who names another remedy leaves out all from here on."""


def _not_signed(what: str, identity: bytes) -> SignatureError:
    if is_weak(identity):
        return SignatureError(f"the {what} is signed by {fingerprint(identity)}, which {WEAK}; {ANOTHER_KEY}")
    text = f"the {what}'s signature is not by {fingerprint(identity)}: the {what} was changed, or another key signed it"
    return SignatureError(f"{text}{GET_AGAIN}{what} again from the party with that key")


def is_signed(label: str, body: bytes, signature: bytes, identity: bytes) -> bool:
    """Return whether `signature` is `identity`'s over `body` under `label`; never if the identity is weak."""
    if is_weak(identity):
        return False
    try:
        _public_key(identity).verify(signature, _message(label, body))
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=64)
def _public_key(identity: bytes) -> Ed25519PublicKey:
    """Return the library's form of an identity; cached, since few identities sign everything that a party reads."""
    return Ed25519PublicKey.from_public_bytes(identity)


def _message(label: str, body: bytes) -> bytes:
    # No label contains the zero byte, so the boundary between label and body is unambiguous.
    return label.encode() + b"\x00" + body


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
    def make(cls, kind: Kind, content: dict[str, Any], key: Ed25519PrivateKey) -> SignedDocument:
        """Sign `content`, which names the newest format of its kind."""
        body = canonical(content)
        return cls(body, sign(kind.format, body, key))

    def content(self, kind: Kind, identity: bytes) -> dict[str, Any]:
        """Return the document, checked to be of that kind and to be signed by `identity` (32 bytes).

        Raises:
            FormatError: if it is of another kind or version, by the name of its format.
            SignatureError: if the signature is wrong, or the body is not a mapping in canonical form.
        """
        # The signature first: bytes of an unknown sender are not parsed.
        format_ = self._signed_as(kind, identity)
        return _named_so(parse_canonical(self.body), kind, format_)

    def _signed_as(self, kind: Kind, identity: bytes) -> str:
        """Return the format that `identity` signed it under: the label of a signature is the document's version."""
        for format_ in reversed(kind.formats):
            if is_signed(format_, self.body, self.signature, identity):
                return format_
        raise self._refused(kind, identity)

    def _refused(self, kind: Kind, identity: bytes) -> SignatureError:
        """Return the reason of the refusal: another version is refused by its name, and nothing else is read."""
        try:
            value = _read(self.body)
            # Only if it names a format: a changed body must not be reported as another version.
            if isinstance(value, dict) and "format" in value:
                kind.check_named(value)
        except FormatError as error:
            return error
        except SignatureError:
            pass
        return _not_signed(kind.called, identity)

    def as_json(self) -> dict[str, Any]:
        """Return the document as a part of a larger one: the body as JSON, the signature as hex."""
        return {"body": parse_canonical(self.body), "signature": self.signature.hex()}

    @classmethod
    def from_json(cls, value: Any) -> SignedDocument:
        """Read what `as_json` wrote into a larger document.

        Raises:
            SignatureError: if the parts are missing or of another kind.
        """
        _check_parts(value)
        signature = from_hex(value["signature"], SIGNATURE_BYTES, "signature")
        # The signature is over the body's bytes. Canonical JSON has one form, so writing the body reproduces them.
        return cls(canonical(value["body"]), signature)


def _named_so(value: Any, kind: Kind, format_: str) -> dict[str, Any]:
    """Return the content of a document that was signed under that format."""
    if not isinstance(value, dict):
        raise SignatureError(f"a signed document must be a mapping, not a {type(value).__name__}")
    if kind.check_named(value) != format_:
        raise SignatureError(f"the {kind.called} is signed as {format_}, but names the format {value['format']}")
    return value


def check_signed_file(document: bytes, value: Any, kind: Kind, identity: bytes) -> dict[str, Any]:
    """Return the body of a signed document, as `SignedDocument.content` does, without reading it a second time.

    `value` is what `parse_named` returned for the bytes `document`.

    Raises:
        FormatError, SignatureError: as `SignedDocument.from_json` and `SignedDocument.content` do.
    """
    _check_parts(value)
    signature = from_hex(value["signature"], SIGNATURE_BYTES, "signature")
    # The whole is in its one canonical form, so the body's bytes are those between the names of its two members.
    end = len(document) - len(f',"signature":"{signature.hex()}"}}')
    signed = SignedDocument(document[len('{"body":') : end], signature)
    return _named_so(value["body"], kind, signed._signed_as(kind, identity))


def _check_parts(value: Any) -> None:
    """Check that a value has the parts of a signed document.

    Raises:
        SignatureError: if not.
    """
    if not isinstance(value, dict) or set(value) != {"body", "signature"} or not isinstance(value["body"], dict):
        raise SignatureError("a signed document must have exactly the members body and signature")


def from_hex(value: Any, length: int, what: str) -> bytes:
    """Return `length` bytes from their lower-case hex digits.

    Raises:
        SignatureError: if the value has another form; `what` names the value in the message.
    """
    # Not bytes.fromhex alone: it also accepts upper case and white space, so one value would have several texts.
    if isinstance(value, str) and len(value) == 2 * length and _HEX.fullmatch(value):
        return bytes.fromhex(value)
    raise SignatureError(f"{what} must be {2 * length} lower-case hex digits, got {shown(value)}")


def key_from_hex(value: Any, what: str) -> bytes:
    """Return a public key (32 bytes) from its lower-case hex digits.

    Raises:
        SignatureError: if the value has another form, or the key is weak; `what` names it in the message.
    """
    key = from_hex(value, IDENTITY_BYTES, what)
    if is_weak(key):
        raise SignatureError(f"{what} is {fingerprint(key)}, which {WEAK}; {ANOTHER_KEY}")
    return key
