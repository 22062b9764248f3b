"""What a call through a relay costs the shuffler more than a bare one, against a bare open.

The router answers the same `Submit` bare and encapsulated (RFC 9458), with a handler that does nothing: what differs is
the opening of the request, binary HTTP inside, and the sealing of the answer. TLS is left out: a relay's connections
stay open, so it costs less than devices' own. Seconds are those of the processor.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from cores import INFO
from row import Outcome, Row

from hubbub.protos import codec
from hubbub.protos.messages import Answer, Receipt, Submission
from hubbub.protos.oblivious.binary_http import BinaryRequest, write_request
from hubbub.protos.oblivious.encapsulation import REQUEST, ObliviousKey, ObliviousKeys, seal_request
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.transport.connect_codes import PROTO
from hubbub.protos.v1 import submission_pb2
from hubbub.service.rpc import submission_router
from hubbub.service.rpc.connect import ConnectRouter, Reply
from hubbub.service.rpc.oblivious import PATH, ObliviousRouter
from hubbub.service.rpc.pipeline import RequestPipeline

CALLS = 200
"""Calls of each kind in one run."""

RUNS = 31
"""Runs of all kinds, by turns."""

SUBMIT = b"/hubbub.v1.SubmissionService/Submit"
KEY = ObliviousKey.derived(1, bytes(32))
HERE = Destination(bytes(32), 0, bytes(32))


class _Keys:
    oblivious_keys, oblivious_records = ObliviousKeys([KEY]), b""


class _Handler:
    async def submit(self, destination: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        return [Receipt(each.id, destination.round) for each in submissions]


def ohttp_call() -> Iterator[Outcome]:
    """One call after the other, on one core."""
    runs = [asyncio.run(_run()) for _ in range(RUNS)]
    yield Row.of(
        "ohttp_call", "µs", [1e6 * (through - bare) for bare, through, _ in runs], [1e6 * each[2] for each in runs]
    )


async def _run() -> tuple[float, float, float]:
    """Seconds of a bare call, of one through a relay, and of a bare open."""
    handler: Any = _Handler()
    make = partial(ObliviousRouter, source=_Keys())
    router = submission_router(handler, RequestPipeline(), None, make)
    messages = [_message() for _ in range(CALLS)]
    fields = ((b"content-type", PROTO.encode()), (b"connect-protocol-version", b"1"), (b"connect-timeout-ms", b"9876"))
    sealed = [
        seal_request(
            KEY.configuration, write_request(BinaryRequest(b"POST", b"https", b"localhost:7308", SUBMIT, fields, each))
        )[0]
        for each in messages
    ]
    bare = await _seconds(router, SUBMIT, dict(fields), messages)
    through = await _seconds(router, PATH, {b"content-type": REQUEST.encode()}, sealed)
    return bare, through, _opened()


def _message() -> bytes:
    submission = Submission(os.urandom(16), os.urandom(150), os.urandom(44), os.urandom(16))
    return submission_pb2.SubmitRequest(
        destination=codec.write_destination(HERE), submission=codec.write_submission(submission)
    ).SerializeToString()


async def _seconds(router: ConnectRouter, path: bytes, headers: dict[bytes, bytes], bodies: list[bytes]) -> float:
    started = time.process_time()
    for body in bodies:
        begun = router.begin(b"POST", path, {**headers, b"content-length": b"%d" % len(body)})
        assert not isinstance(begun, Reply)
        reply = await router.answer(begun, "connection", body)
        assert reply.status == 200
        assert reply.sent is not None
        reply.sent(None)
    return (time.process_time() - started) / len(bodies)


def _opened() -> float:
    private, public = DEFAULT.generate_key()
    opening, sealing = DEFAULT.private_key(private), DEFAULT.public_key(public)
    envelopes = [DEFAULT.encrypt(bytes(200), sealing, INFO) for _ in range(CALLS)]
    started = time.process_time()
    for envelope in envelopes:
        DEFAULT.decrypt(envelope, opening, INFO)
    return (time.process_time() - started) / CALLS


ROWS = (ohttp_call,)
