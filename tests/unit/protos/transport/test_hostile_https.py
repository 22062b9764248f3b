"""Whatever a server behind an https address sends, an error of its caller shows no escape of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.refusals import Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.https import HTTPSChannel
from hubbub.protos.transport.statuses import failure, unreachable
from support.patience import CALL_SECONDS
from support.samples import make_tls

ESCAPES = "\x1b]0;owned\x07\x9b31m\u202e"
"""A title of the terminal, a color by one byte, and a text from right to left."""

SHOWN = r"\x1b]0;owned\x07"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    return make_tls(tmp_path_factory.mktemp("tls"), "service")["service"]


@contextlib.asynccontextmanager
async def answering(tls: TLS, answer: bytes) -> AsyncIterator[str]:
    """A server that answers every request with these bytes; gives its address."""

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    assert isinstance(tls.certificate, Path)
    context.load_cert_chain(tls.certificate, tls.key)
    context.set_alpn_protocols(["http/1.1"])
    server = await asyncio.start_server(answered, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def said(status: str, body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{each}\r\n" for each in (*headers, "connection: close"))
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{lines}\r\n".encode("latin-1", "replace") + body


NAMED = b'"\\u001b]0;owned\\u0007\\u009b31m\\u202e"'

ANSWERS = {
    "a line that is no status": f"{ESCAPES}\r\n\r\n".encode(),
    "a status that is no number": f"HTTP/1.1 {ESCAPES} no\r\n\r\n".encode(),
    "a version that is none": f"HTTP/{ESCAPES} 200 OK\r\n\r\n".encode(),
    "a length that is none": f"HTTP/1.1 200 OK\r\ncontent-length: {ESCAPES}\r\n\r\n".encode(),
    "a piece without a length": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + ESCAPES.encode() + b"\r\n",
    "an error's message": said("503 no", b'{"code": "unavailable", "message": ' + NAMED + b"}"),
    "an error's code": said("503 no", b'{"code": ' + NAMED + b"}"),
    "an error that is no text": said("503 no", b'{"code": [' + NAMED + b'], "message": {' + NAMED + b": 1}}"),
    "a status's phrase": said(f"418 {ESCAPES}", b""),
    "a refusal's message": said(
        "400 no", b'{"code": "invalid_argument", "message": ' + NAMED + b"}", "hubbub-reason: malformed"
    ),
    "a refusal's reason": said("400 no", b'{"code": "unavailable"}', f"hubbub-reason: {ESCAPES}"),
    "a time to wait": said(
        "400 no",
        b'{"code": "unavailable"}',
        "hubbub-reason: not_ready",
        f"hubbub-retry-after-ms: {ESCAPES}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
async def test_no_escape_of_a_server_reaches_its_callers_error(tls: TLS, name: str) -> None:
    async with answering(tls, ANSWERS[name]) as address, HTTPSChannel(address, TLS(tls.authority)) as channel:
        with pytest.raises(HubbubError) as caught:
            await SubmissionCaller(channel).get_round(bytes(32), 0, CALL_SECONDS)
    text = caught.value.message if isinstance(caught.value, Refusal) else str(caught.value)
    assert text.isprintable()


async def test_what_is_escaped_is_shown(tls: TLS) -> None:
    answer = ANSWERS["a line that is no status"]
    async with answering(tls, answer) as address, HTTPSChannel(address, TLS(tls.authority)) as channel:
        with pytest.raises(Unreachable) as caught:
            await SubmissionCaller(channel).get_round(bytes(32), 0, CALL_SECONDS)
    assert SHOWN in str(caught.value)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED])
def test_grpcs_way_has_the_same_escapes(code: grpc.StatusCode) -> None:
    assert str(failure("it", code, ESCAPES, {})).isprintable()
    assert str(unreachable("it", ESCAPES)).isprintable()
    assert len(str(unreachable("it", "x" * 10**6))) < 10_000
