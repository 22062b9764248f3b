"""What a call looks like by Connect, and what becomes of those that are none or never end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from unit.protos.test_rpc import HERE, TASK, Recorder, receipt, submission

from hubbub.protos import codec
from hubbub.protos.errors import Distrusted, HubbubError, Unreachable
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES, TLS
from hubbub.protos.transport.connect_codes import code_of, status_of
from hubbub.protos.transport.https import HTTPSChannel
from hubbub.protos.transport.statuses import STATUS
from hubbub.protos.v1 import submission_pb2
from hubbub.service.rpc import submission_router
from hubbub.service.rpc.concurrency import PortLimit, PortLimits
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport.grpc_server import Connections
from hubbub.service.transport.http_connection import CHUNK_BYTES, FRAME_BYTES, FREE_CHUNKS, MOST_HEAD_BYTES
from hubbub.service.transport.https_server import ConnectionLimits, HttpsServer
from hubbub.service.transport.tls_connection import PIECE_BYTES
from support import https_port
from support.https_port import SUBMIT, answers, asked, opened, raw, written
from support.messages import PORT_IN_USE
from support.patience import CALL_SECONDS
from support.samples import make_tls
from support.source_tree import ROOT

REQUEST = submission_pb2.SubmitRequest(
    destination=codec.write_destination(HERE), submission=codec.write_submission(submission(1))
).SerializeToString()
ANSWER = submission_pb2.SubmitResponse(receipt=codec.write_receipt(receipt(1))).SerializeToString()
CLOSE = {"connection": "close"}
PAGE = ROOT / "docs" / "wire-calls.md"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    return make_tls(tmp_path_factory.mktemp("tls"), "service")["service"]


async def tried(tls: TLS, handler: Any, attack: Callable[[int], Any], **given: Any) -> Any:
    """What an attack on a server, made in a thread, returns."""
    async with opened(handler, tls, **given) as port:
        return await asyncio.to_thread(attack, port)


def headers_of(answer: bytes) -> dict[str, str]:
    lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    return dict(line.split(": ", 1) for line in lines)


async def test_an_exchange_is_connects_byte_by_byte(tls: TLS) -> None:
    """As https://connectrpc.com/docs/protocol has it: a POST of the message, answered by a message."""
    handler = Recorder(answer=[receipt(1)])
    request = (
        b"POST /hubbub.v1.SubmissionService/Submit HTTP/1.1\r\n"
        b"Host: localhost\r\n"
        b"Content-Type: application/proto\r\n"
        b"Connect-Protocol-Version: 1\r\n"
        b"Connect-Timeout-Ms: 5000\r\n"
        b"Content-Length: " + str(len(REQUEST)).encode() + b"\r\n"
        b"Connection: close\r\n"
        b"\r\n" + REQUEST
    )
    answer = await tried(tls, handler, lambda port: asked(port, tls, request))
    date = headers_of(answer)["date"]
    assert abs(parsedate_to_datetime(date).timestamp() - time.time()) < 60
    assert answer == (
        b"HTTP/1.1 200 OK\r\ndate: " + date.encode() + b"\r\ncontent-type: application/proto\r\n"
        b"connection: close\r\ncontent-length: " + str(len(ANSWER)).encode() + b"\r\n\r\n" + ANSWER
    )
    assert handler.calls == [("submit", HERE, (submission(1),))]


async def test_the_exchange_of_the_page_is_as_it_says(tls: TLS) -> None:
    request, error = re.findall(r"(?ms)^```http\n(.*?)^```$", PAGE.read_text())
    lines = [line for line in request.splitlines() if not line.startswith("Content-Length")]
    head = "\r\n".join([*lines, f"Content-Length: {len(REQUEST)}", "Connection: close", "", ""]).encode()
    handler = Recorder(answer=[receipt(1)])
    answer = await tried(tls, handler, lambda port: asked(port, tls, head + REQUEST))
    assert answer.endswith(b"\r\n\r\n" + ANSWER)
    told = json.loads(error.partition("\n\n")[2])
    handler = Recorder(answer=Refusal(Reason.OVERLOADED, told["message"], 1.0))
    answer = await tried(tls, handler, lambda port: asked(port, tls, head + REQUEST))
    assert set(error.strip().splitlines()) - {""} <= set(answer.decode().replace("\r\n", "\n").splitlines())


async def test_a_refusal_is_connects_error_with_its_reason_beside(tls: TLS) -> None:
    handler = Recorder(answer=Refusal(Reason.OVERLOADED, "later — é", 1.5))
    answer = await tried(tls, handler, lambda port: asked(port, tls, written("POST", SUBMIT, REQUEST, **CLOSE)))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    told = headers_of(answer)
    assert (told["content-type"], told["hubbub-reason"], told["hubbub-retry-after-ms"]) == (
        "application/json",
        "overloaded",
        "1500",
    )
    assert json.loads(body) == {"code": "resource_exhausted", "message": "later — é"}


def test_every_reason_has_a_code_of_connect_and_comes_back_as_its_status() -> None:
    for status in STATUS.values():
        assert status_of(code_of(status)) is status


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (written("POST", "/nothing/here", REQUEST), 404),
        (written("GET", SUBMIT), 405),
        (written("POST", SUBMIT, REQUEST, content_type="application/xml"), 415),
        (written("POST", SUBMIT, REQUEST, content_type=""), 415),
        (written("POST", SUBMIT, REQUEST, content_type="application/grpc"), 415),
        (written("POST", SUBMIT, REQUEST, content_length=""), 411),
        (written("POST", SUBMIT, REQUEST, transfer_encoding="chunked", content_length=""), 400),
        (written("POST", SUBMIT, REQUEST, transfer_encoding="gzip, chunked", content_length=""), 501),
        (written("GET", "/health", b"x"), 404),
        (written("POST", "/health"), 404),
        (written("POST", SUBMIT, REQUEST, connect_protocol_version="2"), 400),
        (written("POST", SUBMIT, REQUEST, connect_timeout_ms="12345678901"), 400),
        (written("POST", SUBMIT, REQUEST, host=""), 400),
        (written("POST", SUBMIT, REQUEST).replace(b"host", b"host: a\r\nhost"), 400),
        (written("POST", SUBMIT, REQUEST, x="y" * MOST_HEAD_BYTES), 431),
        (b"POST " + SUBMIT.encode() + b" HTTP/1.1\r\nx: " + b"y" * 2 * MOST_HEAD_BYTES, 431),
        (written("POST", SUBMIT, REQUEST, **{f"x{number}": "y" for number in range(100)}), 431),
        (b"\r\n" * MOST_HEAD_BYTES, 431),
        (b"\x16\x03\x01 no request\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (written("POST", SUBMIT, REQUEST, connection="upgrade", upgrade="websocket", content_type="x"), 415),
    ],
)
async def test_what_is_no_call_is_answered_counted_and_reaches_nothing(tls: TLS, request_: bytes, status: int) -> None:
    pipeline, handler = RequestPipeline(), Recorder(answer=[receipt(1)])
    answer = await tried(tls, handler, lambda port: asked(port, tls, request_), pipeline=pipeline)
    assert https_port.status_of(answer) == status
    assert headers_of(answer)["connection"] == "close"
    assert (handler.calls, handler.counted, pipeline.admission.refused) == ([], [], {PortLimit.HTTP: 1})
    # What is HTTP, but no call, is an error of Connect: who writes a client reads what is wrong.
    if status in (404, 405, 411, 415, 501):
        assert headers_of(answer)["content-type"] == "application/json"
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "unimplemented"


@pytest.mark.parametrize(
    "smuggled",
    [
        {"content_length": "5", "transfer_encoding": "chunked"},
        {"transfer_encoding": "xchunked"},
        {"transfer_encoding": "chunked, identity"},
        {"transfer_encoding": "xchunked", "content_length": ""},
        {"transfer_encoding": "chunked, identity", "content_length": ""},
        {"transfer_encoding": "identity", "content_length": ""},
        {"content_length": "+5"},
        {"content_length": "5, 5"},
        {"content_length": "0x5"},
        {"content_length": "-1"},
        {"content_length": "99999999999999999999"},
    ],
)
async def test_what_could_be_read_in_two_ways_is_read_in_none(tls: TLS, smuggled: dict[str, str]) -> None:
    """A proxy in front that reads it the other way would take the second request for part of the first, or not."""
    handler = Recorder(answer=[receipt(1)])
    inner = written("POST", SUBMIT, REQUEST)
    answer = await tried(
        tls, handler, lambda port: asked(port, tls, written("POST", SUBMIT, b"0\r\n\r\n" + inner, **smuggled))
    )
    assert https_port.status_of(answer) in (400, 501)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert handler.calls == []


async def test_two_lengths_are_no_length(tls: TLS) -> None:
    twice = written("POST", SUBMIT, REQUEST).replace(b"content-length", b"content-length: 5\r\ncontent-length")
    assert https_port.status_of(await tried(tls, Recorder(), lambda port: asked(port, tls, twice))) == 400


FRAMES = 2 * MOST_HEAD_BYTES + FRAME_BYTES * (FREE_CHUNKS + MAXIMUM_MESSAGE_BYTES // CHUNK_BYTES) + 1
CHUNKED = {"transfer_encoding": "chunked", "content_length": ""}


def chunked(body: bytes, size: int, *, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    """The body in chunks of that size."""
    pieces = [body[begin : begin + size] for begin in range(0, len(body), size)]
    lines = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces]
    return b"".join([*lines, b"0\r\n", trailers, b"\r\n"])


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
@pytest.mark.parametrize("more", [{}, {"extension": b";a=b"}, {"trailers": b"origin: https://x\r\nhost: y\r\n"}])
async def test_a_chunked_message_is_as_one_of_a_stated_length(tls: TLS, size: int, more: dict[str, bytes]) -> None:
    """As programs send it that do not know the length when they begin, Node's fetch among them."""
    message = REQUEST[:60] if size == 1 else REQUEST
    handler, refused = Recorder(answer=[receipt(1)]), size == 1
    body = chunked(message, size, **more)
    request = written("POST", SUBMIT, **CHUNKED) + body
    # Cut anywhere, it is the same; and the next call of the connection is answered as well.
    cuts = (0, 1, len(request) - len(body), len(request) - len(body) + 3, len(request) - 1)
    for cut in cuts:
        pieces = [piece for piece in (request[:cut], request[cut:], written("POST", SUBMIT, REQUEST, **CLOSE)) if piece]
        handler.calls.clear()
        answer = await tried(tls, handler, lambda port, pieces=pieces: asked_in_turn(port, tls, pieces))
        assert answer.count(b"HTTP/1.1 200 OK") == 2 - refused
        assert len(handler.calls) == 2 - refused
        assert b"access-control" not in answer


def asked_in_turn(port: int, tls: TLS, pieces: list[bytes]) -> bytes:
    """What is answered to a first call in pieces, and then to the last piece."""
    with raw(port, tls) as connection:
        for piece in pieces[:-1]:
            connection.sendall(piece)
        first = connection.recv(65536)
        with contextlib.suppress(OSError):
            connection.sendall(pieces[-1])
        return first + answers(connection)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(chunked(bytes(200), 1), 400, id="small chunks"),
        pytest.param(chunked(bytes(20_000), 50), 400, id="many small chunks"),
        pytest.param(b"1;" + b"x" * FRAMES, 400, id="an extension without an end"),
        pytest.param(chunked(bytes(100), 10, extension=b";" + b"x" * (FRAMES // 10)), 400, id="long extensions"),
        pytest.param(b"0\r\nx: " + b"y" * FRAMES, 400, id="a trailer without an end"),
        pytest.param(b"".join([b"0\r\n", *[b"x: y\r\n"] * (FRAMES // 6)]), 400, id="trailers without an end"),
        pytest.param(b"fffffffffffffffff\r\n", 400, id="a length beyond 64 bits"),
        pytest.param(b"-1\r\n", 400, id="a negative length"),
        pytest.param(b"0x5\r\n12345\r\n0\r\n\r\n", 400, id="a prefix"),
        pytest.param(b"5\n12345\n0\n\n", 400, id="bare LF"),
        pytest.param(b"5\r\n123456\r\n0\r\n\r\n", 400, id="longer than stated"),
    ],
)
async def test_chunks_that_are_none_or_cost_more_than_they_bring_are_refused(
    tls: TLS, body: bytes, status: int
) -> None:
    pipeline, handler = RequestPipeline(), Recorder(answer=[receipt(1)])
    request = written("POST", SUBMIT, **CHUNKED) + body
    answer = await tried(tls, handler, lambda port: sent_until_closed(port, tls, request), pipeline=pipeline)
    assert (https_port.status_of(answer), answer.count(b"HTTP/1.1 "), handler.calls) == (status, 1, [])
    assert pipeline.admission.refused == {PortLimit.HTTP: 1}
    assert (pipeline.admission.waiting, pipeline.admission.in_work) == (0, 0)


def sent_until_closed(port: int, tls: TLS, request: bytes) -> bytes:
    with raw(port, tls) as connection:
        # Who is closed while sending still finds the answer.
        with contextlib.suppress(OSError):
            connection.sendall(request)
        return answers(connection)


async def test_a_chunked_message_that_grows_too_large_is_refused_as_one_that_says_so(tls: TLS) -> None:
    def of_length(port: int, length: int) -> bytes:
        return sent_until_closed(port, tls, written("POST", SUBMIT, content_length=str(length)))

    def in_chunks(port: int, body: bytes) -> bytes:
        return sent_until_closed(port, tls, written("POST", SUBMIT, **CHUNKED) + chunked(body, 10_000))

    handler = Recorder(answer=[receipt(1)])
    stated = await tried(tls, handler, lambda port: of_length(port, 100_000_000))
    most = int(re.findall(rb"send at most (\d+)", stated)[0])
    grown = await tried(tls, handler, lambda port: in_chunks(port, bytes(most + 10_000)))
    assert https_port.status_of(grown) == https_port.status_of(stated) == 400
    assert f"more than {most} bytes in Submit; send at most {most}".encode() in grown
    assert handler.calls == []


async def test_a_call_in_json_is_answered_in_json(tls: TLS) -> None:
    """As clients for the web ask by default; in protobuf's mapping, in which bytes are in base64."""
    handler = Recorder(answer=[receipt(1)])
    body = json_format.MessageToJson(submission_pb2.SubmitRequest.FromString(REQUEST)).encode()
    request = written("POST", SUBMIT, body, content_type="application/json; charset=utf-8", **CLOSE)
    answer = await tried(tls, handler, lambda port: asked(port, tls, request))
    assert handler.calls == [("submit", HERE, (submission(1),))]
    assert (https_port.status_of(answer), headers_of(answer)["content-type"]) == (200, "application/json")
    found = json_format.Parse(answer.partition(b"\r\n\r\n")[2], submission_pb2.SubmitResponse())
    assert found.SerializeToString() == ANSWER
    large = written("POST", SUBMIT, body[:10], content_type="application/json", content_length=str(10**6))
    assert b"as JSON; send at most 65536" in await tried(tls, handler, lambda port: sent_until_closed(port, tls, large))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "no SubmitRequest"),
        (b"[]", "no SubmitRequest"),
        (b"5", "no SubmitRequest"),
        (b'{"destination": {}, "destination": {}}', "destination"),
        (b'{"destinations": {}}', "destinations"),
        (b'{"submission": {"id": "?"}}', "id is not in base64"),
        (b'{"submission": {"id": "AA?="}}', "id is not in base64"),
        (b'{"submission": {"envelope": "A"}}', "envelope is not in base64"),
        (b'{"submission": {"id": 5}}', "no SubmitRequest"),
        (b"{" + b'"a":{' * 200 + b"}" * 201, "no SubmitRequest"),
        (b'{"submission": {"envelopes": [' + b"{}," * 300 + b"{}]}}", "more than 256 members"),
        (REQUEST, "no SubmitRequest"),
    ],
)
async def test_json_that_is_no_message_is_refused_by_name_and_counted(tls: TLS, body: bytes, says: str) -> None:
    handler = Recorder(answer=[receipt(1)])
    request = written("POST", SUBMIT, body, content_type="application/json", **CLOSE)
    answer = await tried(tls, handler, lambda port: asked(port, tls, request))
    assert (https_port.status_of(answer), headers_of(answer)["hubbub-reason"]) == (400, "malformed")
    assert says in json.loads(answer.partition(b"\r\n\r\n")[2])["message"]
    assert (handler.calls, handler.counted) == ([], [(None, Reason.MALFORMED, 1)])


@pytest.mark.parametrize("verb", ["GET", "HEAD"])
async def test_a_balancer_learns_whether_the_service_takes_calls(tls: TLS, verb: str) -> None:
    pipeline = RequestPipeline()
    https = HttpsServer(submission_router(Recorder(), pipeline), ConnectionLimits(Connections()), tls, lambda: 0)
    port = https.listen("127.0.0.1:0")
    try:
        ask, last = written(verb, "/health"), written(verb, "/health", **CLOSE)
        assert https_port.status_of(await asyncio.to_thread(asked, port, tls, last)) == 503
        https.serving = True
        # Two on one connection: a balancer asks every second, and connects once.
        answer = await asyncio.to_thread(asked_in_turn, port, tls, [ask, last])
        assert answer.count(b"HTTP/1.1 200 OK") == 2
        assert not answer.rpartition(b"\r\n\r\n")[2]
        assert not pipeline.admission.refused
    finally:
        await https.close(None)


CALL = written("POST", SUBMIT, REQUEST)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(CALL.replace(b"host: localhost", b"host: localhost\r\n folded"), id="obs-fold"),
        pytest.param(CALL.replace(b"content-length: ", b"content-length:\r\n "), id="a length that is folded"),
        pytest.param(CALL.replace(b"\r\n", b"\n", 3), id="bare LF"),
        pytest.param(CALL.replace(b"\r\n\r\n", b"\n\n", 1), id="a head that ends in bare LF"),
        pytest.param(CALL.replace(b"host: ", b"x: a\rb\r\nhost: "), id="bare CR"),
        pytest.param(CALL.replace(b"content-length:", b"content-length :"), id="a space before the colon"),
        pytest.param(CALL.replace(b"host:", b" host:"), id="a space before the first header"),
        pytest.param(CALL.replace(b"content-length", b"content\0length"), id="a zero in a name"),
        pytest.param(CALL.replace(b"HTTP/1.1", b"HTTP/1.10"), id="a version that is none"),
        pytest.param(CALL.replace(b"host:", b"transfer-encoding: chunked\r\nhost:"), id="both lengths"),
        pytest.param(CALL.replace(b"host:", b"Transfer-Encoding\t: chunked\r\nhost:"), id="a tab before the colon"),
    ],
)
async def test_what_other_programs_may_read_otherwise_reaches_nothing(tls: TLS, request_: bytes) -> None:
    assert request_ != CALL
    handler = Recorder(answer=[receipt(1)])
    answer = await tried(tls, handler, lambda port: asked(port, tls, request_ + CALL))
    assert https_port.status_of(answer) in (400, 411)
    assert (answer.count(b"HTTP/1.1 "), handler.calls) == (1, [])


@pytest.mark.parametrize(
    ("behind", "status"), [(b"\0garbage\r\n\r\n", 400), (bytes(1000), 400), (b"GET /", 200), (CALL[:-1], 200)]
)
async def test_what_is_sent_behind_a_call_is_not_answered(tls: TLS, behind: bytes, status: int) -> None:
    """Where it is no request in its form, neither is what it came with."""
    handler = Recorder(answer=[receipt(1)])
    answer = await tried(tls, handler, lambda port: asked(port, tls, CALL + behind))
    assert (https_port.status_of(answer), answer.count(b"HTTP/1.1 ")) == (status, 1)
    assert len(handler.calls) == (status == 200)


async def test_what_comes_with_the_rest_of_a_message_and_is_no_request_ends_the_call_at_once(tls: TLS) -> None:
    """The call waited for a message that was there, and was answered 429 when its time was over."""
    handler, head = Recorder(answer=[receipt(1)]), written("POST", SUBMIT, REQUEST, expect="100-continue")

    def attack(port: int) -> bytes:
        with raw(port, tls) as connection:
            connection.sendall(head.removesuffix(REQUEST))
            # So the server has read the head, and waits for the message.
            assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(REQUEST + b"\0garbage\r\n\r\n")
            return answers(connection)

    # No message is late here: where the call waited, this test's own connection would end first.
    pipeline = RequestPipeline(PortLimits(unfinished_seconds=3600))
    answer = await tried(tls, handler, attack, pipeline=pipeline)
    assert (https_port.status_of(answer), answer.count(b"HTTP/1.1 "), handler.calls) == (400, 1, [])
    assert (pipeline.admission.in_work, pipeline.admission.waiting) == (0, 0)
    assert pipeline.admission.refused == {PortLimit.HTTP: 1}


async def test_a_caller_of_http_1_0_gets_no_answer_before_its_answer(tls: TLS) -> None:
    """It has no 1xx answers, so it would take "continue" for the answer (RFC 9110, 10.1.1)."""
    handler = Recorder(answer=[receipt(1)])
    request = written("POST", SUBMIT, REQUEST, expect="100-continue").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    answer = await tried(tls, handler, lambda port: asked(port, tls, request))
    assert (https_port.status_of(answer), answer.count(b"HTTP/1.1 ")) == (200, 1)


async def test_who_is_refused_for_what_it_sends_waits_for_the_answer(tls: TLS) -> None:
    pipeline, waited = RequestPipeline(), []

    async def pause(connection: str) -> None:
        waited.append(connection)

    pipeline.admission.pause = pause  # type: ignore[method-assign]
    handler = Recorder(answer=Refusal(Reason.MALFORMED, "no"))
    bad, late = written("POST", SUBMIT, b"\xff", **CLOSE), written("POST", SUBMIT, REQUEST, **CLOSE)
    async with opened(handler, tls, pipeline) as port:
        for each in (bad, late):
            assert https_port.status_of(await asyncio.to_thread(asked, port, tls, each)) == 400
        handler.answer = Refusal(Reason.TOO_LATE, "over")
        assert https_port.status_of(await asyncio.to_thread(asked, port, tls, late)) == 400
    # Each on a connection of its own; to be late is no fault of the message.
    assert len(set(waited)) == 2


@pytest.mark.parametrize("apart", [True, False])
async def test_who_does_not_wait_for_the_first_answer_gets_no_second(tls: TLS, apart: bool) -> None:
    handler, request = Recorder(answer=[receipt(1)]), written("POST", SUBMIT, REQUEST)
    pieces = [request, request] if apart else [request * 2]
    answer = await tried(tls, handler, lambda port: asked(port, tls, *pieces, written("POST", "/x", **CLOSE)))
    # Where the first was answered before the second came, both were in turn: only what is sent ahead is not read.
    assert answer.count(b"HTTP/1.1 200 OK") in ({1, 2} if apart else {1})
    assert len(handler.calls) == answer.count(b"HTTP/1.1 200 OK")


async def test_calls_follow_each_other_on_one_connection(tls: TLS) -> None:
    handler, request = Recorder(answer=[receipt(1)]), written("POST", SUBMIT, REQUEST)

    def attack(port: int) -> list[int]:
        found = []
        with raw(port, tls) as connection:
            for _ in range(3):
                # Byte by byte, as a slow line brings it.
                for place in range(0, len(request), 50):
                    connection.sendall(request[place : place + 50])
                found.append(https_port.status_of(connection.recv(65536)))
        return found

    assert await tried(tls, handler, attack) == [200] * 3


async def test_each_fault_of_a_message_is_counted_and_none_reaches_the_handler(tls: TLS) -> None:
    pipeline, handler = RequestPipeline(), Recorder()
    batch = SUBMIT + "Batch"
    tiny = submission_pb2.SubmitBatchRequest(submissions=[submission_pb2.Submission()] * 10_000).SerializeToString()
    faults = {
        PortLimit.COUNT: written("POST", batch, tiny, **CLOSE),
        # Refused by what its head says: not a byte of it is received.
        PortLimit.SIZE: written("POST", SUBMIT, content_length="99999999"),
        PortLimit.COMPRESSED: written("POST", batch, b"\x1f\x8b rest", content_encoding="gzip"),
    }
    found = await tried(
        tls, handler, lambda port: [asked(port, tls, each) for each in faults.values()], pipeline=pipeline
    )
    assert [https_port.status_of(answer) for answer in found] == [400, 400, 501]
    assert pipeline.admission.refused == dict.fromkeys(faults, 1)
    assert handler.calls == []
    assert {reason for _, reason, _ in handler.counted} == {Reason.MALFORMED}
    assert len(handler.counted) == len(faults)


@pytest.mark.parametrize(
    "part",
    [b"POST /hub", b"POST " + SUBMIT.encode() + b" HTTP/1.1\r\nhost: x\r\n", written("POST", SUBMIT, REQUEST)[:-1]],
)
async def test_what_never_ends_is_given_up(tls: TLS, part: bytes) -> None:
    pipeline, handler = RequestPipeline(PortLimits(unfinished_seconds=0.2)), Recorder()
    answer = await tried(tls, handler, lambda port: asked(port, tls, part), pipeline=pipeline)
    assert https_port.status_of(answer) in (408, 429)
    assert (pipeline.admission.refused, pipeline.admission.waiting, handler.calls) == ({PortLimit.UNFINISHED: 1}, 0, [])


async def test_an_address_has_so_many_connections_and_no_more(tls: TLS) -> None:
    pipeline, handler = RequestPipeline(), Recorder(answer=[receipt(1)])
    connection_limits = ConnectionLimits(Connections(), of_address=2)

    def attack(port: int) -> bytes:
        with raw(port, tls), raw(port, tls), pytest.raises((OSError, ssl.SSLError)), raw(port, tls):
            pass
        until = time.monotonic() + CALL_SECONDS
        while time.monotonic() < until:  # until the port has heard that they are gone
            try:
                return asked(port, tls, written("POST", SUBMIT, REQUEST, **CLOSE))
            except OSError:
                continue
        return b""

    assert (
        https_port.status_of(await tried(tls, handler, attack, pipeline=pipeline, connection_limits=connection_limits))
        == 200
    )
    assert pipeline.admission.refused[PortLimit.ADDRESS] >= 1


async def test_all_together_have_so_many_connections_and_no_more(tls: TLS) -> None:
    pipeline = RequestPipeline()

    def attack(port: int) -> None:
        with raw(port, tls), pytest.raises((OSError, ssl.SSLError)), raw(port, tls):
            pass

    await tried(tls, Recorder(), attack, pipeline=pipeline, most=1)
    assert pipeline.admission.refused[PortLimit.CONNECTIONS] == 1


async def test_who_is_idle_or_old_is_closed(tls: TLS) -> None:
    handler, request = Recorder(answer=[receipt(1)]), written("POST", SUBMIT, REQUEST)
    pipeline = RequestPipeline(PortLimits(unfinished_seconds=0.2))
    for limits in ({"idle_seconds": 0.2}, {"age_seconds": 0.2}):
        answer = b""
        # A connection that was old before its request came, as on a busy machine, is closed without an answer.
        while not answer:
            answer = await tried(tls, handler, lambda port: asked(port, tls, request), pipeline=pipeline, **limits)
        assert https_port.status_of(answer) == 200
    assert pipeline.admission.refused == {}


async def test_a_call_ends_at_its_deadline(tls: TLS) -> None:
    class Slow(Recorder):
        async def submit(self, *_: Any) -> Any:
            await asyncio.Event().wait()

    pipeline = RequestPipeline()
    request = written("POST", SUBMIT, REQUEST, connect_timeout_ms="50", **CLOSE)
    answer = await tried(tls, Slow(), lambda port: asked(port, tls, request), pipeline=pipeline)
    assert https_port.status_of(answer) == 504
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "deadline_exceeded"
    assert pipeline.admission.in_work == 0


async def test_who_leaves_takes_the_call_along(tls: TLS) -> None:
    class Slow(Recorder):
        ended = False

        async def submit(self, *_: Any) -> Any:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                over.set()

    began, over, pipeline = asyncio.Event(), asyncio.Event(), RequestPipeline()
    async with opened(Slow(), tls, pipeline) as port, asyncio.timeout(CALL_SECONDS):
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=ssl.create_default_context(cafile=str(tls.authority)), server_hostname="localhost"
        )
        writer.write(written("POST", SUBMIT, REQUEST))
        await began.wait()
        writer.transport.abort()
        await over.wait()
    assert pipeline.admission.in_work == 0


async def test_a_server_that_closes_answers_what_it_has_begun(tls: TLS) -> None:
    class Slow(Recorder):
        async def submit(self, *_: Any) -> Any:
            began.set()
            await go.wait()
            return [receipt(1)]

    began, go = asyncio.Event(), asyncio.Event()
    https = HttpsServer(submission_router(Slow(), RequestPipeline()), ConnectionLimits(Connections()), tls, lambda: 0)
    port = https.listen("127.0.0.1:0")
    async with HTTPSChannel(f"https://127.0.0.1:{port}", TLS(tls.authority)) as channel:
        call = asyncio.create_task(SubmissionCaller(channel).submit(HERE, submission(1), CALL_SECONDS))
        await began.wait()
        closing = asyncio.create_task(https.close(CALL_SECONDS))
        await asyncio.sleep(0)
        go.set()
        assert await call == receipt(1)
        await closing
        with pytest.raises(Unreachable, match="refused"):
            await SubmissionCaller(channel).get_round(TASK, 3, CALL_SECONDS)


async def test_pages_of_the_origins_that_are_set_may_call_and_others_not(tls: TLS) -> None:
    connection_limits = ConnectionLimits(Connections(), origins=("https://app.example",))
    ask = {"access_control_request_method": "POST", "content_type": "", **CLOSE}

    def attack(port: int) -> list[bytes]:
        return [
            asked(port, tls, written("OPTIONS", SUBMIT, origin=origin, **ask))
            for origin in ("https://app.example", "https://other.example")
        ] + [asked(port, tls, written("POST", SUBMIT, REQUEST, origin="https://app.example", **CLOSE))]

    taken, other, called = await tried(tls, Recorder(answer=[receipt(1)]), attack, connection_limits=connection_limits)
    assert (https_port.status_of(taken), https_port.status_of(other), https_port.status_of(called)) == (204, 204, 200)
    for answer in (taken, called):
        assert headers_of(answer)["access-control-allow-origin"] == "https://app.example"
        assert "hubbub-reason" in headers_of(answer)["access-control-expose-headers"]
    assert "access-control-allow-origin" not in headers_of(other)


async def test_files_that_were_taken_anew_are_shown_from_then_on(tls: TLS, tmp_path: Path) -> None:
    files = make_tls(tmp_path / "first", "service")["service"]
    other = make_tls(tmp_path / "second", "service")["service"]
    renewals = 0
    https = HttpsServer(
        submission_router(Recorder(answer=[receipt(1)]), RequestPipeline()),
        ConnectionLimits(Connections()),
        files,
        lambda: renewals,
    )
    port = https.listen("127.0.0.1:0")
    for name in ("authority", "certificate", "key"):
        path = getattr(files, name)
        path.write_bytes(getattr(other, name).read_bytes())
    async with HTTPSChannel(f"https://127.0.0.1:{port}", TLS(other.authority)) as channel:
        caller = SubmissionCaller(channel)
        with pytest.raises(Distrusted):
            await caller.submit(HERE, submission(1), CALL_SECONDS)
        renewals = 1
        assert await caller.submit(HERE, submission(1), CALL_SECONDS) == receipt(1)
    await https.close(None)


async def test_a_taken_port_is_named(tls: TLS) -> None:
    async with opened(Recorder(), tls) as port:
        https = HttpsServer(
            submission_router(Recorder(), RequestPipeline()), ConnectionLimits(Connections()), tls, lambda: 0
        )
        with pytest.raises(HubbubError, match=PORT_IN_USE):
            https.listen(f"127.0.0.1:{port}")


async def test_answers_that_nobody_takes_are_bounded(tls: TLS) -> None:
    """One answer a connection is all there is: the next request is not read before it was taken."""
    pipeline = RequestPipeline(PortLimits(message_bytes=1024 * 1024))
    request = written("POST", SUBMIT, REQUEST)

    def attack(port: int) -> None:
        with raw(port, tls) as connection:
            connection.settimeout(0.2)
            try:
                for _ in range(20_000):
                    connection.sendall(request)
            except OSError:
                pass

    async with opened(Recorder(answer=[receipt(1)]), tls, pipeline) as port:
        await asyncio.to_thread(attack, port)
        async with asyncio.timeout(CALL_SECONDS):
            while pipeline.admission._bytes:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)


async def test_a_large_answer_is_given_to_tls_in_pieces_and_arrives_whole(
    tls: TLS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What TLS enciphers into is kept as long as a connection: a megabyte at once, and each would keep a megabyte."""
    pieces, write = [], ssl.SSLObject.write

    def noted(self: ssl.SSLObject, data: bytes) -> int:
        pieces.append(len(data))
        return write(self, data)

    monkeypatch.setattr(ssl.SSLObject, "write", noted)
    request = submission_pb2.SubmitBatchRequest(destination=codec.write_destination(HERE))
    request.submissions.extend([submission_pb2.Submission(id=bytes(17))] * 5000)
    sent = written("POST", "/hubbub.v1.SubmissionService/SubmitBatch", request.SerializeToString(), connection="close")
    answer = await tried(tls, Recorder(), lambda port: asked(port, tls, sent))
    body = answer.partition(b"\r\n\r\n")[2]
    assert len(submission_pb2.SubmitBatchResponse.FromString(body).answers) == 5000
    assert sum(pieces) == len(answer) > 4 * PIECE_BYTES
    assert max(pieces) <= PIECE_BYTES
