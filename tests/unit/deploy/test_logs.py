"""What must never be in a log is in none: real services, real devices, bad ones too, and secrets planted everywhere.

The lines of both services at level debug and everything else they print are searched for answers, submission ids, keys,
envelopes and what they hold, as text, hex and base64.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from hubbub.client.state import Drawn
from hubbub.deploy.local import LocalPipeline
from hubbub.protos.envelope import Destination, Sealer
from hubbub.protos.keys import Role
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task import Draft, Privacy, Schedule
from hubbub.protos.transport import TLS, open_channel
from hubbub.protos.wire import SubmissionCaller
from hubbub.queries.histogram import Histogram
from hubbub.queries.number import Number
from hubbub.service.erasing import put_away
from support.planted import forms, found_in, in_key_files

pytestmark = pytest.mark.slow

DEVICES = 20
ANSWERS = ("planted-answer-heliotrope", "planted-answer-vermilion")
DRAFT = Draft(
    "kiosks",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    DEVICES,
    Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0),
    (Histogram("theme", ANSWERS), Number("session", 0.0, 60.0, "minutes", optional=True)),
)
DEADLINE = 10.0


class Planted:
    """Every secret of a run."""

    def __init__(self) -> None:
        self.secrets: set[bytes] = {answer.encode() for answer in ANSWERS}

    def add(self, submission: Submission | None) -> None:
        if submission is not None:
            self.secrets |= {submission.id, submission.envelope[:16], submission.envelope[-16:]}

    def add_keys(self, folder: Path) -> None:
        """The private part of every key file of the parties."""
        self.secrets |= in_key_files(folder)


async def submit(pipeline: LocalPipeline, planted: Planted, number: int) -> None:
    name = f"planted-device-{number}"
    planted.secrets.add(name.encode())
    async with pipeline.device(name) as device:
        sealed = device._sealed

        def noting(sealer: Sealer, drawn: Drawn) -> Submission:
            submission = sealed(sealer, drawn)
            planted.add(submission)
            return submission

        device._sealed = noting  # type: ignore[method-assign]
        answer = ANSWERS[number % 2]
        await device.submit({"theme": answer, "session": None if number % 4 == 0 else 20.0})


async def misbehave(pipeline: LocalPipeline, planted: Planted) -> set[Reason]:
    """Send what is refused, in every way there is, and bytes that are no message; return the reasons."""
    reasons = set()
    size = len(await _an_envelope(pipeline))
    async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
        caller = SubmissionCaller(channel)
        keys = await caller.get_round(pipeline.task.task.id, 0, DEADLINE)
        here = Destination(pipeline.task.task.id, 0, keys.hash)
        other = Destination(pipeline.task.task.id, 0, bytes(32))
        nowhere = Destination(os.urandom(32), 0, keys.hash)
        for to, length in ((here, size), (here, 40), (other, size), (nowhere, size)):
            submission = Submission(os.urandom(16), os.urandom(length))
            planted.add(submission)
            for answer in await caller.submit_batch(to, [submission], DEADLINE):
                assert isinstance(answer, Refusal)
                reasons.add(answer.reason)
        for method in ("Submit", "SubmitBatch", "GetRound"):
            garbage = os.urandom(60)
            planted.secrets.add(garbage[:20])
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary(f"/hubbub.v1.SubmissionService/{method}")(garbage, timeout=DEADLINE)
    return reasons


async def _an_envelope(pipeline: LocalPipeline) -> bytes:
    from hubbub.protos.envelope import outer_bytes

    return bytes(outer_bytes(pipeline.task.task.inner_bytes))


def log_everything(pipeline: LocalPipeline) -> None:
    for role in (Role.SHUFFLER, Role.ANALYZER):
        path = pipeline.folder.of(role.value) / f"{role.value}.toml"
        text = path.read_text()
        assert 'level = "info"' in text
        path.write_text(text.replace('level = "info"', 'level = "debug"').replace('"console"', '"json"'))
        (pipeline.logs / f"{role.value}.log").write_bytes(b"")


def damage_key(pipeline: LocalPipeline, planted: Planted) -> None:
    """Put a key that is none in the analyzer's store: opening fails where it holds the key and the envelopes."""
    key = b"planted-private-key"
    planted.secrets.add(key)
    with closing(sqlite3.connect(pipeline.folder.of("analyzer") / "data" / "analyzer.db")) as connection:
        connection.execute("UPDATE private_keys SET private = ?", (put_away(key),))
        connection.commit()


async def test_no_log_holds_an_answer_a_key_or_a_submission(tmp_path: Path) -> None:
    planted = Planted()
    async with LocalPipeline(DRAFT, tmp_path / "pipeline") as pipeline:
        for role in (Role.ANALYZER, Role.SHUFFLER):
            await pipeline.stop(role)
        log_everything(pipeline)
        for role in (Role.ANALYZER, Role.SHUFFLER):
            await pipeline.start(role)
        for number in range(DEVICES):
            await submit(pipeline, planted, number)
        reasons = await misbehave(pipeline, planted)
        assert reasons == {Reason.UNOPENABLE, Reason.WRONG_SIZE, Reason.KEY_SET_DIFFERS, Reason.UNKNOWN_TASK}
        # A failure that nobody foresaw, amid the analyzer's work with envelopes, and a shuffler that is killed.
        await pipeline.stop(Role.ANALYZER)
        damage_key(pipeline, planted)
        await pipeline.start(Role.ANALYZER)
        await pipeline.close_round(0)
        await _until_logged(pipeline.logs / "shuffler.log", b"not delivered")
        await pipeline.kill(Role.SHUFFLER)
        await pipeline.start(Role.SHUFFLER)
        planted.add_keys(pipeline.folder.root)
    text = b"".join(path.read_bytes() for path in sorted((tmp_path / "pipeline" / "logs").iterdir()))
    assert len(planted.secrets) > 5 * DEVICES
    assert found_in(text, planted.secrets) == []
    lines = [json.loads(line) for line in text.splitlines()]
    events = {line["event"] for line in lines}
    assert {"serving", "round", "closed by the operator", "not delivered"} <= events
    (failed, *_) = [line for line in lines if line["event"] == "a call failed"]
    assert "Traceback" in failed["exception"]
    assert "commit failed" in events
    assert {line["level"] for line in lines} >= {"info", "warning", "error"}


async def _until_logged(path: Path, words: bytes) -> None:
    async with asyncio.timeout(60):
        while words not in await asyncio.to_thread(path.read_bytes):
            pass


def test_the_search_itself_finds_what_is_planted(tmp_path: Path) -> None:
    secret = os.urandom(24)
    for form in forms(secret):
        assert found_in(b"a line with " + form + b" in it", [secret]) == [secret]
    assert found_in(b"a line", [secret]) == []
