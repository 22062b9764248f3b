"""A device's sealed submission, which a gateway carries, and its outcome, which the gateway returns.

Both have a text form to be transported between device and gateway: canonical JSON with its version in `format`. Neither
is signed: a sealed submission's proof is inside its submission, and an outcome is the gateway's claim.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hubbub.client.validation import checked_type
from hubbub.protos.codec import LONGEST_MESSAGE, plain
from hubbub.protos.errors import EnvelopeError, MessageError, SignatureError
from hubbub.protos.identity.documents import canonical, from_hex, parse_canonical
from hubbub.protos.identity.formats import OUTCOME, SEALED_SUBMISSION, Kind
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason
from hubbub.protos.sealing.envelope import NUMBER_LIMIT, SUBMISSION_ID_BYTES, TASK_ID_BYTES, Destination
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES

LONGEST_PROOF = 256
"""Most bytes of a credential, and of a proof: far more than either has."""

LONGEST_SEALED_SUBMISSION = 2 * MAXIMUM_MESSAGE_BYTES
"""Most bytes of a sealed submission's text: an envelope that fills a call has twice as many hexadecimal digits."""

LONGEST_OUTCOME = 8192
"""Most bytes of an outcome's text: enough for the longest message with every character escaped."""


@dataclass(frozen=True)
class SealedSubmission:
    """A device's submission, sealed and proven, with its round and keys. It contains no answer in the clear.

    Raises:
        MessageError: if a member has a length that no device gives it.
    """

    destination: Destination
    submission: Submission = field(repr=False)

    def __post_init__(self) -> None:
        one = self.submission
        if len(one.id) != SUBMISSION_ID_BYTES:
            raise MessageError(
                f"a sealed submission's id has {len(one.id)} bytes, but {SUBMISSION_ID_BYTES} are expected"
            )
        if max(len(one.credential), len(one.proof)) > LONGEST_PROOF:
            raise MessageError(f"a sealed submission's credential and proof have at most {LONGEST_PROOF} bytes each")
        # Half, so that it fits into one call with its frame, and its text into LONGEST_SEALED_SUBMISSION.
        if len(one.envelope) > MAXIMUM_MESSAGE_BYTES // 2:
            raise MessageError(
                f"a sealed submission's envelope has {len(one.envelope)} bytes, at most "
                f"{MAXIMUM_MESSAGE_BYTES // 2} are allowed"
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
            MessageError: if it is not a sealed submission of this version.
            UsageError: if it is not bytes.
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
                f"not a sealed submission of {SEALED_SUBMISSION.format}: it has members that are not read here; give "
                "the bytes as encode() returned them"
            )
        return sealed_submission


class Ending(StrEnum):
    """How carrying a sealed submission ended."""

    ACKNOWLEDGED = "acknowledged"
    """The shuffler has it on disk."""
    REFUSED = "refused"
    """The shuffler refused it, for the outcome's `reason`."""
    TRY_AGAIN = "try_again"
    """There was no answer, or the shuffler was too busy. It may have arrived; send the same bytes again."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a sealed submission. `reason` is the shuffler's reason if it refused, else None.

    `message` is for people.

    Raises:
        MessageError: if there is a reason without a refusal, or a refusal without a reason.
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
        """Return the outcome's text; the message is cut to the longest length of a refusal's message."""
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
            MessageError: if it is not an outcome of this version.
            UsageError: if it is not bytes.
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
            raise MessageError(
                f"not an outcome of {OUTCOME.format}: it has members that are not read here; give the bytes as "
                "encode() returned them"
            )
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
        raise ValueError("the round is not a round's number")
    hashed = from_hex(value["key_set_hash"], TASK_ID_BYTES, "key_set_hash")
    return Destination(from_hex(value["task_id"], TASK_ID_BYTES, "task_id"), number, hashed)


def _parsed(document: bytes, longest: int, kind: Kind) -> Any:
    checked_type(document, bytes, f"the {kind.called}", "bytes, as encode() returns them")
    if len(document) > longest:
        raise MessageError(
            f"the {kind.called} has {len(document)} bytes, but at most {longest} are allowed; give the bytes as "
            "encode() returned them"
        )
    try:
        value = parse_canonical(document)
        kind.check_named(value)
    except SignatureError as error:
        raise MessageError(f"the {kind.called} cannot be read: {error}") from error
    return value
