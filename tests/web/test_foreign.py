"""Clients that nobody here wrote, before real services: by HTTP/2 through both proxies, by gRPC, and in a browser.

Each sends a submission that counts, then the same again, and what is refused; all of them get the same answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from pyqwest import HTTPVersion
from unit.service.transport.test_foreign_clients import CURL, by_connect, by_program
from web.conftest import Pages
from web.test_conformance import OPENED

from hubbub.client import Device
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.pki.authority import Authority
from hubbub.protos import codec
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Receipt, Submission
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.task import Draft, Privacy, Schedule
from hubbub.protos.transport.addresses import HTTPS
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.v1 import submission_pb2
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, verify
from support.caddy import caddy_before
from support.haproxy import proxy_before
from support.patience import PATIENCE
from support.raw_device import Visitor, keys_ready
from support.web_client import DIST, keys_of, node

BY_CONNECT = ("connect-node by HTTP/2", "connect-node by HTTP/2, JSON", "connect-node by HTTP/1.1")
BY_GRPC = ("grpc-js", "connect-node by gRPC")
IN_PAGE = "async words => (await import('/test/foreign_page.js')).called(...words)"
REFUSED = [
    {"error": ["InvalidArgument", "the task id has 5 bytes, but 32 are expected", "malformed"]},
    {"error": ["NotFound", "", "unknown_task"]},
    {"error": ["AlreadyExists", "", "id_conflict"]},
]


def draft(people: int) -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=600, rounds=1, close="operator")
    privacy = Privacy(epsilon=30.0, delta=1e-3, epsilon_local=20.0, honest_share=1.0)
    return Draft("foreign", schedule, people, privacy, (Histogram("theme", ("light", "dark")),), admission=OPEN)


class Callers:
    """What each client sends and must get; `people` have sent a submission that counts."""

    def __init__(self, visitor: Visitor, task: bytes) -> None:
        self._visitor, self._task = visitor, task
        self.people = 0

    def request(self, submission: Submission) -> submission_pb2.SubmitRequest:
        to, written = codec.write_destination(self._visitor.to), codec.write_submission(submission)
        return submission_pb2.SubmitRequest(destination=to, submission=written)

    def good(self) -> tuple[submission_pb2.SubmitRequest, submission_pb2.SubmitResponse]:
        """A submission that counts, and its answer."""
        self.people += 1
        submission = self._visitor.sealed()
        return self.request(submission), codec_answer(submission)

    def calls(self) -> tuple[list[dict[str, str]], list[Any]]:
        """The calls of a client, and their outcomes."""
        request, answer = self.good()
        short = submission_pb2.SubmitRequest(destination={"task_id": b"short"})
        other = submission_pb2.SubmitRequest()
        other.CopyFrom(request)
        other.destination.task_id = bytes(32)
        conflict = submission_pb2.SubmitRequest()
        conflict.CopyFrom(request)
        conflict.submission.envelope = self._visitor.sealed().envelope
        made = [request, request, short, other, conflict]
        calls = [{"method": "submit", "message": each.SerializeToString().hex()} for each in made]
        taken = {"answer": answer.SerializeToString().hex()}
        asked = submission_pb2.GetRoundRequest(task_id=self._task).SerializeToString().hex()
        return [{"method": "getRound", "message": asked}, *calls], [taken, taken, *REFUSED]


def codec_answer(submission: Submission) -> submission_pb2.SubmitResponse:
    return submission_pb2.SubmitResponse(receipt=codec.write_receipt(Receipt(submission.id, 0)))


def checked(outcomes: list[Any], wanted: list[Any], keys: set[str]) -> None:
    """Compare outcomes, but for the words of a refusal that name what was sent; note the keys of the round."""
    first, *others = outcomes
    keys.add(first["answer"])
    for outcome, want in zip(others, wanted, strict=True):
        if "error" in want and not want["error"][1]:
            outcome["error"][1] = ""
        assert outcome == want


async def test_clients_of_others_are_counted_through_proxies_and_in_a_browser(
    pages: Pages, started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some of these clients would call this machine through them.
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    async with (
        asyncio.timeout(PATIENCE),
        LocalPipeline(draft(20), tmp_path / "pipeline", https=True, behind_proxy=True) as pipeline,
        contextlib.AsyncExitStack() as held,
    ):
        direct, grpc = pipeline.shuffler.removeprefix(HTTPS), pipeline.services[Role.SHUFFLER].addresses["submission"]
        operator = pipeline.folder.of(Role.OPERATOR)
        authority = Authority.load(operator / "authority.key", operator / "tls" / "authority.pem")
        haproxy = held.enter_context(proxy_before(pipeline, tmp_path / "haproxy", http2=True))
        caddy = held.enter_context(caddy_before(direct, authority, tmp_path / "caddy"))
        proxies, tls = (haproxy.https, caddy), TLS(pipeline.authority)
        channel = await held.enter_async_context(open_channel(grpc, tls))
        await keys_ready(channel, [pipeline.task.task])
        callers = Callers(await Visitor.at(channel, pipeline.task.task), pipeline.task.task.id)
        keys = set[str]()
        await in_node(callers, pipeline, [*proxies, direct], [haproxy.address, grpc], keys, tmp_path)
        for place, address in enumerate(proxies):
            await in_page(callers, pages, address, keys)
            await devices(callers, pipeline, pages, address, tmp_path / f"{place}.db")
            for client in (
                by_connect(in_json=False, version=HTTPVersion.HTTP2),
                by_program("curl", *CURL, "--http2", "URL", in_json=False),
            ):
                request, answer = callers.good()
                assert await asyncio.to_thread(client, int(address.rpartition(":")[2]), tls, request) == answer
        assert len(keys) == 1
        assert (await pipeline.close_round()).submissions == callers.people
        results, named = await pipeline.results(), pipeline.task.task.identities
    verified = verify(results.certificate, Pins(named.operator, named.shuffler, named.analyzer))
    assert [each.reports for each in verified.records] == [callers.people]


async def in_node(
    callers: Callers, pipeline: LocalPipeline, https: list[str], grpc: list[str], keys: set[str], folder: Path
) -> None:
    """Have each client call each address, in one program."""
    parts, wanted = [], []
    for names, addresses in ((BY_CONNECT, https), (BY_GRPC, grpc)):
        for name in names:
            for address in addresses:
                # The port itself speaks HTTP/1.1 alone.
                if address != https[-1] or "HTTP/2" not in name:
                    calls, outcomes = callers.calls()
                    parts.append({"client": name, "address": address, "calls": calls})
                    wanted.append(outcomes)
    file = folder / "foreign.json"
    file.write_text(json.dumps({"authority": str(pipeline.authority), "parts": parts}))
    process = await asyncio.create_subprocess_exec(
        str(node()), str(DIST / "test" / "foreign.js"), str(file), stdout=subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    for found, outcomes in zip(json.loads(said), wanted, strict=True):
        checked(found, outcomes, keys)


async def in_page(callers: Callers, pages: Pages, address: str, keys: set[str]) -> None:
    """Have Connect's client for browsers call from a page of the shuffler's origin."""
    async with pages(f"https://{address}") as tab:
        await tab.open("/")
        for in_binary in (True, False):
            calls, wanted = callers.calls()
            found = await tab.page.evaluate(IN_PAGE, [in_binary, calls])
            checked(found["outcomes"], wanted, keys)
            assert found["versions"] == ["h2"] * len(calls)


async def devices(callers: Callers, pipeline: LocalPipeline, pages: Pages, address: str, state: Path) -> None:
    """Have devices of this project, in Python and in a page, answer there too."""
    url = f"https://{address}"
    device = Device(
        pipeline.task.encode(),
        operator_key=pipeline.operator_key,
        shuffler_key=pipeline.shuffler_key,
        state=state,
        shuffler=url,
        authority=pipeline.authority,
    )
    async with device:
        assert (await device.submit({"theme": "dark"})).used
    options = {**keys_of(pipeline.operator_key, pipeline.shuffler_key), "shuffler": url}
    async with pages(url) as tab:
        await tab.open("/")
        words = [{**options, "task": pipeline.task.encode().decode()}, {}, {"theme": "light"}]
        assert (await tab.page.evaluate(OPENED, words))["used"]
    callers.people += 2
