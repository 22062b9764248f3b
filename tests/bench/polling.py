"""Submitting while the dashboard's pages are asked for again and again, against the same without.

The dashboard is a process of its own with the operator's settings, as people run it. Its page of services asks both
services at each look, and the page of a task asks the analyzer.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cores import all_cores
from row import Outcome, Row
from submitting import SUBMIT_BATCH, TASK, _batches, _in_uvloop, _made, _master, _proven, now, sent

from hubbub.client.submit import Retrying
from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import KeyRecord, Role
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.channels import TLS, open_channel

BATCHES, DEVICES = 200, 100
"""Calls in one run, and devices of each."""

AT_A_TIME = 8
"""Calls on their way at a time."""

RUNS = 5
"""Runs with and without the page, by turns."""

PAUSE = 1.0
"""Seconds between two looks at both pages."""


def polled() -> Iterator[Outcome]:
    """One row, on one running deployment."""
    with all_cores() as pool:
        yield asyncio.run(_measured(pool))


async def _measured(pool: Any) -> Row:
    async with LocalPipeline(TASK.format(start=now())) as pipeline:
        await _in_uvloop(pipeline)
        async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
            caller = SubmissionCaller(channel)
            key_set = await Retrying().retry(partial(caller.get_round, pipeline.task.task.id, 0))
            to = Destination(pipeline.task.task.id, 0, key_set.hash)
            public = KeyRecord.read(key_set.shuffler, pipeline.shuffler_key).public_key
            made = _proven(_master(pipeline), to, await _made(pool, public, to, 2 * RUNS * BATCHES * DEVICES))
            requests = _batches(to, made, DEVICES)
            rates: dict[bool, list[float]] = {False: [], True: []}
            settings = _settings(pipeline)
            for run in range(2 * RUNS):
                part = requests[run * BATCHES : (run + 1) * BATCHES]
                looks = run % 2 == 1
                with polling(settings, pipeline.task.task.id.hex()) if looks else contextlib.nullcontext():
                    seconds = (await sent([channel], SUBMIT_BATCH, part, AT_A_TIME)).seconds
                rates[looks].append(BATCHES * DEVICES / seconds)
    return Row.of("submit_polled", "devices/s", rates[True], rates[False])


def _settings(pipeline: LocalPipeline) -> Path:
    """Return the operator's settings, with the ports that the services chose."""
    path = pipeline.folder.of(Role.OPERATOR) / "operator.toml"
    for party, port in ((Role.SHUFFLER, "control"), (Role.ANALYZER, "results")):
        change(path, f"{party.value}_{port}", pipeline.services[party].addresses[port])
    return path


@contextlib.contextmanager
def polling(settings: Path, task_id: str) -> Iterator[None]:
    """Have a dashboard's pages asked for meanwhile; every one of them must answer."""
    command = [sys.executable, "-m", "hubbub.cli.main", "dashboard", str(settings), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = urlsplit(_document(process)["address"])
            ended, failed = threading.Event(), list[str]()
            looked = partial(_look, str(address.hostname), address.port or 0, address.query, task_id, ended, failed)
            looking = threading.Thread(target=looked)
            looking.start()
            try:
                yield
            finally:
                ended.set()
                looking.join()
            if failed:
                raise RuntimeError(f"the dashboard did not answer: {failed[0]}")
        finally:
            process.kill()


def _document(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the dashboard ended before it printed its address")
        text += line
    found: dict[str, str] = json.loads(text)
    return found


def _look(host: str, port: int, query: str, task_id: str, ended: threading.Event, failed: list[str]) -> None:
    """Look at both pages until `ended`, at least once."""
    connection = http.client.HTTPConnection(host, port)
    connection.request("GET", f"/?{query}")
    first = connection.getresponse()
    first.read()
    headers = {"cookie": (first.getheader("set-cookie") or "").partition(";")[0]}
    while True:
        for path in ("/services", f"/task/{task_id}"):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                failed.append(f"{path}: {answer.status}")
        if ended.wait(PAUSE):
            return


ROWS = (polled,)
