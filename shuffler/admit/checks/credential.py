"""Checks whether the device that is proven to have sent a submission may submit to this task now."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.enrollment.credentials import authority_tag, parted
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.admission import AdmissionPolicy, Mode
from hubbub.shuffler.admit.checks.check import Arrival, Verdicts
from hubbub.shuffler.tasks import at


def credential(arrival: Arrival, submissions: Sequence[Submission]) -> Verdicts:
    """CREDENTIAL_EXPIRED, REVOKED, NOT_COUNTERSIGNED. It checks only submissions whose proof is valid."""
    admission = arrival.task.admission
    if admission.mode is not Mode.ENROLLED:
        return None
    needed = None if admission.second_authority is None else authority_tag(admission.second_authority)
    revoked_ones, now = arrival.revoked, arrival.now
    credentials = [parted(submission.credential) for submission in submissions]
    refusals = [
        expired(expires)
        if expires <= now
        else revoked()
        if number in revoked_ones
        else not_countersigned()
        if needed is not None and authority != needed
        else None
        for _, expires, authority, number in credentials
    ]
    return refusals if any(refusals) else None


def not_enrolled(admission: AdmissionPolicy) -> Refusal:
    """Return the refusal of a submission that no admitted device is proven to have sent."""
    if admission.mode is Mode.MTLS:
        message = (
            "this task takes only devices that show a TLS certificate; submit to the port for devices, with this "
            "device's certificate"
        )
        return Refusal(Reason.NOT_ENROLLED, message)
    message = (
        "no credential proves that an enrolled device sent this submission; redeem the ticket again, and send the same "
        "submission with a new proof"
    )
    return Refusal(Reason.NOT_ENROLLED, message)


def expired(expires: int) -> Refusal:
    """Return the refusal of an expired credential."""
    return Refusal(
        Reason.CREDENTIAL_EXPIRED, f"this device was enrolled until {at(expires)}; ask the operator for a new ticket"
    )


def revoked() -> Refusal:
    """Return the refusal of a revoked device."""
    return Refusal(Reason.REVOKED, "the operator has revoked this device's enrollment; ask the operator why")


def not_countersigned() -> Refusal:
    """Return the refusal of a device whose ticket only the operator signed."""
    message = "this task needs tickets that its second authority signed too; get this device's ticket countersigned"
    return Refusal(Reason.NOT_COUNTERSIGNED, message)
