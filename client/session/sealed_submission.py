"""A device's sealed submission on its way through other hands, and what became of it on its way back.

Both have a text form, canonical JSON with its version in `format`, for whatever brings them from a device to a gateway
and back. Neither is signed: a sealed submission's proof is inside its submission, and an outcome is the gateway's
claim.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hubbub.protos.codec import LONGEST_MESSAGE, plain
from hubbub.protos.errors import EnvelopeError, MessageError, SignatureError
from hubbub.protos.identity.documents import canonical, from_hex, parse_canonical
from hubbub.protos.identity.formats import OUTCOME, SEALED_SUBMISSION, Kind
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason
from hubbub.protos.sealing.envelope import NUMBER_LIMIT, SUBMISSION_ID_BYTES, TASK_ID_BYTES, Destination
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES

LONGEST_PROOF = 256
"""Bytes of a credential, and of a proof, at most: far more than either has."""

LONGEST_SEALED_SUBMISSION = 2 * MAXIMUM_MESSAGE_BYTES
"""Bytes of a sealed submission's text at most: an envelope that fills a call has twice as many hexadecimal digits."""

LONGEST_OUTCOME = 8192
"""Bytes of an outcome's text at most, above what a message of the longest length has with all of it escaped."""


@dataclass(frozen=True)
class SealedSubmission:
    """A device's submission, sealed and proven, and the round and keys it is for. It holds no answer in the open.

    Raises:
        MessageError: where a part has a length that no device gives it.
    """

    destination: Destination
    submission: Submission = field(repr=False)

    def __post_init__(self) -> None:
        one = self.submission
        if len(one.id) != SUBMISSION_ID_BYTES:
            raise MessageError(f"a sealed submission's id has {len(one.id)} bytes, {SUBMISSION_ID_BYTES} expected")
        if max(len(one.credential), len(one.proof)) > LONGEST_PROOF:
            raise MessageError(f"a sealed submission's credential and proof have at most {LONGEST_PROOF} bytes each")
        # Half: it goes into one call with its frame, and its text is within LONGEST_SEALED_SUBMISSION.
        if len(one.envelope) > MAXIMUM_MESSAGE_BYTES // 2:
            raise MessageError(
                f"a sealed submission's envelope has {len(one.envelope)} bytes, at most "
                f"{MAXIMUM_MESSAGE_BYTES // 2} are carried"
            )

    def encode(self) -> bytes:
        """Return the sealed submission's text."""
        one = self.submission
        members = {"credential": one.credential, "envelope": one.envelope, "id": one.id, "proof": one.proof}
        return canonical(
            {
                "destination": _write(self.destination),
                "format": SEALED_SUBMISSION.format,
                "submission": {name: value.hex() for name, value in members.items()},
            }
        )

    @classmethod
    def decode(cls, document: bytes) -> SealedSubmission:
        """Read what `encode` wrote.

        Raises:
            MessageError: where it is not a sealed submission of this version.
        """
        value = _parsed(document, LONGEST_SEALED_SUBMISSION, SEALED_SUBMISSION)
        try:
            one = {name: bytes.fromhex(text) for name, text in value["submission"].items()}
            sealed_submission = cls(_read(value["destination"]), Submission(**one))
        except (KeyError, TypeError, ValueError, AttributeError, EnvelopeError, SignatureError) as error:
            raise MessageError(
                f"not a sealed submission of {SEALED_SUBMISSION.format}; Device.prepare() makes one"
            ) from error
        if sealed_submission.encode() != document:
            raise MessageError(
                f"not a sealed submission of {SEALED_SUBMISSION.format}: it has members that are not read here"
            )
        return sealed_submission


class Ending(StrEnum):
    """How carrying a sealed submission ended."""

    ACKNOWLEDGED = "acknowledged"
    """The shuffler has it on disk."""
    REFUSED = "refused"
    """The shuffler refused it, for the reason beside."""
    TRY_AGAIN = "try_again"
    """Nobody answered for it, or the shuffler was too busy: it may have arrived, and the same bytes are to be sent."""


@dataclass(frozen=True)
class Outcome:
    """What became of a sealed submission. `reason` is the shuffler's where it refused, else None.

    `message` is for people.

    Raises:
        MessageError: where there is a reason without a refusal, or the other way round.
    """

    destination: Destination
    submission_id: bytes = field(repr=False)
    ending: Ending
    reason: Reason | None = None
    message: str = ""

    def __post_init__(self) -> None:
        if (self.reason is None) is (self.ending is Ending.REFUSED):
            raise MessageError(f"an outcome {self.ending} has the reason {self.reason}; refusals alone have one")

    def encode(self) -> bytes:
        """Return the outcome's text; a message is cut to what a refusal's has at most."""
        return canonical(
            {
                "destination": _write(self.destination),
                "ending": self.ending.value,
                "format": OUTCOME.format,
                "message": plain(self.message),
                "reason": None if self.reason is None else self.reason.value,
                "submission_id": self.submission_id.hex(),
            }
        )

    @classmethod
    def decode(cls, document: bytes) -> Outcome:
        """Read what `encode` wrote.

        Raises:
            MessageError: where it is not an outcome of this version.
        """
        value = _parsed(document, LONGEST_OUTCOME, OUTCOME)
        try:
            outcome = cls(
                _read(value["destination"]),
                from_hex(value["submission_id"], SUBMISSION_ID_BYTES, "submission_id"),
                Ending(value["ending"]),
                None if value["reason"] is None else Reason(value["reason"]),
                str(value["message"])[:LONGEST_MESSAGE],
            )
        except (KeyError, TypeError, ValueError, AttributeError, EnvelopeError, SignatureError) as error:
            raise MessageError(f"not an outcome of {OUTCOME.format}; Gateway.carry() makes them") from error
        if outcome.encode() != document:
            raise MessageError(f"not an outcome of {OUTCOME.format}: it has members that are not read here")
        return outcome


def _write(destination: Destination) -> dict[str, Any]:
    return {
        "key_set_hash": destination.key_set_hash.hex(),
        "round": destination.round,
        "task_id": destination.task_id.hex(),
    }


def _read(value: Any) -> Destination:
    number = value["round"]
    if type(number) is not int or not 0 <= number < NUMBER_LIMIT:
        raise ValueError("the round is not a number of one")
    hashed = from_hex(value["key_set_hash"], TASK_ID_BYTES, "key_set_hash")
    return Destination(from_hex(value["task_id"], TASK_ID_BYTES, "task_id"), number, hashed)


def _parsed(document: bytes, longest: int, kind: Kind) -> Any:
    if len(document) > longest:
        raise MessageError(f"not a {kind.called}: it has {len(document)} bytes, at most {longest} are read")
    try:
        value = parse_canonical(document)
        kind.check_named(value)
    except SignatureError as error:
        raise MessageError(f"not a {kind.called}: {error}") from error
    return value
