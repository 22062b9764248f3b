"""Interfaces of the services, over plain values: the services implement them, and `servicers` calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hubbub.protos.cluster import FollowerPosition, KeyringChanges
from hubbub.protos.enrollment.admitted import Admitted, RedeemedTicket, RoundSecrets
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import (
    Answer,
    Committed,
    CredentialAction,
    CredentialStatus,
    Envelopes,
    IncidentReport,
    Redemption,
    RoundStatus,
    Submission,
)
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, ReleaseChunk
from hubbub.protos.records.results import AnalyzerRoundStatus, RoundId, RoundResults
from hubbub.protos.refusals import Reason
from hubbub.protos.rpc.enrollment import Enrolled
from hubbub.protos.sealing.envelope import Destination


class SubmissionHandler(Protocol):
    """What the shuffler does for devices."""

    async def get_round(self, task_id: bytes, round_number: int) -> KeySet:
        """Return the round's signed keys."""

    async def submit(self, destination: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        """Answer each submission, in order; a receipt means that it is on disk."""

    async def enroll(self, redemptions: Sequence[Redemption]) -> list[Enrolled]:
        """Answer each ticket, in order; a credential means that it is on disk by whom the ticket was redeemed."""

    def refused(self, destination: Destination | None, reason: Reason, count: int) -> None:
        """Count submissions that were refused before `submit` was called; None where their destination is unknown."""


class MtlsHandler(SubmissionHandler, Protocol):
    """What the shuffler does for devices, also for those that show a certificate."""

    def showing(self, fingerprint: bytes) -> SubmissionHandler:
        """Return what answers the device whose certificate has this SHA-256 (32 bytes)."""


class ControlHandler(Protocol):
    """What the shuffler does for the operator."""

    async def close_round(self, task_id: bytes, round_number: int) -> RoundStatus:
        """Cut the round now."""

    async def get_status(self, task_id: bytes | None) -> list[RoundStatus]:
        """Return the states of one task's rounds, or of all tasks' rounds."""

    async def get_incidents(self) -> IncidentReport:
        """Return what holds the shuffler up."""

    async def manage_credentials(self, step: CredentialAction, devices: Sequence[bytes]) -> CredentialStatus:
        """Change what devices are admitted with; return how enrollment stands then."""


class DeliveryHandler(Protocol):
    """What the analyzer does for the shuffler."""

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        """Return the analyzer's key record for a round."""

    async def get_releases(self, task_id: bytes) -> Known:
        """Return what is known of a task's releases."""

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk) -> int:
        """Take a batch's announcement, with the releases up to its round's; return the offset to go on from."""

    async def put(self, chunk: Envelopes) -> int:
        """Store a chunk; return the offset to go on from."""

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Open, count and commit the batch."""


class ResultsHandler(Protocol):
    """What the analyzer does for readers."""

    async def get_results(self, task_id: bytes, round_number: int, wait: float) -> RoundResults:
        """Return a round's results, waiting up to `wait` seconds for them."""

    async def list_results(self, task_id: bytes | None) -> list[RoundId]:
        """Return the certified rounds, of one task or of all."""

    async def get_statuses(self, task_id: bytes | None) -> list[AnalyzerRoundStatus]:
        """Return the states of one task's rounds, or of all tasks' rounds."""

    async def get_incidents(self) -> IncidentReport:
        """Return what holds the analyzer up."""


class ReplicationHandler(Protocol):
    """What the leader does for those who stand by."""

    async def follow(self, asked: FollowerPosition) -> KeyringChanges:
        """Return what comes next."""


class LeaderHandler(Protocol):
    """What the leader does for front ends."""

    async def get_secrets(self, task_id: bytes, round_number: int) -> RoundSecrets:
        """Return the secrets of a round."""

    async def get_admitted(self, version: bytes) -> Admitted | None:
        """Return what devices are admitted with; None where that is the version that is known."""

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        """Note tickets as redeemed, and return what is then known of each device, in order."""
