"""Reads each request, calls its handler and writes the answer; `pipeline` calls these servicers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence

import grpc
from cryptography import x509

from hubbub.protos import codec
from hubbub.protos.enrollment.admitted import Admitted
from hubbub.protos.errors import MessageError
from hubbub.protos.messages import Answer
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc.enrollment import (
    read_credential_action,
    read_redemptions,
    write_credential_status,
    write_enrolled,
)
from hubbub.protos.rpc.incidents import write_incidents
from hubbub.protos.rpc.leader import (
    read_tickets,
    read_version,
    write_admitted,
    write_redeemed,
    write_secrets,
)
from hubbub.protos.rpc.releases import read_begin, write_known
from hubbub.protos.rpc.replication import read_replication_request, write_replication_reply
from hubbub.protos.rpc.results import write_results
from hubbub.protos.rpc.round_progress import write_round_status
from hubbub.protos.rpc.tasks import write_task, write_tasks
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.channels import MAXIMUM_RESULTS_BYTES, MAXIMUM_SUBMISSIONS
from hubbub.protos.transport.roles import OPERATORS, READER
from hubbub.protos.transport.statuses import Context
from hubbub.protos.v1 import (
    control_pb2,
    control_pb2_grpc,
    delivery_pb2,
    delivery_pb2_grpc,
    incidents_pb2,
    leader_pb2,
    replication_pb2,
    results_pb2,
    results_pb2_grpc,
    submission_pb2,
    submission_pb2_grpc,
    tasks_pb2,
)
from hubbub.service.rpc.connect import ConnectRouter
from hubbub.service.rpc.handlers import (
    ControlHandler,
    DeliveryHandler,
    LeaderHandler,
    MtlsHandler,
    ReplicationHandler,
    ResultsHandler,
    SubmissionHandler,
)
from hubbub.service.rpc.pipeline import Method, RequestPipeline
from hubbub.service.rpc.size_limits import Call, calls_of

_OF_SUBMISSIONS = frozenset({"Submit", "SubmitBatch"})
"""Calls whose requests are submissions; malformed ones are counted."""


class _SubmissionServicer(submission_pb2_grpc.SubmissionServiceServicer):
    def __init__(self, handler: SubmissionHandler) -> None:
        self._handler = handler

    def _handler_of(self, _context: Context) -> SubmissionHandler:
        """Return the handler of a call."""
        return self._handler

    async def GetRound(  # noqa: N802 - gRPC's name
        self, request: submission_pb2.GetRoundRequest, context: Context
    ) -> submission_pb2.GetRoundResponse:
        key_set = await self._handler_of(context).get_round(codec.read_task_id(request.task_id), request.round)
        return submission_pb2.GetRoundResponse(key_set=codec.write_key_set(key_set))

    async def Submit(  # noqa: N802 - gRPC's name
        self, request: submission_pb2.SubmitRequest, context: Context
    ) -> submission_pb2.SubmitResponse:
        handler = self._handler_of(context)
        destination = _destination(handler, request.destination, 1)
        (answer,) = await _answer_each(handler, destination, [request.submission])
        if isinstance(answer, Refusal):
            # A new refusal: calls may share the stored one, and its traceback would keep their requests alive.
            raise Refusal(answer.reason, answer.message, answer.retry_after)
        return submission_pb2.SubmitResponse(receipt=codec.write_receipt(answer))

    async def SubmitBatch(  # noqa: N802 - gRPC's name
        self, request: submission_pb2.SubmitBatchRequest, context: Context
    ) -> submission_pb2.SubmitBatchResponse:
        handler = self._handler_of(context)
        destination = _destination(handler, request.destination, len(request.submissions))
        answers = await _answer_each(handler, destination, request.submissions)
        return codec.write_answers(answers)

    async def Enroll(  # noqa: N802 - gRPC's name
        self, request: submission_pb2.EnrollRequest, context: Context
    ) -> submission_pb2.EnrollResponse:
        return write_enrolled(await self._handler_of(context).enroll(read_redemptions(request)))

    async def GetFeed(  # noqa: N802 - gRPC's name
        self, request: submission_pb2.GetFeedRequest, context: Context
    ) -> submission_pb2.GetFeedResponse:
        page = await self._handler_of(context).get_feed(request.first)
        return submission_pb2.GetFeedResponse(entries=page.entries, successions=page.successions)


class _MtlsServicer(_SubmissionServicer):
    """Answers devices with a certificate, which TLS has checked; each is known by the SHA-256 of its signed part.

    The issuer's signature is left out of the hash: anybody can make a second valid ECDSA signature from one.
    """

    def __init__(self, handler: MtlsHandler) -> None:
        super().__init__(handler)
        self._mtls_handler = handler

    def _handler_of(self, context: Context) -> SubmissionHandler:
        (pem,) = context.auth_context()["x509_pem_cert"]
        issued = x509.load_pem_x509_certificate(pem).tbs_certificate_bytes
        return self._mtls_handler.showing(hashlib.sha256(issued).digest())


def _destination(handler: SubmissionHandler, message: submission_pb2.Destination, count: int) -> Destination:
    """Return the destination of `count` submissions; if it cannot be read, count all of them as malformed."""
    try:
        return codec.read_destination(message)
    except MessageError:
        handler.refused(None, Reason.MALFORMED, count)
        raise


async def _answer_each(
    handler: SubmissionHandler, destination: Destination, messages: Sequence[submission_pb2.Submission]
) -> list[Answer]:
    """Answer each submission by itself: a malformed one is refused, and the others of the call are still accepted."""
    if len(messages) > MAXIMUM_SUBMISSIONS:
        handler.refused(destination, Reason.MALFORMED, len(messages))
        raise MessageError(f"{len(messages)} submissions in one call; send at most {MAXIMUM_SUBMISSIONS}")
    found = codec.submissions_of(messages)
    submissions = [submission for submission in found if submission is not None]
    if len(submissions) < len(messages):
        handler.refused(destination, Reason.MALFORMED, len(messages) - len(submissions))
    handled = await handler.submit(destination, submissions) if submissions else []
    # Answers are matched to submissions by position: with one missing, a device would get another one's receipt.
    if len(handled) != len(submissions):
        raise RuntimeError(f"{len(handled)} answers to {len(submissions)} submissions")
    if len(submissions) == len(messages):
        return handled
    remaining, fault = iter(handled), _Faults()
    return [fault(message) if each is None else next(remaining) for message, each in zip(messages, found, strict=True)]


class _Faults:
    """Refusals of malformed submissions, shared by all with the same fault.

    A refusal for each would cost far more than sending the submissions.
    """

    def __init__(self) -> None:
        self._made: dict[int, Refusal] = {}

    def __call__(self, message: submission_pb2.Submission) -> Refusal:
        length = len(message.id)
        if length not in self._made:
            try:
                codec.read_submission(message)
            except MessageError as error:
                self._made[length] = Refusal(Reason.MALFORMED, str(error))
        return self._made[length]


class _ControlServicer(control_pb2_grpc.RoundControlServiceServicer):
    def __init__(self, handler: ControlHandler) -> None:
        self._handler = handler

    async def CloseRound(  # noqa: N802 - gRPC's name
        self, request: control_pb2.CloseRoundRequest, _context: Context
    ) -> control_pb2.CloseRoundResponse:
        status = await self._handler.close_round(codec.read_task_id(request.task_id), request.round)
        return control_pb2.CloseRoundResponse(status=codec.write_status(status))

    async def GetStatus(  # noqa: N802 - gRPC's name
        self, request: control_pb2.GetStatusRequest, _context: Context
    ) -> control_pb2.GetStatusResponse:
        statuses = await self._handler.get_status(_optional_task(request.task_id))
        return control_pb2.GetStatusResponse(rounds=[codec.write_status(status) for status in statuses])

    async def GetIncidents(  # noqa: N802 - gRPC's name
        self, _request: incidents_pb2.GetIncidentsRequest, _context: Context
    ) -> incidents_pb2.GetIncidentsResponse:
        return write_incidents(await self._handler.get_incidents())

    async def ListTasks(  # noqa: N802 - gRPC's name
        self, _request: tasks_pb2.ListTasksRequest, _context: Context
    ) -> tasks_pb2.ListTasksResponse:
        return write_tasks(await self._handler.list_tasks())

    async def GetTask(  # noqa: N802 - gRPC's name
        self, request: tasks_pb2.GetTaskRequest, _context: Context
    ) -> tasks_pb2.GetTaskResponse:
        return write_task(await self._handler.get_task(codec.read_task_id(request.task_id)))

    async def ManageCredentials(  # noqa: N802 - gRPC's name
        self, request: control_pb2.ManageCredentialsRequest, _context: Context
    ) -> control_pb2.ManageCredentialsResponse:
        return write_credential_status(await self._handler.manage_credentials(*read_credential_action(request)))


class _DeliveryServicer(delivery_pb2_grpc.DeliveryServiceServicer):
    def __init__(self, handler: DeliveryHandler) -> None:
        self._handler = handler

    async def GetKey(  # noqa: N802 - gRPC's name
        self, request: delivery_pb2.GetKeyRequest, _context: Context
    ) -> delivery_pb2.GetKeyResponse:
        record = await self._handler.get_key(codec.read_task_id(request.task_id), request.round)
        return delivery_pb2.GetKeyResponse(record=codec.write_key_record(record))

    async def GetReleases(  # noqa: N802 - gRPC's name
        self, request: delivery_pb2.GetReleasesRequest, _context: Context
    ) -> delivery_pb2.GetReleasesResponse:
        return write_known(await self._handler.get_releases(codec.read_task_id(request.task_id)))

    async def BeginDelivery(  # noqa: N802 - gRPC's name
        self, request: delivery_pb2.BeginDeliveryRequest, _context: Context
    ) -> delivery_pb2.BeginDeliveryResponse:
        return delivery_pb2.BeginDeliveryResponse(next_offset=await self._handler.begin(*read_begin(request)))

    async def PutEnvelopes(  # noqa: N802 - gRPC's name
        self, request: delivery_pb2.PutEnvelopesRequest, _context: Context
    ) -> delivery_pb2.PutEnvelopesResponse:
        offset = await self._handler.put(codec.read_envelopes(request))
        return delivery_pb2.PutEnvelopesResponse(next_offset=offset)

    async def CommitDelivery(  # noqa: N802 - gRPC's name
        self, request: delivery_pb2.CommitDeliveryRequest, _context: Context
    ) -> delivery_pb2.CommitDeliveryResponse:
        batch, digest = codec.read_batch_id(request.batch), codec.read_digest(request.digest)
        return codec.write_committed(await self._handler.commit(batch, digest))


def _sendable(response: results_pb2.GetResultsResponse) -> results_pb2.GetResultsResponse:
    """Return the response if readers accept its size; gRPC's own error would look like an overload."""
    size = response.ByteSize()
    if size > MAXIMUM_RESULTS_BYTES:
        raise Refusal(
            Reason.TOO_LARGE,
            f"round {response.results.id.round} has {size} bytes of results, but a message has at most "
            f"{MAXIMUM_RESULTS_BYTES}; they stay in the store. In the next task, ask fewer people in each round for "
            "a text, or use fewer categories",
        )
    return response


class _ResultsServicer(results_pb2_grpc.ResultsServiceServicer):
    def __init__(self, handler: ResultsHandler) -> None:
        self._handler = handler

    async def GetResults(  # noqa: N802 - gRPC's name
        self, request: results_pb2.GetResultsRequest, _context: Context
    ) -> results_pb2.GetResultsResponse:
        task_id = codec.read_task_id(request.task_id)
        wait = codec.read_wait(request.wait_seconds)
        results = await self._handler.get_results(task_id, request.round, wait)
        return _sendable(results_pb2.GetResultsResponse(results=write_results(results)))

    async def ListResults(  # noqa: N802 - gRPC's name
        self, request: results_pb2.ListResultsRequest, _context: Context
    ) -> results_pb2.ListResultsResponse:
        rounds = await self._handler.list_results(_optional_task(request.task_id))
        return results_pb2.ListResultsResponse(rounds=[codec.write_round_id(round_id) for round_id in rounds])

    async def GetStatuses(  # noqa: N802 - gRPC's name
        self, request: results_pb2.GetStatusesRequest, _context: Context
    ) -> results_pb2.GetStatusesResponse:
        rounds = await self._handler.get_statuses(_optional_task(request.task_id))
        return results_pb2.GetStatusesResponse(rounds=[write_round_status(status) for status in rounds])

    async def GetIncidents(  # noqa: N802 - gRPC's name
        self, _request: incidents_pb2.GetIncidentsRequest, _context: Context
    ) -> incidents_pb2.GetIncidentsResponse:
        return write_incidents(await self._handler.get_incidents())

    async def ListTasks(  # noqa: N802 - gRPC's name
        self, _request: tasks_pb2.ListTasksRequest, _context: Context
    ) -> tasks_pb2.ListTasksResponse:
        return write_tasks(await self._handler.list_tasks())

    async def GetTask(  # noqa: N802 - gRPC's name
        self, request: tasks_pb2.GetTaskRequest, _context: Context
    ) -> tasks_pb2.GetTaskResponse:
        return write_task(await self._handler.get_task(codec.read_task_id(request.task_id)))


class _ReplicationServicer:
    def __init__(self, handler: ReplicationHandler) -> None:
        self._handler = handler

    async def Follow(  # noqa: N802 - gRPC's name
        self, request: replication_pb2.FollowRequest, _context: Context
    ) -> replication_pb2.FollowResponse:
        return write_replication_reply(await self._handler.follow(read_replication_request(request)))


class _LeaderServicer:
    def __init__(self, handler: LeaderHandler) -> None:
        self._handler = handler

    async def GetSecrets(  # noqa: N802 - gRPC's name
        self, request: leader_pb2.GetSecretsRequest, _context: Context
    ) -> leader_pb2.GetSecretsResponse:
        return write_secrets(await self._handler.get_secrets(codec.read_task_id(request.task_id), request.round))

    async def GetAdmitted(  # noqa: N802 - gRPC's name
        self, request: leader_pb2.GetAdmittedRequest, _context: Context
    ) -> leader_pb2.GetAdmittedResponse:
        version = read_version(request)
        return write_admitted(await self._handler.get_admitted(version) or Admitted(version))

    async def RedeemTickets(  # noqa: N802 - gRPC's name
        self, request: leader_pb2.RedeemTicketsRequest, _context: Context
    ) -> leader_pb2.RedeemTicketsResponse:
        return write_redeemed(await self._handler.redeem(read_tickets(request)))


def _optional_task(task_id: bytes) -> bytes | None:
    return codec.read_task_id(task_id) if task_id else None


def serve_submissions(
    server: grpc.aio.Server,
    handler: SubmissionHandler,
    pipeline: RequestPipeline | None = None,
    envelope_bytes: int | None = None,
) -> None:
    """Answer devices on this server; `envelope_bytes` is the length of their longest envelope."""
    _serve_devices(server, _SubmissionServicer(handler), handler, pipeline, envelope_bytes)


def serve_mtls(
    server: grpc.aio.Server,
    handler: MtlsHandler,
    pipeline: RequestPipeline | None = None,
    envelope_bytes: int | None = None,
) -> None:
    """Answer devices on this server, whose server credentials must require certificates."""
    _serve_devices(server, _MtlsServicer(handler), handler, pipeline, envelope_bytes)


def submission_router(
    handler: SubmissionHandler,
    pipeline: RequestPipeline,
    envelope_bytes: int | None = None,
    make: Callable[..., ConnectRouter] = ConnectRouter,
) -> ConnectRouter:
    """Return the calls of devices for the HTTPS port: the same methods, with the same limits."""
    methods = methods_of("SubmissionService", _SubmissionServicer(handler), envelope_bytes)
    return make("hubbub.v1.SubmissionService", methods, pipeline, _counting(handler))


def _serve_devices(
    server: grpc.aio.Server,
    servicer: _SubmissionServicer,
    handler: SubmissionHandler,
    pipeline: RequestPipeline | None,
    envelope_bytes: int | None,
) -> None:
    methods = methods_of("SubmissionService", servicer, envelope_bytes)
    (pipeline or RequestPipeline()).serve(server, "hubbub.v1.SubmissionService", methods, malformed=_counting(handler))


def _counting(handler: SubmissionHandler) -> Callable[[str, int], None]:
    """Return a function that counts malformed requests of calls that carry submissions."""

    def malformed(call: str, count: int) -> None:
        if call in _OF_SUBMISSIONS:
            handler.refused(None, Reason.MALFORMED, count)

    return malformed


CHANGES = frozenset({"CloseRound", "ManageCredentials"})
"""Calls of the control port that change something, or show which devices are admitted: the operator's alone."""


def serve_control(
    server: grpc.aio.Server,
    handler: ControlHandler,
    operators: Collection[str] = OPERATORS,
    readers: Collection[str] = frozenset({READER}),
    pipeline: RequestPipeline | None = None,
) -> None:
    """Answer certificates whose role is among `operators`; all calls but `CHANGES` also those of `readers`."""
    methods = methods_of("RoundControlService", _ControlServicer(handler))
    allowed = {name: operators if name in CHANGES else {*operators, *readers} for name in methods}
    (pipeline or RequestPipeline()).serve(server, "hubbub.v1.RoundControlService", methods, allowed=allowed)


def serve_delivery(
    server: grpc.aio.Server, handler: DeliveryHandler, allowed: Collection[str], pipeline: RequestPipeline | None = None
) -> None:
    """Answer those whose certificate's role is among `allowed`."""
    _serve(server, "DeliveryService", _DeliveryServicer(handler), allowed, pipeline)


def serve_results(
    server: grpc.aio.Server, handler: ResultsHandler, allowed: Collection[str], pipeline: RequestPipeline | None = None
) -> None:
    """Answer those whose certificate's role is among `allowed`."""
    _serve(server, "ResultsService", _ResultsServicer(handler), allowed, pipeline)


def serve_replication(
    server: grpc.aio.Server,
    handler: ReplicationHandler,
    allowed: Collection[str],
    pipeline: RequestPipeline | None = None,
) -> None:
    """Answer those whose certificate's role is among `allowed`."""
    _serve(server, "ReplicationService", _ReplicationServicer(handler), allowed, pipeline)


def serve_leader(
    server: grpc.aio.Server, handler: LeaderHandler, allowed: Collection[str], pipeline: RequestPipeline | None = None
) -> None:
    """Answer those whose certificate's role is among `allowed`."""
    _serve(server, "LeaderService", _LeaderServicer(handler), allowed, pipeline)


def _serve(
    server: grpc.aio.Server, service: str, servicer: object, allowed: Collection[str], pipeline: RequestPipeline | None
) -> None:
    methods = methods_of(service, servicer)
    roles = dict.fromkeys(methods, allowed)
    (pipeline or RequestPipeline()).serve(server, f"hubbub.v1.{service}", methods, allowed=roles)


def methods_of(service: str, servicer: object, envelope_bytes: int | None = None) -> dict[str, tuple[Call, Method]]:
    """Return each call of a service with its method."""
    calls = calls_of(service, envelope_bytes)
    return {name: (call, getattr(servicer, name)) for name, call in calls.items()}
