"""Credential: whether the device that a submission is proven to be of may submit to this task now."""

from __future__ import annotations

from hubbub.protos.admission import Admission, Mode
from hubbub.protos.credentials import authority_tag, parted
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.shuffler.checks.check import Arrival, Verdict, all_alike
from hubbub.shuffler.tasks import at


def credential(arrival: Arrival) -> Verdict:
    """CREDENTIAL_EXPIRED, REVOKED, NOT_COUNTERSIGNED. It is asked only of submissions whose proof holds."""
    admission = arrival.task.admission
    if admission.mode is not Mode.ENROLLED:
        return all_alike(None)
    needed = None if admission.second_authority is None else authority_tag(admission.second_authority)

    def verdict(submission: Submission) -> Refusal | None:
        _, expires, authority, number = parted(submission.credential)
        if expires <= arrival.now:
            return expired(expires)
        if number in arrival.revoked:
            return revoked()
        if needed is not None and authority != needed:
            message = "this task wants tickets that its second authority signed too; get this device's countersigned"
            return Refusal(Reason.NOT_COUNTERSIGNED, message)
        return None

    return verdict


def not_enrolled(admission: Admission) -> Refusal:
    """Return the refusal of what no device that is admitted is proven to have sent."""
    if admission.mode is Mode.MTLS:
        message = "this task takes devices that show a certificate, at the port for them; call that one, with yours"
        return Refusal(Reason.NOT_ENROLLED, message)
    message = "this task takes enrolled devices, and no credential proves this submission; redeem a ticket, sign again"
    return Refusal(Reason.NOT_ENROLLED, message)


def expired(expires: int) -> Refusal:
    """Return the refusal of a credential whose time is over."""
    return Refusal(
        Reason.CREDENTIAL_EXPIRED, f"this device was enrolled until {at(expires)}; ask the operator for a new ticket"
    )


def revoked() -> Refusal:
    """Return the refusal of a device that is admitted no more."""
    return Refusal(Reason.REVOKED, "the operator has revoked this device's enrolment; ask the operator why")
