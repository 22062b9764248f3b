"""Encodes and decodes tickets, credentials, and the operator's actions on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hubbub.protos import codec
from hubbub.protos.enrollment.credentials import CREDENTIAL_BYTES, KEY_BYTES, Credential
from hubbub.protos.enrollment.tickets import DEVICE_BYTES, LONGEST_TICKET
from hubbub.protos.errors import MessageError
from hubbub.protos.messages import CredentialAction, CredentialStatus, KeyState, MasterKey, Redemption
from hubbub.protos.refusals import Refusal
from hubbub.protos.v1 import control_pb2, submission_pb2
from hubbub.queries.errors import shown

MOST_REDEMPTIONS = 1000
"""Most tickets in one call: checking them takes about a tenth of a second if each is of another list."""

MOST_DEVICES = 10_000
"""Most devices that one call revokes."""

Enrolled = Credential | Refusal
"""The shuffler's answer to a ticket."""


def write_redemptions(redemptions: Iterable[Redemption]) -> submission_pb2.EnrollRequest:
    """Encode tickets with the secrets that redeem them."""
    made = [submission_pb2.Redemption(ticket=each.ticket, device_key=each.device_key) for each in redemptions]
    return submission_pb2.EnrollRequest(redemptions=made)


def read_redemptions(message: submission_pb2.EnrollRequest) -> list[Redemption]:
    """Decode tickets; their form and signatures are still to be checked.

    Raises:
        MessageError: if there are too many, one is too long, or a secret has another length.
    """
    if len(message.redemptions) > MOST_REDEMPTIONS:
        raise MessageError(f"{len(message.redemptions)} tickets in one call; send at most {MOST_REDEMPTIONS}")
    if any(len(each.ticket) > LONGEST_TICKET for each in message.redemptions):
        raise MessageError(f"a ticket has more than {LONGEST_TICKET} bytes; give a ticket as `hubbub enroll` wrote it")
    return [
        Redemption(each.ticket, codec.checked(each.device_key, KEY_BYTES, "a device's key"))
        for each in message.redemptions
    ]


def write_enrolled(answers: Iterable[Enrolled]) -> submission_pb2.EnrollResponse:
    """Encode the answers to tickets, in order."""
    return submission_pb2.EnrollResponse(answers=[_write_one(answer) for answer in answers])


def _write_one(answer: Enrolled) -> submission_pb2.Enrolled:
    if isinstance(answer, Refusal):
        return submission_pb2.Enrolled(refusal=codec.write_answer(answer).refusal)
    return submission_pb2.Enrolled(credential=submission_pb2.Credential(id=answer.id, key=answer.key))


def read_enrolled(message: submission_pb2.EnrollResponse) -> list[Enrolled]:
    """Decode the answers to tickets, in order."""
    return [_read_one(answer) for answer in message.answers]


def _read_one(message: submission_pb2.Enrolled) -> Enrolled:
    match message.WhichOneof("answer"):
        case "credential":
            found = message.credential
            identifier = codec.checked(found.id, CREDENTIAL_BYTES, "a credential")
            return Credential(identifier, codec.checked(found.key, KEY_BYTES, "a credential's key"))
        case "refusal":
            refusal = message.refusal
            return codec.read_refusal(refusal.reason, refusal.message, refusal.retry_after_ms or None)
        case _:
            raise MessageError(
                "an answer has neither a credential nor a refusal; install the same hubbub on both sides"
            )


def write_credential_action(asked: tuple[CredentialAction, Sequence[bytes]]) -> control_pb2.ManageCredentialsRequest:
    """Encode the operator's action, and its devices."""
    step, devices = asked
    return control_pb2.ManageCredentialsRequest(step=step.value, devices=devices)


def read_credential_action(message: control_pb2.ManageCredentialsRequest) -> tuple[CredentialAction, list[bytes]]:
    """Decode the operator's action, and its devices.

    Raises:
        MessageError: if the step is unknown, or a device is not one.
    """
    if message.step not in set(CredentialAction):
        raise MessageError(
            f"step {shown(message.step)} is unknown to this version; it knows {', '.join(CredentialAction)}"
        )
    if len(message.devices) > MOST_DEVICES:
        raise MessageError(f"{len(message.devices)} devices in one call; send at most {MOST_DEVICES}")
    return CredentialAction(message.step), [codec.checked(each, DEVICE_BYTES, "a device") for each in message.devices]


def write_credential_status(status: CredentialStatus) -> control_pb2.ManageCredentialsResponse:
    """Encode the state of enrollment."""
    keys = [
        control_pb2.MasterKey(
            generation=key.generation, state=key.state.value, since=key.since, fingerprint=key.fingerprint
        )
        for key in status.keys
    ]
    return control_pb2.ManageCredentialsResponse(keys=keys, redeemed=status.redeemed, revoked=status.revoked)


def read_credential_status(message: control_pb2.ManageCredentialsResponse) -> CredentialStatus:
    """Decode the state of enrollment.

    Raises:
        MessageError: if a key has a state that this version does not know.
    """
    if any(key.state not in set(KeyState) for key in message.keys):
        raise MessageError("a master key has a state that is unknown to this version; install a newer one")
    keys = (MasterKey(key.generation, KeyState(key.state), key.since, key.fingerprint) for key in message.keys)
    return CredentialStatus(tuple(keys), message.redeemed, message.revoked)
