"""The shuffler answers what is inside as the port answers what is bare, and bounds and counts what it cannot open."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from unit.protos.test_rpc import HERE, Recorder, receipt, submission

from hubbub.protos import codec
from hubbub.protos.oblivious.binary_http import BinaryRequest, BinaryResponse, read_response, write_request
from hubbub.protos.oblivious.encapsulation import (
    KEYS,
    REQUEST,
    RESPONSE,
    UNKNOWN_KEY,
    ObliviousKey,
    ObliviousKeys,
    seal_request,
)
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.channels import TLS
from hubbub.protos.v1 import submission_pb2
from hubbub.service.rpc import submission_router
from hubbub.service.rpc.concurrency import PortLimit, PortLimits
from hubbub.service.rpc.connect import Reply
from hubbub.service.rpc.oblivious import PATH, WELL_KNOWN, ObliviousRouter
from hubbub.service.rpc.pipeline import RequestPipeline
from support.https_port import SUBMIT, asked, opened, written
from support.samples import make_tls

MESSAGE = submission_pb2.SubmitRequest(
    destination=codec.write_destination(HERE), submission=codec.write_submission(submission(1))
).SerializeToString()
ANSWER = submission_pb2.SubmitResponse(receipt=codec.write_receipt(receipt(1))).SerializeToString()
KEY = ObliviousKey.derived(3, bytes(32))
GET_ROUND = b"/hubbub.v1.SubmissionService/GetRound"
FORM = {"content_type": REQUEST, "connection": "close"}
INSIDE = BinaryRequest(
    b"POST", b"https", b"shuffler.example.org", SUBMIT.encode(), ((b"content-type", b"application/proto"),), MESSAGE
)


@dataclass
class _Keys:
    oblivious_keys: ObliviousKeys = field(default_factory=lambda: ObliviousKeys([KEY]))
    oblivious_records: bytes = b'{"records":[],"successions":[]}'


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    return make_tls(tmp_path_factory.mktemp("tls"), "service")["service"]


class Port:
    """A shuffler whose answers are looked at, with what it counted."""

    def __init__(self, tls: TLS, answer: Any = None, keys: _Keys | None = None, **limits: Any) -> None:
        self.tls, self.handler = tls, Recorder(answer=[receipt(1)] if answer is None else answer)
        self.pipeline = RequestPipeline(PortLimits(**limits))
        self._make = partial(ObliviousRouter, source=keys or _Keys())

    async def whole(self, request: bytes) -> bytes:
        """Return the bytes that answer a request's bytes."""
        async with opened(self.handler, self.tls, self.pipeline, make=self._make) as port:
            return await asyncio.to_thread(asked, port, self.tls, request)

    async def outside(self, body: bytes, path: bytes = PATH, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of the answer to a POST."""
        return parts(await self.whole(written("POST", path.decode(), body, **{**FORM, **headers})))

    async def inside(self, request: BinaryRequest | bytes) -> BinaryResponse:
        """Return what is inside the answer to what is inside a request."""
        message = request if isinstance(request, bytes) else write_request(request)
        sealed, opener = seal_request(KEY.configuration, message)
        status, headers, body = await self.outside(sealed)
        assert (status, headers["content-type"]) == (200, RESPONSE)
        assert "hubbub-reason" not in headers
        return read_response(opener.open(body))

    @property
    def refused(self) -> dict[PortLimit, int]:
        return dict(self.pipeline.admission.refused)


def parts(answer: bytes) -> tuple[int, Mapping[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


async def test_a_call_inside_is_answered_as_a_bare_one(tls: TLS) -> None:
    port = Port(tls)
    found = await port.inside(INSIDE)
    assert (found.status, found.fields, found.content) == (200, ((b"content-type", b"application/proto"),), ANSWER)
    assert port.handler.calls == [("submit", HERE, (submission(1),))]
    assert port.refused == {}


async def test_a_timeout_may_have_zeros_before_it(tls: TLS) -> None:
    """So the lengths of requests do not depend on it."""
    timeout = (b"connect-timeout-ms", b"0000010000")
    assert (await Port(tls).inside(replace(INSIDE, fields=(*INSIDE.fields, timeout)))).content == ANSWER


async def test_a_bare_call_is_answered_as_ever_beside(tls: TLS) -> None:
    status, _, body = await Port(tls).outside(MESSAGE, SUBMIT.encode(), content_type="application/proto")
    assert (status, body) == (200, ANSWER)


async def test_a_refusal_is_inside_alone(tls: TLS) -> None:
    """The relay must not learn who is refused, and why."""
    found = await Port(tls, Refusal(Reason.TOO_LATE, "it is over")).inside(INSIDE)
    assert found.status == 400
    assert (b"hubbub-reason", b"too_late") in found.fields
    assert json.loads(found.content)["message"] == "it is over"


@pytest.mark.parametrize(
    ("request_", "status", "limit"),
    [
        (replace(INSIDE, path=b"/nothing/here"), 404, PortLimit.HTTP),
        (replace(INSIDE, path=PATH), 404, PortLimit.HTTP),
        (replace(INSIDE, method=b"GET"), 405, PortLimit.HTTP),
        (replace(INSIDE, fields=()), 415, PortLimit.HTTP),
        (replace(INSIDE, fields=(*INSIDE.fields, (b"content-length", b"5"))), 400, PortLimit.HTTP),
        (replace(INSIDE, fields=(*INSIDE.fields, *INSIDE.fields)), 400, PortLimit.HTTP),
        (b"", 400, PortLimit.HTTP),
        (write_request(INSIDE)[:40], 400, PortLimit.HTTP),
        (replace(INSIDE, path=GET_ROUND, content=bytes(5000)), 400, PortLimit.SIZE),
        (replace(INSIDE, fields=(*INSIDE.fields, (b"content-encoding", b"gzip"))), 501, PortLimit.COMPRESSED),
        (replace(INSIDE, content=b"\xff"), 400, None),
    ],
)
async def test_what_is_wrong_inside_is_refused_inside_and_counted(
    tls: TLS, request_: BinaryRequest | bytes, status: int, limit: PortLimit | None
) -> None:
    port = Port(tls, largest=256 * 1024)
    assert (await port.inside(request_)).status == status
    assert port.refused == ({} if limit is None else {limit: 1})
    assert port.handler.calls == []


SEALED = seal_request(KEY.configuration, write_request(INSIDE))[0]


@pytest.mark.parametrize(
    "body",
    [b"", SEALED[:50], SEALED[:-1], SEALED[:-1] + bytes([SEALED[-1] ^ 1]), b"\3\0\x10" + SEALED[3:]],
    ids=range(5),
)
async def test_what_does_not_open_is_refused_in_the_open_and_counted(tls: TLS, body: bytes) -> None:
    port = Port(tls)
    status, headers, _ = await port.outside(body)
    assert (status, headers["content-type"]) == (400, "application/json")
    assert port.refused == {PortLimit.ENCAPSULATION: 1}
    assert port.handler.calls == []


async def test_an_unknown_key_is_the_problem_that_the_rfc_names(tls: TLS) -> None:
    port = Port(tls)
    status, headers, body = await port.outside(seal_request(ObliviousKey.derived(4, bytes(32)).configuration, b"")[0])
    assert (status, headers["content-type"]) == (400, "application/problem+json")
    assert json.loads(body)["type"] == UNKNOWN_KEY
    assert port.refused == {PortLimit.ENCAPSULATION: 1}


@pytest.mark.parametrize(
    ("headers", "status", "limit"),
    [
        ({"content_type": "application/proto"}, 415, PortLimit.HTTP),
        ({"content_type": ""}, 415, PortLimit.HTTP),
        ({"content_encoding": "gzip"}, 501, PortLimit.COMPRESSED),
        ({"content_length": ""}, 411, PortLimit.HTTP),
        ({"content_length": "-1"}, 400, PortLimit.HTTP),
        ({"content_length": str(10**9)}, 413, PortLimit.SIZE),
        ({"content_length": "9" * 30}, 400, PortLimit.HTTP),
    ],
)
async def test_other_heads_are_refused_before_their_body(
    tls: TLS, headers: dict[str, str], status: int, limit: PortLimit
) -> None:
    port = Port(tls)
    assert (await port.outside(SEALED, **headers))[0] == status
    assert port.refused == {limit: 1}


async def test_a_chunked_request_is_opened_within_the_same_bound(tls: TLS) -> None:
    def chunked(body: bytes) -> bytes:
        return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)

    port = Port(tls, largest=4096)
    chunks: Callable[[bytes], Any] = lambda body: port.outside(  # noqa: E731
        chunked(body), transfer_encoding="chunked", content_length=""
    )
    assert (await chunks(SEALED))[0] == 200
    assert (await chunks(bytes(60_000)))[0] == 413
    assert port.refused == {PortLimit.SIZE: 1}


async def test_a_repeated_request_is_answered_again_and_nothing_is_kept(tls: TLS) -> None:
    port = Port(tls)
    first, second = [await port.outside(SEALED) for _ in range(2)]
    assert first[0] == second[0] == 200
    assert first[2] != second[2]
    assert port.handler.calls == 2 * [("submit", HERE, (submission(1),))]


@pytest.mark.parametrize(
    ("path", "form", "content"),
    [
        (PATH, "application/json", _Keys().oblivious_records),
        (WELL_KNOWN, KEYS, _Keys().oblivious_keys.configurations),
    ],
)
async def test_the_keys_are_served_for_relays_to_keep_a_while(tls: TLS, path: bytes, form: str, content: bytes) -> None:
    status, headers, body = parts(await Port(tls).whole(written("GET", path.decode(), connection="close")))
    assert (status, headers["content-type"], body) == (200, form, content)
    assert headers["cache-control"] == "max-age=600"


async def test_without_a_key_the_port_says_so(tls: TLS) -> None:
    for path in (PATH, WELL_KNOWN):
        port = Port(tls, keys=_Keys(ObliviousKeys(), b""))
        status, _, _ = parts(await port.whole(written("GET", path.decode(), connection="close")))
        assert status == 503


@pytest.mark.parametrize(("method", "content", "status"), [("PUT", b"", 405), ("GET", b"x", 400)])
async def test_other_methods_and_contents_are_refused(tls: TLS, method: str, content: bytes, status: int) -> None:
    port = Port(tls)
    assert parts(await port.whole(written(method, "/ohttp", content)))[0] == status
    assert port.refused == {PortLimit.HTTP: 1}


async def test_a_process_without_memory_opens_nothing(tls: TLS) -> None:
    port = Port(tls)
    port.pipeline.full = lambda: True
    assert (await port.outside(SEALED))[0] == 429
    assert port.refused == {PortLimit.MEMORY: 1}


LARGE = 2 * 1024 * 1024
BATCH = replace(INSIDE, path=b"/hubbub.v1.SubmissionService/SubmitBatch", content=b"\xff" * LARGE)


@pytest.mark.parametrize(
    ("message", "flip"),
    [(write_request(BATCH), 1), (write_request(BATCH) + b"\1", 0), (write_request(BATCH), 0)],
    ids=["does not open", "is no request inside", "is no message of the call inside"],
)
async def test_a_malformed_request_takes_no_memory_while_its_answer_is_delayed(message: bytes, flip: int) -> None:
    """Many large ones would fill the memory otherwise, as nothing counts their bytes any more."""
    sealed = bytearray(seal_request(KEY.configuration, message)[0])
    sealed[-1] ^= flip
    pipeline, held = RequestPipeline(), list[int]()
    router = submission_router(Recorder(), pipeline, None, partial(ObliviousRouter, source=_Keys()))
    begun = router.begin(b"POST", PATH, {b"content-type": REQUEST.encode(), b"content-length": b"%d" % len(sealed)})
    assert not isinstance(begun, Reply)

    async def paused(_connection: str) -> None:
        held.append(tracemalloc.get_traced_memory()[0])

    pipeline.admission.pause = paused  # type: ignore[method-assign]

    async def read() -> bytes:
        return bytes(sealed)

    tracemalloc.start()
    try:
        await router.answer(begun, "a connection", read)
    finally:
        tracemalloc.stop()
    assert len(held) == 1
    assert held[0] < LARGE // 2


async def test_without_the_setting_there_is_no_such_path(tls: TLS) -> None:
    async with opened(Recorder(), tls) as port:
        for request in (written("POST", "/ohttp", SEALED, **FORM), written("GET", "/ohttp", connection="close")):
            assert parts(await asyncio.to_thread(asked, port, tls, request))[0] == 404
