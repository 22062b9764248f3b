"""The vectors of calls: a server takes each message in each form, refuses the malformed, and duties are the page's."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from docs.test_wire import CALLS, table
from google.protobuf import json_format
from unit.protos.test_rpc import Recorder, receipt

from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.connect_codes import status_of
from hubbub.protos.transport.statuses import failure
from hubbub.protos.v1 import submission_pb2
from support.https_port import answers, opened, raw, written
from support.https_port import status_of as http_status_of
from support.samples import make_tls
from vectors.make_calls import FILE, chunked, encoded

KEPT = json.loads(FILE.read_bytes())
REQUESTS = [each for each in KEPT["messages"] if each["is"] == "request" and each["call"].startswith("Submit")]


def test_the_file_is_what_its_program_writes() -> None:
    assert encoded() == FILE.read_bytes()


@pytest.mark.parametrize("case", KEPT["messages"], ids=lambda case: f"{case['call']} {case['is']}")
def test_a_message_is_the_same_as_protobuf_and_as_json(case: dict[str, Any]) -> None:
    kind = getattr(submission_pb2, f"{case['call']}{case['is'].capitalize()}")
    message = kind.FromString(bytes.fromhex(case["proto"]))
    assert json_format.ParseDict(case["json"], kind()) == message
    # The same bytes again: no client has a reason to write another form.
    assert message.SerializeToString().hex() == case["proto"]


def test_each_call_has_a_request_and_a_response() -> None:
    found = {(case["call"], case["is"]) for case in KEPT["messages"]}
    service = submission_pb2.DESCRIPTOR.services_by_name["SubmissionService"]
    assert found == {(method.name, what) for method in service.methods for what in ("request", "response")}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    return make_tls(tmp_path_factory.mktemp("tls"), "service")["service"]


async def exchanged(tls: TLS, requests: list[bytes]) -> tuple[list[bytes], Recorder]:
    """The answers to requests, each on a connection of its own, and what the handler got."""
    handler = Recorder(answer=[receipt(1)])

    def all_of(port: int) -> list[bytes]:
        found = []
        for request in requests:
            with raw(port, tls) as connection:
                connection.sendall(request)
                found.append(answers(connection))
        return found

    async with opened(handler, tls) as port:
        return await asyncio.to_thread(all_of, port), handler


def request_of(call: str, body: bytes, **headers: str) -> bytes:
    return written("POST", f"/hubbub.v1.SubmissionService/{call}", body, connection="close", **headers)


async def test_a_server_takes_each_form_alike(tls: TLS) -> None:
    sent = []
    for case in REQUESTS:
        written_as_json = json.dumps(case["json"]).encode()
        sent += [
            request_of(case["call"], bytes.fromhex(case["proto"])),
            request_of(case["call"], written_as_json, content_type="application/json"),
        ]
    _, handler = await exchanged(tls, sent)
    assert len(handler.calls) == len(sent) == 4
    assert handler.calls[::2] == handler.calls[1::2]


async def test_a_server_takes_chunks_and_refuses_too_small_ones(tls: TLS) -> None:
    in_chunks = {"transfer_encoding": "chunked", "content_length": ""}
    sent = [request_of(case["call"], bytes.fromhex(case["body"]), **in_chunks) for case in KEPT["chunked"]]
    found, handler = await exchanged(tls, sent)
    taken = [case["taken"] for case in KEPT["chunked"]]
    assert [http_status_of(answer) == 200 for answer in found] == taken
    assert len(handler.calls) == sum(taken)
    for case in KEPT["chunked"]:
        assert chunked(bytes.fromhex(case["proto"]), case["size"]).hex() == case["body"]


async def test_a_server_refuses_the_malformed(tls: TLS) -> None:
    sent = [request_of(case["call"], bytes.fromhex(case["proto"])) for case in KEPT["malformed"]]
    found, handler = await exchanged(tls, sent)
    assert [http_status_of(answer) for answer in found] == [400] * len(sent)
    assert all(b"hubbub-reason: malformed\r\n" in answer for answer in found)
    assert handler.calls == []


@pytest.mark.parametrize("case", KEPT["refusals"], ids=lambda case: case["reason"])
def test_a_refusal_is_read_as_it_was_made(case: dict[str, Any]) -> None:
    told, headers = json.loads(case["body"]), case["headers"]
    found = failure("the shuffler", status_of(told["code"]), told["message"], headers)
    part = submission_pb2.Answer.FromString(bytes.fromhex(case["part"])).refusal
    assert isinstance(found, Refusal)
    assert found.reason == part.reason == case["reason"]
    assert (found.retry_after or 0) * 1000 == part.retry_after_ms == int(headers.get("hubbub-retry-after-ms", 0))


def test_duties_are_those_of_the_page() -> None:
    rows = table(CALLS, "What a refusal obliges to")
    for case in KEPT["refusals"]:
        (duty,) = (duty for cell, duty, _ in rows if f"`{case['reason']}`" in cell)
        assert duty == case["duty"]
    assert {case["reason"] for case in KEPT["refusals"]} <= set(Reason)
    statuses = {each["status"]: each["duty"] for each in KEPT["without_reason"]}
    assert {status for status, duty in statuses.items() if duty == "again"} == {408, 429, 500, 502, 503, 504}


def test_the_readme_names_each_file() -> None:
    folder: Path = FILE.parent
    named = (folder / "README.md").read_text()
    assert [path.name for path in folder.glob("*.json") if f"`{path.name}`" not in named] == []
