"""Calls the services. A call returns a value, or raises `Refusal`, or `Unreachable` if nobody answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from hubbub.protos import codec
from hubbub.protos.errors import MessageError
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
    Receipt,
    Redemption,
    RoundStatus,
    Submission,
)
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, ReleaseChunk
from hubbub.protos.records.results import AnalyzerRoundStatus, RoundId, RoundResults
from hubbub.protos.rpc.enrollment import (
    Enrolled,
    read_credential_status,
    read_enrolled,
    write_credential_action,
    write_redemptions,
)
from hubbub.protos.rpc.incidents import read_incidents
from hubbub.protos.rpc.releases import read_known, write_begin
from hubbub.protos.rpc.results import read_results
from hubbub.protos.rpc.round_progress import read_round_status
from hubbub.protos.rpc.tasks import read_task, read_tasks
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.feed.feed import FeedPage
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES
from hubbub.protos.transport.https import HTTPSChannel
from hubbub.protos.transport.statuses import call
from hubbub.protos.v1 import (
    control_pb2,
    control_pb2_grpc,
    delivery_pb2,
    delivery_pb2_grpc,
    incidents_pb2,
    results_pb2,
    results_pb2_grpc,
    submission_pb2,
    submission_pb2_grpc,
    tasks_pb2,
)

T = TypeVar("T", bound=Message)


def _round(number: int) -> int:
    return codec.checked_number(number, "the round")


def _fitting(request: T) -> T:
    """Return the request if the other side accepts messages of its size."""
    # gRPC would report it with the status of an overloaded service, and callers would retry.
    if request.ByteSize() > MAXIMUM_MESSAGE_BYTES:
        raise MessageError(f"{request.ByteSize()} bytes in one call; send at most {MAXIMUM_MESSAGE_BYTES}")
    return request


def _receipt_for(destination: Destination, submission: Submission, receipt: Receipt) -> Receipt:
    # A device erases its sealed bytes when it has a receipt: with a receipt for another one, the report would be lost.
    if (receipt.submission_id, receipt.round) != (submission.id, destination.round):
        raise MessageError("the shuffler's receipt is for another submission or round; send the same bytes again")
    return receipt


def _the_task(task_id: bytes, signed: SignedTask) -> SignedTask:
    # Its signatures are checked later, and would be right for another task of the same parties too.
    if signed.task.id != task_id:
        raise MessageError(
            f"the service sent task {signed.task.id.hex()[:16]}… instead of {task_id.hex()[:16]}…; ask its party "
            "which tasks it has"
        )
    return signed


class HTTPSStub:
    """The submission service over HTTPS, with the methods of gRPC's stub."""

    def __init__(self, channel: HTTPSChannel) -> None:
        self._channel = channel

    async def GetRound(  # noqa: N802 - the contract's name
        self,
        request: submission_pb2.GetRoundRequest,
        timeout: float,  # noqa: ASYNC109 - as gRPC's stubs have it
    ) -> submission_pb2.GetRoundResponse:
        """Ask for a round's keys."""
        return await self._channel.unary("GetRound", request, submission_pb2.GetRoundResponse, timeout)

    async def Submit(  # noqa: N802 - the contract's name
        self,
        request: submission_pb2.SubmitRequest,
        timeout: float,  # noqa: ASYNC109 - as gRPC's stubs have it
    ) -> submission_pb2.SubmitResponse:
        """Send a submission."""
        return await self._channel.unary("Submit", request, submission_pb2.SubmitResponse, timeout)

    async def SubmitBatch(  # noqa: N802 - the contract's name
        self,
        request: submission_pb2.SubmitBatchRequest,
        timeout: float,  # noqa: ASYNC109 - as gRPC's stubs have it
    ) -> submission_pb2.SubmitBatchResponse:
        """Send submissions."""
        return await self._channel.unary("SubmitBatch", request, submission_pb2.SubmitBatchResponse, timeout)

    async def Enroll(  # noqa: N802 - the contract's name
        self,
        request: submission_pb2.EnrollRequest,
        timeout: float,  # noqa: ASYNC109 - as gRPC's stubs have it
    ) -> submission_pb2.EnrollResponse:
        """Redeem tickets."""
        return await self._channel.unary("Enroll", request, submission_pb2.EnrollResponse, timeout)

    async def GetFeed(  # noqa: N802 - the contract's name
        self,
        request: submission_pb2.GetFeedRequest,
        timeout: float,  # noqa: ASYNC109 - as gRPC's stubs have it
    ) -> submission_pb2.GetFeedResponse:
        """Ask for entries of the feed of tasks."""
        return await self._channel.unary("GetFeed", request, submission_pb2.GetFeedResponse, timeout)


_SUBMISSION = "port for devices (7301)"
_CONTROL = "control port (7302)"
_DELIVERY = "delivery port (7401, or a hop's 7501)"
_RESULTS = "results port (7402)"
"""The ports, as errors name them, with the numbers of the samples."""


class SubmissionCaller:
    """The shuffler as devices and gateways see it. Deadlines are seconds."""

    def __init__(self, channel: grpc.aio.Channel | HTTPSChannel, what: str = "the shuffler") -> None:
        """Call over gRPC or HTTPS: the calls, their results and their errors are the same; errors name it as `what`."""
        self._what = what
        self._stub = (
            HTTPSStub(channel)
            if isinstance(channel, HTTPSChannel)
            else submission_pb2_grpc.SubmissionServiceStub(channel)
        )

    async def get_round(self, task_id: bytes, round_number: int, deadline: float) -> KeySet:
        """Return the round's keys; their signatures are still to be checked."""
        request = submission_pb2.GetRoundRequest(task_id=task_id, round=_round(round_number))
        answer = await call(self._stub.GetRound(request, timeout=deadline), self._what, _SUBMISSION)
        return codec.read_key_set(answer.key_set)

    async def get_feed(self, first: int, deadline: float) -> FeedPage:
        """Return entries of the feed of tasks from a number on; order and signatures are still to be checked."""
        request = submission_pb2.GetFeedRequest(first=first)
        answer = await call(self._stub.GetFeed(request, timeout=deadline), self._what, _SUBMISSION)
        return FeedPage(tuple(answer.entries), tuple(answer.successions))

    async def submit(self, destination: Destination, submission: Submission, deadline: float) -> Receipt:
        """Send one submission; return its receipt.

        Raises:
            MessageError: if the receipt is for another submission or round.
        """
        request = submission_pb2.SubmitRequest(
            destination=codec.write_destination(destination), submission=codec.write_submission(submission)
        )
        answer = await call(self._stub.Submit(_fitting(request), timeout=deadline), self._what, _SUBMISSION)
        return _receipt_for(destination, submission, codec.read_receipt(answer.receipt))

    async def submit_batch(
        self, destination: Destination, submissions: Sequence[Submission], deadline: float
    ) -> list[Answer]:
        """Send many submissions; each gets its own answer, in order.

        Raises:
            MessageError: if they do not fit into one call, or an answer does not belong to its submission.
        """
        request = submission_pb2.SubmitBatchRequest(
            destination=codec.write_destination(destination),
            submissions=[codec.write_submission(submission) for submission in submissions],
        )
        response = await call(self._stub.SubmitBatch(_fitting(request), timeout=deadline), self._what, _SUBMISSION)
        if len(response.answers) != len(submissions):
            raise MessageError(
                f"{len(response.answers)} answers came to {len(submissions)} submissions; install the same hubbub on "
                "both sides"
            )
        answers = codec.read_answers(response)
        for submission, answer in zip(submissions, answers, strict=True):
            if isinstance(answer, Receipt):
                _receipt_for(destination, submission, answer)
        return answers

    async def enroll(self, redemptions: Sequence[Redemption], deadline: float) -> list[Enrolled]:
        """Redeem tickets; each gets its own answer, in order.

        Raises:
            MessageError: if there are not as many answers as tickets.
        """
        response = await call(
            self._stub.Enroll(write_redemptions(redemptions), timeout=deadline), self._what, _SUBMISSION
        )
        answers = read_enrolled(response)
        if len(answers) != len(redemptions):
            raise MessageError(
                f"{len(answers)} answers came to {len(redemptions)} tickets; install the same hubbub on both sides"
            )
        return answers


class ControlCaller:
    """The shuffler as the operator and readers see it. Deadlines are seconds."""

    def __init__(self, channel: grpc.aio.Channel, what: str = "the shuffler") -> None:
        """Call over gRPC; errors name the other side as `what`."""
        self._what = what
        self._stub = control_pb2_grpc.RoundControlServiceStub(channel)

    async def close_round(self, task_id: bytes, round_number: int, deadline: float) -> RoundStatus:
        """Cut a round now."""
        request = control_pb2.CloseRoundRequest(task_id=task_id, round=_round(round_number))
        answer = await call(self._stub.CloseRound(request, timeout=deadline), self._what, _CONTROL)
        return codec.read_status(answer.status)

    async def get_status(self, task_id: bytes | None, deadline: float) -> list[RoundStatus]:
        """Return the states of one task's rounds, or of all tasks' rounds."""
        request = control_pb2.GetStatusRequest(task_id=task_id or b"")
        answer = await call(self._stub.GetStatus(request, timeout=deadline), self._what, _CONTROL)
        return [codec.read_status(status) for status in answer.rounds]

    async def get_incidents(self, deadline: float) -> IncidentReport:
        """Return the open incidents of the shuffler."""
        request = incidents_pb2.GetIncidentsRequest()
        return read_incidents(await call(self._stub.GetIncidents(request, timeout=deadline), self._what, _CONTROL))

    async def list_tasks(self, deadline: float) -> list[ListedTask]:
        """Return the tasks that the shuffler knows."""
        request = tasks_pb2.ListTasksRequest()
        return read_tasks(await call(self._stub.ListTasks(request, timeout=deadline), self._what, _CONTROL))

    async def get_task(self, task_id: bytes, deadline: float) -> SignedTask:
        """Return a task; its signatures are still to be checked."""
        request = tasks_pb2.GetTaskRequest(task_id=task_id)
        answer = await call(self._stub.GetTask(request, timeout=deadline), self._what, _CONTROL)
        return _the_task(task_id, read_task(answer))

    async def manage_credentials(
        self, step: CredentialAction, devices: Sequence[bytes], deadline: float
    ) -> CredentialStatus:
        """Change the credentials that admit devices; return the resulting state of enrollment."""
        request = _fitting(write_credential_action((step, devices)))
        answer = await call(self._stub.ManageCredentials(request, timeout=deadline), self._what, _CONTROL)
        return read_credential_status(answer)


class DeliveryCaller:
    """The analyzer as the shuffler sees it. Deadlines are seconds."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = delivery_pb2_grpc.DeliveryServiceStub(channel)

    async def get_key(self, task_id: bytes, round_number: int, deadline: float) -> SignedDocument:
        """Return the analyzer's key record for a round; its signature is still to be checked."""
        request = delivery_pb2.GetKeyRequest(task_id=task_id, round=_round(round_number))
        answer = await call(self._stub.GetKey(request, timeout=deadline), "the analyzer", _DELIVERY)
        return codec.read_key_record(answer.record)

    async def get_releases(self, task_id: bytes, deadline: float) -> Known:
        request = delivery_pb2.GetReleasesRequest(task_id=task_id)
        return read_known(await call(self._stub.GetReleases(request, timeout=deadline), "the analyzer", _DELIVERY))

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk, deadline: float) -> int:
        request = _fitting(write_begin((record, key_set, releases)))
        return (await call(self._stub.BeginDelivery(request, timeout=deadline), "the analyzer", _DELIVERY)).next_offset

    async def put(self, chunk: Envelopes, deadline: float) -> int:
        request = _fitting(codec.write_envelopes(chunk))
        return (await call(self._stub.PutEnvelopes(request, timeout=deadline), "the analyzer", _DELIVERY)).next_offset

    async def commit(self, batch: BatchId, digest: bytes, deadline: float) -> Committed:
        """Let the analyzer open, count and commit the batch."""
        request = delivery_pb2.CommitDeliveryRequest(batch=codec.write_batch_id(batch), digest=digest)
        return codec.read_committed(
            await call(self._stub.CommitDelivery(request, timeout=deadline), "the analyzer", _DELIVERY)
        )


class ResultsCaller:
    """The analyzer as readers see it. Deadlines are seconds."""

    def __init__(self, channel: grpc.aio.Channel, what: str = "the analyzer") -> None:
        """Call over gRPC; errors name the other side as `what`."""
        self._what = what
        self._stub = results_pb2_grpc.ResultsServiceStub(channel)

    async def get_results(self, task_id: bytes, round_number: int, wait: float, deadline: float) -> RoundResults:
        """Return a round's results, waiting up to `wait` seconds for them."""
        request = results_pb2.GetResultsRequest(task_id=task_id, round=_round(round_number), wait_seconds=wait)
        answer = await call(self._stub.GetResults(request, timeout=deadline), self._what, _RESULTS)
        return read_results(answer.results)

    async def list_results(self, task_id: bytes | None, deadline: float) -> list[RoundId]:
        """Return the certified rounds, of one task or of all."""
        request = results_pb2.ListResultsRequest(task_id=task_id or b"")
        answer = await call(self._stub.ListResults(request, timeout=deadline), self._what, _RESULTS)
        return [codec.read_round_id(round_id) for round_id in answer.rounds]

    async def get_statuses(self, task_id: bytes | None, deadline: float) -> list[AnalyzerRoundStatus]:
        """Return the states of one task's rounds, or of all tasks' rounds."""
        request = results_pb2.GetStatusesRequest(task_id=task_id or b"")
        answer = await call(self._stub.GetStatuses(request, timeout=deadline), self._what, _RESULTS)
        return [read_round_status(status) for status in answer.rounds]

    async def get_incidents(self, deadline: float) -> IncidentReport:
        """Return the open incidents of the analyzer."""
        request = incidents_pb2.GetIncidentsRequest()
        return read_incidents(await call(self._stub.GetIncidents(request, timeout=deadline), self._what, _RESULTS))

    async def list_tasks(self, deadline: float) -> list[ListedTask]:
        """Return the tasks that the analyzer knows."""
        request = tasks_pb2.ListTasksRequest()
        return read_tasks(await call(self._stub.ListTasks(request, timeout=deadline), self._what, _RESULTS))

    async def get_task(self, task_id: bytes, deadline: float) -> SignedTask:
        """Return a task; its signatures are still to be checked."""
        request = tasks_pb2.GetTaskRequest(task_id=task_id)
        answer = await call(self._stub.GetTask(request, timeout=deadline), self._what, _RESULTS)
        return _the_task(task_id, read_task(answer))
