"""Every call of every service, from the bytes of its request to the bytes of its answer, with a handler that says yes.

Whatever a caller sends is answered, or refused with a reason: a call never ends as INTERNAL, which says that the
service itself failed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from hubbub.protos.enrollment.credentials import CREDENTIAL_BYTES, KEY_BYTES, Credential
from hubbub.protos.errors import MessageError
from hubbub.protos.messages import CredentialStatus, KeyState, MasterKey
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.feed.feed import FeedPage
from hubbub.protos.v1 import control_pb2, delivery_pb2, leader_pb2, replication_pb2, results_pb2, submission_pb2
from hubbub.service.rpc import servicers as serving
from hubbub.service.rpc.pipeline import Method
from hubbub.service.rpc.size_limits import Call

MODULES: dict[str, ModuleType] = {
    "SubmissionService": submission_pb2,
    "RoundControlService": control_pb2,
    "DeliveryService": delivery_pb2,
    "ResultsService": results_pb2,
    "ReplicationService": replication_pb2,
    "LeaderService": leader_pb2,
}
"""The contract's services, by name, with the module of their messages."""

OPERATOR = "operator"


class Context:
    """The context of a call by the operator."""

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_common_name": [OPERATOR.encode()]}


class Willing:
    """A handler that does nothing and answers with the samples."""

    def __init__(self, samples: dict[str, Any]) -> None:
        self._samples = samples

    async def get_round(self, *_: Any) -> Any:
        return self._samples["key_set"]

    async def submit(self, _destination: Any, submissions: Any) -> Any:
        kinds = (self._samples["receipt"], self._samples["answer"])
        return [kinds[submission.id[0] % 2] for submission in submissions]

    async def enroll(self, redemptions: Any) -> Any:
        kinds = (Credential(bytes(CREDENTIAL_BYTES), bytes(KEY_BYTES)), Refusal(Reason.TICKET_REDEEMED, "redeemed"))
        return [kinds[redemption.device_key[0] % 2] for redemption in redemptions]

    async def get_feed(self, *_: Any) -> Any:
        return FeedPage((b"an entry",), (b"a succession",))

    async def manage_credentials(self, *_: Any) -> Any:
        return CredentialStatus((MasterKey(1, KeyState.ACTIVE, 5, "ab"),), 5, 1)

    def refused(self, *_: Any) -> None:
        """Count nothing."""

    async def close_round(self, *_: Any) -> Any:
        return self._samples["status"]

    async def get_status(self, *_: Any) -> Any:
        return [self._samples["status"]]

    async def get_key(self, *_: Any) -> Any:
        return self._samples["document"]

    async def get_releases(self, *_: Any) -> Any:
        return self._samples["known"]

    async def begin(self, *_: Any) -> int:
        return 0

    async def put(self, chunk: Any) -> int:
        return int(chunk.offset) % 2**63

    async def commit(self, *_: Any) -> Any:
        return self._samples["committed"]

    async def get_results(self, *_: Any) -> Any:
        return self._samples["results"]

    async def list_results(self, *_: Any) -> Any:
        return [self._samples["round_id"]]

    async def get_statuses(self, *_: Any) -> Any:
        return [self._samples["round_status"]]

    async def get_secrets(self, *_: Any) -> Any:
        return self._samples["secrets"]

    async def get_admitted(self, *_: Any) -> Any:
        return self._samples["admitted"]

    async def redeem(self, tickets: Any) -> Any:
        return tickets

    async def follow(self, *_: Any) -> Any:
        return self._samples["replication_reply"]

    async def list_tasks(self) -> Any:
        return self._samples["tasks"]

    async def get_task(self, _task_id: bytes) -> Any:
        return self._samples["task"]

    async def get_incidents(self) -> Any:
        return self._samples["incidents"]


def methods(samples: dict[str, Any]) -> dict[str, dict[str, tuple[Call, Method]]]:
    """The calls of `wire`, by service, over the willing handler."""
    handler = Willing(samples)
    servicers = {
        "SubmissionService": serving._SubmissionServicer(handler),
        "RoundControlService": serving._ControlServicer(handler),
        "DeliveryService": serving._DeliveryServicer(handler),
        "ResultsService": serving._ResultsServicer(handler),
        "ReplicationService": serving._ReplicationServicer(handler),
        "LeaderService": serving._LeaderServicer(handler),
    }
    return {service: serving.methods_of(service, servicer) for service, servicer in servicers.items()}


def requests() -> dict[str, tuple[str, type[Message]]]:
    """Every call of the contract with its service and the type of its request."""
    return {
        method.name: (service, GetMessageClass(method.input_type))
        for service, module in MODULES.items()
        for method in module.DESCRIPTOR.services_by_name[service].methods
    }


def caller(samples: dict[str, Any], name: str) -> Callable[[bytes], None]:
    """Return what makes a call with the bytes of a request.

    Raises:
        MessageError: where the request is refused, as it may be.
    """
    service, _ = requests()[name]
    call, method = methods(samples)[service][name]

    def accept(data: bytes) -> None:
        # Anything but a refusal would be answered INTERNAL.
        try:
            answered(method(call.decode(data), Context())).SerializeToString()
        except Refusal as refusal:
            raise MessageError(str(refusal)) from refusal

    return accept


def answered(pending: Coroutine[Any, Any, Message]) -> Message:
    """Run a coroutine that never waits; an event loop would only take time."""
    try:
        pending.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise RuntimeError("a handler of the fuzzer waited")
