"""Defines the interfaces of the services over plain values; services implement them, and `servicers` calls them."""

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
    ListedTask,
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
from hubbub.protos.task.feed.feed import FeedPage
from hubbub.protos.task.signed_task import SignedTask


class SubmissionHandler(Protocol):
    """The calls of devices to the shuffler."""

    async def get_round(self, task_id: bytes, round_number: int) -> KeySet:
        """Return the round's signed keys."""

    async def submit(self, destination: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        """Answer each submission, in order; a receipt means that the submission is on disk."""

    async def enroll(self, redemptions: Sequence[Redemption]) -> list[Enrolled]:
        """Answer each ticket, in order; a credential means that the redemption of the ticket is on disk."""

    async def get_feed(self, first: int) -> FeedPage:
        """Return entries of the feed of tasks from a number on, as many as fit into a message."""

    def refused(self, destination: Destination | None, reason: Reason, count: int) -> None:
        """Count submissions that were refused before `submit`; `destination` is None if it is unknown."""


class MtlsHandler(SubmissionHandler, Protocol):
    """The calls of devices to the shuffler, including devices that present a certificate."""

    def showing(self, fingerprint: bytes) -> SubmissionHandler:
        """Return the handler for the device whose certificate has this SHA-256 (32 bytes)."""


class ControlHandler(Protocol):
    """The calls of the operator, and of readers, to the shuffler."""

    async def close_round(self, task_id: bytes, round_number: int) -> RoundStatus:
        """Cut the round now."""

    async def get_status(self, task_id: bytes | None) -> list[RoundStatus]:
        """Return the states of one task's rounds, or of all tasks' rounds."""

    async def get_incidents(self) -> IncidentReport:
        """Return the open incidents of the shuffler."""

    async def list_tasks(self) -> list[ListedTask]:
        """Return the tasks that the service knows."""

    async def get_task(self, task_id: bytes) -> SignedTask:
        """Return a task with both signatures."""

    async def manage_credentials(self, step: CredentialAction, devices: Sequence[bytes]) -> CredentialStatus:
        """Change the credentials that admit devices; return the resulting state of enrollment."""


class DeliveryHandler(Protocol):
    """The calls of the shuffler to the analyzer."""

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        """Return the analyzer's key record for a round."""

    async def get_releases(self, task_id: bytes) -> Known:
        """Return the known releases of a task."""

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk) -> int:
        """Accept a batch's announcement, with the releases up to its round; return the next offset to send."""

    async def put(self, chunk: Envelopes) -> int:
        """Store a chunk; return the next offset to send."""

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Open, count and commit the batch."""


class ResultsHandler(Protocol):
    """The calls of readers to the analyzer."""

    async def get_results(self, task_id: bytes, round_number: int, wait: float) -> RoundResults:
        """Return a round's results, waiting up to `wait` seconds for them."""

    async def list_results(self, task_id: bytes | None) -> list[RoundId]:
        """Return the certified rounds, of one task or of all."""

    async def get_statuses(self, task_id: bytes | None) -> list[AnalyzerRoundStatus]:
        """Return the states of one task's rounds, or of all tasks' rounds."""

    async def get_incidents(self) -> IncidentReport:
        """Return the open incidents of the analyzer."""

    async def list_tasks(self) -> list[ListedTask]:
        """Return the tasks that the service knows."""

    async def get_task(self, task_id: bytes) -> SignedTask:
        """Return a task with both signatures."""


class ReplicationHandler(Protocol):
    """The calls of standbys to the leader."""

    async def follow(self, asked: FollowerPosition) -> KeyringChanges:
        """Return the next changes of the keyring."""


class LeaderHandler(Protocol):
    """The calls of front ends to the leader."""

    async def get_secrets(self, task_id: bytes, round_number: int) -> RoundSecrets:
        """Return the secrets of a round."""

    async def get_admitted(self, version: bytes) -> Admitted | None:
        """Return the credentials that admit devices, or None if the caller already has this version."""

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        """Mark tickets as redeemed, and return the resulting redemption of each device, in order."""
