"""Signs the oblivious key, so that a device knows it from a key that a relay made up.

A device has the key from whoever relays, or from anybody else. It takes none that the shuffler's identity did not sign,
which its task names: otherwise a relay could give it a key of its own, and read all that the device sends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hubbub.protos.errors import KeyRecordError, MessageError, SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical
from hubbub.protos.identity.formats import OBLIVIOUS_KEY
from hubbub.protos.identity.keys import LATEST_TIME, Identity
from hubbub.protos.identity.successions import MOST_SUCCESSIONS
from hubbub.protos.oblivious.encapsulation import KeyConfiguration

VALID_SECONDS = 14 * 86_400
"""How long a record is valid. It is signed again each day, so caches may be some days behind, and clocks ahead."""

STEP_SECONDS = 86_400
"""A record begins with the day (UTC) before that of signing, as a device's clock may be behind. All records that are
signed on one day are the same, and show no device's own."""

MOST_RECORDS = 16
"""Most records in an answer: one for each identity of the shuffler."""

LARGEST_RECORDS = 256 * 1024
"""Most bytes of an answer."""

RECORDS = "application/json"
"""The media type of an answer."""


@dataclass(frozen=True)
class ObliviousRecord:
    """The oblivious key that devices use, from `not_before` to `not_after` (seconds since 1970)."""

    configuration: KeyConfiguration
    not_before: int
    not_after: int

    @classmethod
    def at(cls, configuration: KeyConfiguration, now: float) -> ObliviousRecord:
        """Return the record of a key at a time."""
        begin = max(0, int(now) - int(now) % STEP_SECONDS - STEP_SECONDS)
        return cls(configuration, begin, begin + VALID_SECONDS)

    def signed_by(self, identity: Identity) -> SignedDocument:
        """Sign this record."""
        return SignedDocument.make(OBLIVIOUS_KEY, self._content(), identity.key)

    def _content(self) -> dict[str, Any]:
        return {
            "format": OBLIVIOUS_KEY.format,
            "key_configuration": self.configuration.encode().hex(),
            "not_after": self.not_after,
            "not_before": self.not_before,
        }

    @classmethod
    def read(cls, document: SignedDocument, identity: bytes) -> ObliviousRecord:
        """Return the record, checked to be signed by `identity` (32 bytes).

        Raises:
            SignatureError: if the signature is invalid.
            KeyRecordError: if the signed content is not a record's.
        """
        content = document.content(OBLIVIOUS_KEY, identity)
        try:
            configuration = KeyConfiguration.decode(bytes.fromhex(content["key_configuration"]))
            times = content["not_before"], content["not_after"]
            # Not isinstance: a bool is an int to Python.
            if any(type(time) is not int or not 0 <= time <= LATEST_TIME for time in times) or times[0] > times[1]:
                raise ValueError("its times are no times")
            # A device keeps a key for so long: one that the shuffler made for it alone would tell its calls for ever.
            if times[1] - times[0] > VALID_SECONDS:
                raise ValueError(f"it is valid for more than {VALID_SECONDS // STEP_SECONDS} days")
            record = cls(configuration, *times)
        except (KeyError, TypeError, ValueError, SignatureError, MessageError) as error:
            raise KeyRecordError(f"not a record of {OBLIVIOUS_KEY.format}: {error!s:.200}") from error
        # Equal only if there is no other member, and no algorithm that is not known here.
        if record._content() != content:
            raise KeyRecordError(f"not a record of {OBLIVIOUS_KEY.format}: it has members that are not read here")
        return record

    def check_time(self, now: float) -> None:
        """Check that the record is valid at `now` (seconds since 1970).

        Raises:
            KeyRecordError: naming the validity.
        """
        if not self.not_before <= now <= self.not_after:
            raise KeyRecordError(
                f"the oblivious key is valid from {self.not_before} to {self.not_after}, and now is {now:.0f}; check "
                "this machine's clock, and whether the relay keeps old copies of keys"
            )


def write_oblivious_records(documents: Sequence[SignedDocument], successions: Sequence[bytes] = ()) -> bytes:
    """Return signed records of one key, by each identity of the shuffler, with its successions, in canonical form."""
    records = [document.as_json() for document in documents]
    return canonical({"records": records, "successions": [each.decode() for each in successions]})


def read_oblivious_record(
    answer: bytes, identity_after: Callable[[Sequence[bytes]], bytes], now: float
) -> ObliviousRecord:
    """Return the record that the shuffler's identity signed, if it is valid at `now`.

    `identity_after` returns the identity (32 bytes) that is trusted, given the successions in the answer.

    Raises:
        SignatureError: if it signed none, or the answer is malformed.
        KeyRecordError: if the signed content is no record's, or is not valid at that time.
    """
    documents, successions = _parts(answer)
    identity, refused = identity_after(successions), None
    for document in documents:
        try:
            record = ObliviousRecord.read(document, identity)
        except SignatureError as error:
            refused = error
            continue
        record.check_time(now)
        return record
    raise SignatureError(
        f"no oblivious key is signed by this task's shuffler ({refused or 'there is none'}); nothing was sent. "
        "Ask the shuffler's operator whether the relay is of its shuffler"
    )


def _parts(answer: bytes) -> tuple[list[SignedDocument], list[bytes]]:
    if len(answer) > LARGEST_RECORDS:
        raise SignatureError(f"the oblivious keys have {len(answer)} bytes, more than {LARGEST_RECORDS}")
    content = parse_canonical(answer)
    named = isinstance(content, dict) and content.keys() == {"records", "successions"}
    records, successions = (content["records"], content["successions"]) if named else (None, None)
    if not isinstance(records, list) or not isinstance(successions, list) or len(records) > MOST_RECORDS:
        raise SignatureError(f"the answer does not have at most {MOST_RECORDS} signed keys of the oblivious key")
    if len(successions) > MOST_SUCCESSIONS or not all(isinstance(each, str) for each in successions):
        raise SignatureError(f"the answer does not have at most {MOST_SUCCESSIONS} successions")
    return [SignedDocument.from_json(each) for each in records], [each.encode() for each in successions]
