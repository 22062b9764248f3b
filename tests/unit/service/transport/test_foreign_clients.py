"""Clients that nobody here wrote call the HTTPS port: each takes the answer, and the error in its own form."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from connectrpc.client import ConnectClientSync
from connectrpc.errors import ConnectError
from connectrpc.method import IdempotencyLevel, MethodInfo
from google.protobuf import json_format
from pyqwest import HTTPVersion, SyncClient, SyncHTTPTransport
from unit.protos.test_rpc import HERE, Recorder, receipt, submission

from hubbub.protos import codec
from hubbub.protos.transport.channels import TLS
from hubbub.protos.v1 import submission_pb2
from support.https_port import SUBMIT, opened
from support.patience import CALL_SECONDS
from support.samples import make_tls

GOOD = submission_pb2.SubmitRequest(
    destination=codec.write_destination(HERE), submission=codec.write_submission(submission(1))
)
BAD = submission_pb2.SubmitRequest(destination={"task_id": b"short"})
ANSWER = submission_pb2.SubmitResponse(receipt=codec.write_receipt(receipt(1)))
REFUSED = "invalid_argument", "the task id has 5 bytes, but 32 are expected"

Called = Callable[[int, TLS, submission_pb2.SubmitRequest], submission_pb2.SubmitResponse | tuple[str, str]]
"""Makes a call by a client, at a port; returns the answer, or the code and the message of the error."""


def by_connect(*, in_json: bool, version: HTTPVersion = HTTPVersion.HTTP1) -> Called:
    """Connect's client for Python."""

    def called(port: int, tls: TLS, request: submission_pb2.SubmitRequest) -> object:
        assert isinstance(tls.authority, Path)
        method = MethodInfo(
            name="Submit",
            service_name="hubbub.v1.SubmissionService",
            input=submission_pb2.SubmitRequest,
            output=submission_pb2.SubmitResponse,
            idempotency_level=IdempotencyLevel.UNKNOWN,
        )
        transport = SyncHTTPTransport(tls_ca_cert=tls.authority.read_bytes(), http_version=version)
        client = ConnectClientSync(
            f"https://127.0.0.1:{port}",
            proto_json=in_json,
            send_compression=None,
            timeout_ms=int(1000 * CALL_SECONDS),
            http_client=SyncClient(transport),
        )
        try:
            return client.execute_unary(request=request, method=method)
        except ConnectError as error:
            return error.code.value, error.message

    return called  # type: ignore[return-value]


def read(answer: bytes, *, in_json: bool) -> object:
    """What an answer says, by its form."""
    if answer.startswith(b'{"code"'):
        error = json.loads(answer)
        return error["code"], error["message"]
    found = submission_pb2.SubmitResponse()
    return json_format.Parse(answer, found) if in_json else submission_pb2.SubmitResponse.FromString(answer)


def by_program(program: str, *arguments: str, in_json: bool) -> Called:
    """A program that reads the message from stdin, and writes the answer to stdout."""

    def called(port: int, tls: TLS, request: submission_pb2.SubmitRequest) -> object:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on this machine")
        body = json_format.MessageToJson(request).encode() if in_json else request.SerializeToString()
        filled = {
            "URL": f"https://127.0.0.1:{port}{SUBMIT}",
            "AUTHORITY": str(tls.authority),
            "FORM": f"application/{'json' if in_json else 'proto'}",
        }
        said = "\0".join(arguments)
        for name, value in filled.items():
            said = said.replace(name, value)
        done = subprocess.run([program, *said.split("\0")], input=body, capture_output=True, timeout=CALL_SECONDS)
        assert done.returncode == 0, done.stderr.decode()
        return read(done.stdout, in_json=in_json)

    return called  # type: ignore[return-value]


CURL = ("--silent", "--show-error", "--cacert", "AUTHORITY", "--header", "content-type: FORM", "--data-binary", "@-")
CHUNKED = ("--header", "transfer-encoding: chunked")
# Node's own client does not know the length of a message that is written in pieces, so it sends chunks.
NODE = """
const https = require("https"), fs = require("fs");
const body = fs.readFileSync(0), half = body.length >> 1;
const headers = {"content-type": "FORM"};
const request = https.request("URL", {method: "POST", headers, ca: fs.readFileSync("AUTHORITY")}, (answer) => {
  answer.pipe(process.stdout);
});
request.write(body.subarray(0, half));
request.end(body.subarray(half));
"""

CLIENTS = {
    "connect for Python": by_connect(in_json=False),
    "connect for Python, JSON": by_connect(in_json=True),
    "curl": by_program("curl", *CURL, "URL", in_json=False),
    "curl, JSON": by_program("curl", *CURL, "URL", in_json=True),
    "curl, chunked": by_program("curl", *CURL, *CHUNKED, "URL", in_json=False),
    "node, chunked": by_program("node", "--eval", NODE, in_json=False),
    "node, chunked JSON": by_program("node", "--eval", NODE, in_json=True),
}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    return make_tls(tmp_path_factory.mktemp("tls"), "service")["service"]


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """These clients would call this machine through them."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_of_others_reads_the_answer_and_the_error(tls: TLS, name: str) -> None:
    handler = Recorder(answer=[receipt(1)])
    async with opened(handler, tls) as port:
        assert await asyncio.to_thread(CLIENTS[name], port, tls, GOOD) == ANSWER
        assert handler.calls == [("submit", HERE, (submission(1),))]
        assert await asyncio.to_thread(CLIENTS[name], port, tls, BAD) == REFUSED
    assert len(handler.calls) == 1
