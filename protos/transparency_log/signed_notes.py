"""Makes and checks signed notes: a text with signatures below it, in the form of C2SP (c2sp.org/signed-note).

A log signs its checkpoints in this form, and witnesses sign them too (c2sp.org/tlog-cosignature). So witnesses and
monitors that know nothing of hubbub can read them. Everything else that hubbub signs is signed under a label, and a
zero byte ends the label (`identity.documents`). A note has no zero byte, so no signature is valid in both forms.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import IDENTITY_BYTES, SIGNATURE_BYTES
from hubbub.protos.identity.keys import LATEST_TIME, Identity
from hubbub.protos.identity.weak_keys import WEAK, is_weak
from hubbub.queries.errors import shown

LONGEST_NAME = 200
"""Characters of a key's name at most."""

LONGEST_NOTE = 65536
"""Bytes of a note at most; one signature line of Ed25519 has some 150."""

MOST_SIGNATURES = 64
"""Signatures of a note at most. C2SP asks for 16 or more."""

_NAME = re.compile(r"[!-*,-~]+")

_DASH = "\u2014 "
_ID_BYTES = 4
_TIME_BYTES = 8


class LogError(SignatureError):
    """A transparency log, or what it signed or proves, is not as it must be; the message says what, and why."""


def is_name(name: str) -> bool:
    """Whether a log or a witness may have that name."""
    return len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None


class NoteRole(IntEnum):
    """What a key signs; the number is the signature's type (c2sp.org/signed-note)."""

    LOG = 1
    WITNESS = 4

    @property
    def word(self) -> str:
        """Its name in messages."""
        return self.name.lower()


@dataclass(frozen=True)
class NoteKey:
    """The public key (32 bytes) of a log or a witness, with its name, such as `stats.example/log`.

    Raises:
        LogError: if the name is none.
    """

    name: str
    role: NoteRole
    public: bytes

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise LogError(
                f"{shown(self.name)} is no name of a log or a witness; give one such as stats.example/log, of at most "
                f"{LONGEST_NAME} characters of ASCII, without spaces and plus signs"
            )

    @property
    def id(self) -> bytes:
        """The four bytes by which a signature names its key."""
        return hashlib.sha256(self.name.encode() + b"\n" + self._material).digest()[:_ID_BYTES]

    @property
    def _material(self) -> bytes:
        return bytes([self.role]) + self.public

    def encode(self) -> str:
        """Return the text by which people hand the key on: its name, its id and the key."""
        return f"{self.name}+{self.id.hex()}+{_base64(self._material)}"

    @classmethod
    def decode(cls, text: str, role: NoteRole) -> NoteKey:
        """Read what `encode` wrote, of a key of that role.

        Raises:
            LogError: if it is none.
        """
        name, _, rest = text.strip().partition("+")
        _id, _, encoded = rest.partition("+")
        try:
            material = _from_base64(encoded)
            found = cls(name, NoteRole(material[0]), material[1:])
            is_one = len(found.public) == IDENTITY_BYTES and found.encode() == text.strip()
        except (LogError, ValueError, IndexError):
            is_one = False
        if not is_one:
            raise LogError(
                f"{shown(text)} is not the key of a {role.word}, which is its name, 8 hex digits and the key, with a + "
                f"between them; give it as `hubbub log {_MADE_BY[role]}` printed it"
            )
        if found.role is not role:
            raise LogError(f"{shown(text)} is the key of a {found.role.word}, not of a {role.word}; give the other one")
        if is_weak(found.public):
            raise LogError(f"{shown(text)} {WEAK}; have the {role.word} make another with `hubbub identity`")
        return found


_MADE_BY = {NoteRole.LOG: "init", NoteRole.WITNESS: "witness"}


@dataclass(frozen=True)
class NoteSignature:
    """A signature line: the name and the id of the key that it says it is by; a witness's begins with its time."""

    name: str
    key_id: bytes
    signature: bytes

    def is_of(self, key: NoteKey) -> bool:
        """Whether it says that it is by that key."""
        return (self.name, self.key_id) == (key.name, key.id)

    def line(self) -> str:
        """Return its line."""
        return f"{_DASH}{self.name} {_base64(self.key_id + self.signature)}\n"

    def check(self, key: NoteKey, text: str) -> int | None:
        """Return when a witness signed, in seconds since 1970; None for a log. `is_of` is true.

        Raises:
            LogError: if the signature is not by the key.
        """
        time = None
        if key.role is NoteRole.WITNESS:
            time = int.from_bytes(self.signature[:_TIME_BYTES], "big")
        signature = self.signature if time is None else self.signature[_TIME_BYTES:]
        try:
            if len(signature) != SIGNATURE_BYTES or (time or 0) > LATEST_TIME:
                raise InvalidSignature
            Ed25519PublicKey.from_public_bytes(key.public).verify(signature, _message(text, time))
        except (InvalidSignature, ValueError):
            raise LogError(
                f"the signature of {key.role.word} {key.name} is wrong: the checkpoint was changed, or another key "
                "signed it; get it again from the log"
            ) from None
        return time


def sign_note(text: str, key: NoteKey, identity: Identity, time: int | None = None) -> NoteSignature:
    """Sign a text as a log, or as a witness at a time (seconds since 1970)."""
    signature = identity.key.sign(_message(text, time))
    at = b"" if time is None else time.to_bytes(_TIME_BYTES, "big")
    return NoteSignature(key.name, key.id, at + signature)


def _message(text: str, time: int | None) -> bytes:
    # A log's text has a number in its second line, and this has the word "time": so no signature is valid as the other.
    before = "" if time is None else f"cosignature/v1\ntime {time}\n"
    return (before + text).encode()


def note_of(text: str, signatures: Sequence[NoteSignature]) -> bytes:
    """Return a note's bytes; the text ends with a line's end.

    Raises:
        LogError: if nobody could read it again, as it has too many signatures.
    """
    note = (text + "\n" + "".join(each.line() for each in signatures)).encode()
    if len(signatures) > MOST_SIGNATURES or len(note) > LONGEST_NOTE:
        raise LogError(
            f"a checkpoint has at most {MOST_SIGNATURES} signatures and {LONGEST_NOTE} bytes, and this would have "
            f"{len(signatures)} and {len(note)}; add fewer signatures of witnesses"
        )
    return note


def read_note(note: bytes) -> tuple[str, tuple[NoteSignature, ...]]:
    """Return a note's text and its signatures, which are still to be checked.

    Raises:
        LogError: if it is none.
    """
    try:
        # Without the bound a line of a megabyte would be decoded before it is refused.
        if len(note) > LONGEST_NOTE:
            raise ValueError(f"it has {len(note)} bytes, more than {LONGEST_NOTE}")
        text, separator, below = note.decode().rpartition("\n\n")
        lines = below.split("\n")
        if not separator or lines.pop():
            raise ValueError("it has no text with signature lines below an empty line")
        if not 0 < len(lines) <= MOST_SIGNATURES:
            raise ValueError(f"it has {len(lines)} signatures, not 1 to {MOST_SIGNATURES}")
        return f"{text}\n", tuple(map(_signature_in, lines))
    except ValueError as error:
        raise LogError(f"not a signed checkpoint: {error!s:.200}; give the file as the log has it") from error


def _signature_in(line: str) -> NoteSignature:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    content = _from_base64(encoded)
    found = NoteSignature(name, content[:_ID_BYTES], content[_ID_BYTES:])
    # Written again, it is the same: so nothing in it is ignored. Names of strangers' keys may have any letters.
    if f"{line}\n" != found.line() or not found.signature or not name or not name.isprintable() or "+" in name:
        raise ValueError(f"{shown(line)} is no signature line")
    return found


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _from_base64(text: str) -> bytes:
    """Return the bytes of their one form in base64."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{shown(text)} is not base64") from None
    if _base64(content) != text:
        raise ValueError(f"{shown(text)} is not base64 in its one form")
    return content


def hash_line(value: bytes) -> str:
    """Return a hash as a line of a text has it."""
    return _base64(value)


def hash_in(line: str, length: int) -> bytes:
    """Return the hash in a line of a text.

    Raises:
        ValueError: if it is not base64 of that many bytes.
    """
    content = _from_base64(line)
    if len(content) != length:
        raise ValueError(f"{shown(line)} has {len(content)} bytes, not {length}")
    return content
