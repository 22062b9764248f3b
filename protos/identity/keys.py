"""Defines Ed25519 identities, which sign, and signed records of a round's HPKE keys, which open envelopes.

An identity is a party's lasting name. HPKE keys are made for one round of one task and destroyed with it. The service
that has such a key publishes a signed `KeyRecord` of it. The two records of a round, the shuffler's and the analyzer's,
are its `KeySet`, and every envelope is bound to the key set's hash. If a task names more shufflers, each of them signs
a record that contains the record of the next party, so that the second shuffler's record contains all the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hubbub.protos.durable_files import removed_if_failed, sync_folder, synced_file
from hubbub.protos.errors import KeyRecordError, SignatureError, SuiteError
from hubbub.protos.identity.documents import SignedDocument, from_hex, key_from_hex, parse_canonical
from hubbub.protos.identity.formats import KEY_RECORD, Label
from hubbub.protos.identity.pem import what_it_is
from hubbub.protos.sealing.envelope import NUMBER_LIMIT
from hubbub.protos.sealing.suites import suite_named

LATEST_TIME = 253_402_300_799
"""The last second of the year 9999, the latest that Python's datetime and a task's timestamps can express."""

HASH_BYTES = 32
"""Length of a task id and of a key-set hash (SHA-256)."""


class Role(StrEnum):
    """The parties that sign: each has one identity."""

    OPERATOR = "operator"
    SHUFFLER = "shuffler"
    ANALYZER = "analyzer"
    HOP = "hop"
    """A shuffler after the first one; a task may name several."""


CORE_ROLES = (Role.OPERATOR, Role.SHUFFLER, Role.ANALYZER)
"""The parties that every task names, once each."""


class Identity:
    """A party's Ed25519 private key, with those of its earlier and later identities. Never printed, never pickled."""

    def __init__(self, key: Ed25519PrivateKey, others: Sequence[Identity] = ()) -> None:
        self.key = key
        self.public = key.public_key().public_bytes_raw()
        self._others = {each.public: each for each in others}

    def __repr__(self) -> str:
        # Only the public key, since a repr ends up in logs and tracebacks.
        return f"Identity({self.public.hex()[:16]}…)"

    @classmethod
    def generate(cls) -> Identity:
        """Make a new identity from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> Identity:
        """Read a PEM (PKCS 8) private key.

        Raises:
            SignatureError: if there is no such file, or it has no Ed25519 private key.
        """
        content = _read(path, _RESTORE)
        # OpenSSL reports some malformed files as an internal error, which is not a ValueError.
        try:
            key = serialization.load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm, InternalError) as error:
            raise SignatureError(
                f"{path} has no readable private key: it is {what_it_is(content)}; {_RESTORE}"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise SignatureError(another_kind(str(path), key))
        return cls(key)

    def beside(self, others: Sequence[Identity]) -> Identity:
        """Return this identity together with others of the same party: its successors and predecessors."""
        return Identity(self.key, others)

    def every(self) -> list[Identity]:
        """Return this identity and those beside it."""
        return [self, *(each for public, each in self._others.items() if public != self.public)]

    def named(self, public: bytes) -> Identity:
        """Return the party's identity with that public key (32 bytes), for signing.

        Raises:
            SignatureError: if its private key is not here.
        """
        found = self if public == self.public else self._others.get(public)
        if found is None:
            raise SignatureError(
                f"the private key of {public.hex()[:16]}…, an identity of this party, is missing; put it into the "
                "folder of the identity that the settings name"
            )
        return found

    def save(self, path: Path) -> None:
        """Write the private key as PEM into a new file that only its owner can read."""
        pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_private(path, pem)

    def save_public(self, path: Path) -> None:
        """Write the public key as PEM."""
        save_public(path, self.public)


def save_public(path: Path, identity: bytes) -> None:
    """Write a raw public key (32 bytes) as PEM."""
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(Ed25519PublicKey.from_public_bytes(identity).public_bytes(encoding, form))


def write_private(path: Path, content: bytes) -> None:
    """Create `path` with mode 0600 and write `content`; an existing file is never overwritten.

    If it cannot be written as a whole, there is no file.

    Raises:
        FileExistsError: if there is a file already.
        OSError: if it cannot be written; it names the file.
    """
    try:
        # Signatures of others for a key must not survive a power cut without the key.
        with synced_file(path, 0o600) as file:
            file.write(content)
        with removed_if_failed(path):
            sync_folder(path.parent, required=False)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def load_public(path: Path) -> bytes:
    """Return the raw public key (32 bytes) of a PEM file.

    Raises:
        SignatureError: if there is no such file, or it has no Ed25519 public key.
    """
    remedy = "get this public key from the party itself"
    if _FINGERPRINT.fullmatch(str(path)):
        remedy = f"a fingerprint is no key: give the key's file, *.pub.pem; {remedy}"
    return parse_public(_read(path, remedy), str(path))


_FINGERPRINT = re.compile(r"(?:[0-9a-f]{4,}[-: ]?){2,}", re.IGNORECASE)
"""Digits as `fingerprint` groups them, also a part of them."""


_RESTORE = "restore the private key from its copy; `hubbub identity` makes one for a new party only"
"""What to do about a private key that is gone: nobody can make it again, and another one is another party."""


def another_kind(name: str, key: object) -> str:
    """Return the error for a key that is not Ed25519's."""
    return f"{name} has another kind of key ({type(key).__name__}), but an identity is an Ed25519 key; use that one"


def _read(path: Path, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except PermissionError as error:
        raise SignatureError(
            f"cannot read {path}: {error.strerror}: this account may not read it; give it the file with chown"
        ) from error
    except OSError as error:
        raise SignatureError(f"cannot read {path}: {error.strerror}; {remedy}") from error


def parse_public(pem: bytes, name: str = "the key") -> bytes:
    """Return the raw public key (32 bytes) of PEM bytes; `name` is used in errors.

    Raises:
        SignatureError: if they have no Ed25519 public key.
    """
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm, InternalError) as error:
        raise SignatureError(
            f"{name} has no readable public key: it is {what_it_is(pem)}; give the file *.pub.pem"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(another_kind(name, key))
    return key.public_bytes_raw()


@dataclass(frozen=True)
class KeyRecord:
    """The public half of a service's HPKE key for one round of one task. Times are seconds since 1970.

    Only a hop's record has `behind`: the signed key record of the party after it, the next hop or the analyzer.

    Raises:
        KeyRecordError: if a hop's record lacks `behind`, or another party's has it.
    """

    role: Role
    task_id: bytes
    round: int
    suite: str
    public_key: bytes
    not_before: int
    not_after: int
    behind: SignedDocument | None = None

    def __post_init__(self) -> None:
        if (self.role is Role.HOP) is not (self.behind is not None):
            raise KeyRecordError("only a hop's key record contains another: that of the party after the hop")

    @property
    def key_id(self) -> str:
        """The first 16 hex digits of the public key's SHA-256."""
        return hashlib.sha256(self.public_key).hexdigest()[:16]

    def signed_by(self, identity: Identity) -> SignedDocument:
        """Sign this record."""
        return SignedDocument.make(KEY_RECORD, self._content(), identity.key)

    def _content(self) -> dict[str, Any]:
        behind = {} if self.behind is None else {"behind": self.behind.as_json()}
        return {
            **behind,
            "format": KEY_RECORD.format,
            "key_id": self.key_id,
            "not_after": self.not_after,
            "not_before": self.not_before,
            "public_key": self.public_key.hex(),
            "role": self.role.value,
            "round": self.round,
            "suite": self.suite,
            "task": self.task_id.hex(),
        }

    @classmethod
    def read(cls, document: SignedDocument, identity: bytes) -> KeyRecord:
        """Return the record, checked to be signed by `identity` (32 bytes).

        Raises:
            SignatureError: if the signature is invalid.
            KeyRecordError: if the signed content is not a key record's.
        """
        content = document.content(KEY_RECORD, identity)
        try:
            record = cls._from_content(content)
        except (KeyError, TypeError, ValueError, SignatureError, SuiteError) as error:
            raise KeyRecordError(f"not a key record of {KEY_RECORD.format}: {error!s:.200}") from error
        # Equal only if there is no other member, and if key_id follows from the public key.
        if record._content() != content:
            raise KeyRecordError(f"not a key record of {KEY_RECORD.format}: it has members that are not read here")
        return record

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> KeyRecord:
        numbers = [content[name] for name in ("round", "not_before", "not_after")]
        # Not isinstance: a bool is an int to Python.
        if any(type(number) is not int or not 0 <= number <= LATEST_TIME for number in numbers):
            raise ValueError(f"round and times are whole numbers up to {LATEST_TIME}")
        if content["not_before"] > content["not_after"] or content["round"] >= NUMBER_LIMIT:
            raise ValueError("it is never valid: it ends before it begins, or its round is out of range")
        suite = suite_named(content["suite"])
        return cls(
            role=Role(content["role"]),
            task_id=from_hex(content["task"], HASH_BYTES, "task"),
            round=content["round"],
            suite=suite.name,
            public_key=from_hex(content["public_key"], suite.public_key_bytes, "public_key"),
            not_before=content["not_before"],
            not_after=content["not_after"],
            behind=SignedDocument.from_json(content["behind"]) if "behind" in content else None,
        )

    def check_for(self, role: Role, task_id: bytes, round_number: int, suite: str) -> None:
        """Check that this is the key of `role` for that round of that task.

        Raises:
            KeyRecordError: naming what differs.
        """
        # A valid signature is not enough: a service could present the record of another round, whose key it still has.
        expected = {"role": role, "task_id": task_id, "round": round_number, "suite": suite}
        for name, value in expected.items():
            if getattr(self, name) != value:
                what = f"the {role.value}'s key record is for another {name.replace('_id', '')}"
                raise KeyRecordError(f"{what}: {_plain(getattr(self, name))}, not {_plain(value)}")

    def check_time(self, now: float) -> None:
        """Check that the key is valid at `now` (seconds since 1970).

        Raises:
            KeyRecordError: naming the validity.
        """
        if not self.not_before <= now <= self.not_after:
            raise KeyRecordError(
                f"the {self.role.value}'s key {self.key_id} is valid from {self.not_before} to {self.not_after}, "
                f"and now is {now:.0f}; check this machine's clock"
            )


@dataclass(frozen=True)
class KeySet:
    """The signed key records of a round: the shuffler's, and the analyzer's.

    If the task names hops, `analyzer` is the first hop's record, which contains those of all parties after it.
    """

    shuffler: SignedDocument
    analyzer: SignedDocument
    successions: tuple[bytes, ...] = field(default=(), compare=False)
    """Signed successions of the identities that tasks name (`protos.identity.successions`), as received."""

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 (32 bytes) over both records' bodies; the same for every device of a round."""
        # Each body is hashed by itself first: digests have one length, so bytes cannot move between the bodies.
        digest = hashlib.sha256(Label.KEY_SET.encode())
        for document in (self.shuffler, self.analyzer):
            digest.update(hashlib.sha256(document.body).digest())
        return digest.digest()

    def read(
        self,
        task_id: bytes,
        round_number: int,
        suite: str,
        shuffler: bytes,
        analyzer: bytes,
        hops: Sequence[bytes] = (),
    ) -> tuple[KeyRecord, ...]:
        """Return the records, checked against the identities (32 bytes each) and the round.

        First the shuffler's, then the analyzer's, then those of the hops in their order.

        Raises:
            SignatureError: if a record is not signed by its service.
            KeyRecordError: if a record is for another role, round or task.
        """
        first = KeyRecord.read(self.shuffler, shuffler)
        *chain, last = read_behind(self.analyzer, (*hops, analyzer))
        expected = ((first, Role.SHUFFLER), (last, Role.ANALYZER), *((record, Role.HOP) for record in chain))
        for record, role in expected:
            record.check_for(role, task_id, round_number, suite)
        return first, last, *chain


def behind(document: SignedDocument, steps: int) -> SignedDocument:
    """Return the key record `steps` levels inside a checked one (`read_behind`)."""
    for _ in range(steps):
        document = SignedDocument.from_json(parse_canonical(document.body)["behind"])
    return document


def read_behind(document: SignedDocument, identities: Sequence[bytes]) -> list[KeyRecord]:
    """Return the key records of the parties after the first shuffler, outermost first, each signed by its identity.

    `identities` (32 bytes each) are the hops' in order, then the analyzer's. The caller still has to call `check_for`.

    Raises:
        SignatureError: if a record is not signed by its service.
        KeyRecordError: if one is not a key record, or there are more or fewer of them.
    """
    records = []
    for place, identity in enumerate(identities):
        records.append(KeyRecord.read(document, identity))
        behind = records[-1].behind
        if (behind is None) is not (place == len(identities) - 1):
            raise KeyRecordError("the nested key records are not those of the task's hops in order; ask again")
        document = behind or document
    return records


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def identity_from_hex(value: Any, role: Role) -> bytes:
    """Return a role's raw public key (32 bytes) from hex.

    Raises:
        SignatureError: if it is not 64 hex digits, or weak.
    """
    return key_from_hex(value, f"the identity of the {role.value}")
