"""Passes each call from its bytes to its handler, through every limit of its port, cheapest limit first.

The caller's certificate is checked first. Then the message is awaited, counted and parsed; bytes over a limit are
never parsed. gRPC is given no parser, does not decompress, and receives nothing above the largest request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import Message

from hubbub.protos import codec
from hubbub.protos.errors import MessageError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.roles import READER, role_of
from hubbub.protos.transport.statuses import STATUS, Context, metadata_of
from hubbub.service.rpc.caller_access import LookLog, checked_caller
from hubbub.service.rpc.concurrency import AdmissionControl, PortLimit, PortLimits
from hubbub.service.rpc.field_counts import TooMany, TooShort
from hubbub.service.rpc.revoked_readers import RevokedReaders
from hubbub.service.rpc.size_limits import Call, Compressed, TooLarge

Method = Callable[[Any, Any], Coroutine[Any, Any, Message]]
"""Answers a parsed request; it receives gRPC's context, or None if the call came over HTTPS."""

_LOG = logging.getLogger(__name__)
_BY_FAULT = {
    TooMany: PortLimit.COUNT,
    TooShort: PortLimit.COUNT,
    TooLarge: PortLimit.SIZE,
    Compressed: PortLimit.COMPRESSED,
}


def _never() -> bool:
    return False


def _unknown() -> int:
    return 0


def _nothing(_call: str, _count: int) -> None:
    """Count nothing."""


class IncomingCall(NamedTuple):
    """A call that has begun: its method, and the names under which its slots and bytes are counted."""

    call: Call
    method: Method
    malformed: Callable[[str, int], None]
    """Called for each malformed request with the name of its call and its number of elements."""
    peer: str
    """The connection of the call."""
    connection: str
    """The same if connections share bytes; otherwise empty."""
    caller: str = ""
    """The name in the caller's certificate, if the port requires one."""


class RequestPipeline:
    """Admits and answers a port's calls.

    `full` returns whether the process has no memory for more calls, `held` how many bytes it uses.
    """

    def __init__(
        self, limits: PortLimits | None = None, full: Callable[[], bool] = _never, held: Callable[[], int] = _unknown
    ) -> None:
        self.admission = AdmissionControl(limits or PortLimits(), held)
        self.full = full
        self.looks = LookLog()
        self.revoked: RevokedReaders | None = None
        """Readers that this port refuses; None if no reader may call it."""

    def serve(
        self,
        server: grpc.aio.Server,
        service: str,
        methods: Mapping[str, tuple[Call, Method]],
        *,
        allowed: Mapping[str, Collection[str]] | None = None,
        malformed: Callable[[str, int], None] = _nothing,
    ) -> None:
        """Answer a service's calls on a server, by name.

        With `allowed`, each call is answered only to certificates of one of its roles, and each name has its own
        limits. `malformed` is called for each malformed request: its call, and its number of elements.
        """
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            name: grpc.stream_unary_rpc_method_handler(
                partial(self._answer, call, method, None if allowed is None else allowed[name], malformed)
            )
            for name, (call, method) in methods.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    async def _answer(
        self,
        call: Call,
        method: Method,
        allowed: Collection[str] | None,
        malformed: Callable[[str, int], None],
        _messages: object,
        context: Context,
    ) -> bytes | None:
        """Answer a gRPC call. A refusal becomes a status with its reason; any other error INTERNAL, without details.

        It sets the status and returns None, which gRPC then does not send. gRPC's `abort` would keep the exception,
        with its frames and all their objects, in a cycle that only the garbage collector frees.
        """
        peer = context.peer()
        try:
            caller = "" if allowed is None else self._checked(context, call.name, allowed)
            # A caller with a certificate is counted by its name; without one, connections share the bytes.
            asked = IncomingCall(call, method, malformed, peer, peer if allowed is None else "", caller)
            response, taken = await self.handle(asked, context.read, context)
            # gRPC's task of a call, which runs this, ends when the answer was read or the connection is over. A
            # callback of the context would keep the call in a cycle.
            if taken is not None and (task := asyncio.current_task()) is not None:
                task.add_done_callback(taken)
            return response
        except Refusal as refusal:
            _refuse(context, refusal)
        except MessageError as error:
            _refuse(context, Refusal(Reason.MALFORMED, str(error)))
        except Exception:
            # The exception's text stays in the log: it may reveal more about the service than a caller should know.
            _LOG.exception("a call failed")
            context.set_code(grpc.StatusCode.INTERNAL)
            context.set_details("the service failed in this call; its log names the cause")
        # Pause only after the request is freed, so that a waiting call uses no memory for it.
        if allowed is None and context.code() is grpc.StatusCode.INVALID_ARGUMENT:
            await self.admission.pause(peer)
        return None

    async def handle(
        self, asked: IncomingCall, read: Callable[[], Awaitable[object]] | bytes, context: Context | None = None
    ) -> tuple[bytes, Callable[[object], None] | None]:
        """Answer a call of either port: await its message, and pass it to its method if it is within every limit.

        `read` gives the message; or it is the message, if all of it has arrived, and nothing is awaited.

        Returns the answer. If connections share bytes, also a function to call once the answer was read.

        Raises:
            Refusal: OVERLOADED if the port has no room; or the refusal of the method.
            MessageError: if the message is no request.
        """
        if self.full():
            raise self.admission.refusal(PortLimit.MEMORY, "the service has reached its limit of memory")
        call, caller, connection = asked.call, asked.caller, asked.connection
        raw = read if isinstance(read, bytes) else await self.admission.read_message(asked.peer, read)
        del read
        if not isinstance(raw, bytes):  # the end of the call, instead of its message
            raise MessageError(f"a call of {call.name} has no request; send one message")
        size = len(raw)
        self.admission.acquire(caller, size, connection)
        try:
            try:
                request = call.decode(raw)
            except MessageError as error:
                self._note(asked, error)
                raise
            # While the method works, only the parsed request is in memory; `size` stays for `release`.
            del raw
            if call.waits(request):
                waiting = f"{caller}, waiting"
                self.admission.wait(caller, waiting)
                # `release` must give the slot back under the name that now has it.
                caller = waiting
            response = (await asked.method(request, context)).SerializeToString()
        finally:
            self.admission.release(caller, size, connection)
        return response, self.admission.answer(connection, len(response)) if connection else None

    def _note(self, asked: IncomingCall, error: MessageError) -> None:
        """Count a malformed request."""
        if type(error) in _BY_FAULT:
            self.admission.refused[_BY_FAULT[type(error)]] += 1
        asked.malformed(asked.call.name, error.count if isinstance(error, TooMany | TooShort) else 1)

    def _checked(self, context: Context, call: str, allowed: Collection[str]) -> str:
        # TLS has already checked that the deployment's authority issued the certificate; this checks its name.
        names = [name.decode(errors="replace") for name in context.auth_context().get("x509_common_name", ())]
        try:
            caller = checked_caller(names, call, allowed)
            if self.revoked is not None and role_of(caller) == READER:
                (shown,) = context.auth_context()["x509_pem_cert"]
                self.revoked.check(caller, shown)
        except Refusal:
            self.admission.refused[PortLimit.PEER] += 1
            raise
        # Where readers may look, everybody's looks are logged: at no other port does a person call.
        if READER in allowed:
            self.looks.note(caller, call)
        return caller


def _refuse(context: Context, refusal: Refusal) -> None:
    context.set_code(STATUS[refusal.reason])
    context.set_details(codec.plain(refusal.message))
    context.set_trailing_metadata(metadata_of(refusal))
