"""Random envelopes fill no round beyond its most, and a disk without room loses nothing."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from hubbub.client.submit import Retrying
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Answer, Receipt, RoundStatus, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from support.patience import CALL_SECONDS
from support.samples import FEW

MOST = 30
NO_DISK = 2**60
"""Bytes that no disk has free."""


def draft() -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=3600, rounds=1, close="operator")
    privacy = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW)
    return Draft("kiosks", schedule, 20, privacy, (Histogram("theme", ("dark", "light")),), OPEN, maximum_reports=MOST)


async def made(pipeline: LocalPipeline, count: int) -> tuple[Destination, list[Submission]]:
    """Submissions whose outer layer opens, around random bytes."""
    task = pipeline.task.task
    async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
        key_set = await Retrying().retry(partial(SubmissionCaller(channel).get_round, task.id, 0))
    ours = key_set.read(task.id, 0, task.suite, task.identities.shuffler, task.identities.analyzer)
    to = Destination(task.id, 0, key_set.hash)
    sealer = Sealer(to, *(each.public_key for each in ours), task.hpke)
    ids = [os.urandom(16) for _ in range(count)]
    noise = [Submission(each, sealer.outer([os.urandom(size) for size in task.inner_bytes], each)) for each in ids]
    return to, noise


async def sent(pipeline: LocalPipeline, to: Destination, submissions: list[Submission]) -> list[Answer]:
    async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
        return await SubmissionCaller(channel).submit_batch(to, submissions, CALL_SECONDS)


async def status(pipeline: LocalPipeline) -> RoundStatus:
    async with open_channel(pipeline.services[Role.SHUFFLER].addresses["control"], pipeline.operator_tls) as channel:
        (found,) = await ControlCaller(channel).get_status(pipeline.task.task.id, CALL_SECONDS)
    return found


async def reserving(pipeline: LocalPipeline, reserve: int) -> None:
    """Have the shuffler run with that `disk_reserve`."""
    await pipeline.stop(Role.SHUFFLER)
    pipeline._set(Role.SHUFFLER, "disk_reserve", reserve)
    await pipeline.start(Role.SHUFFLER)


def reasons(answers: list[Answer]) -> set[Reason]:
    return {answer.reason for answer in answers if isinstance(answer, Refusal)}


async def test_noise_ends_at_the_most_of_a_round_and_without_room_what_is_held_is_still_acknowledged(
    tmp_path: Path,
) -> None:
    async with LocalPipeline(draft(), tmp_path / "pipeline") as pipeline:
        to, noise = await made(pipeline, MOST + 20)
        receipts = [Receipt(each.id, 0) for each in noise]
        assert await sent(pipeline, to, noise[:25]) == receipts[:25]
        await reserving(pipeline, NO_DISK)
        assert await sent(pipeline, to, noise[:25]) == receipts[:25]
        assert reasons(await sent(pipeline, to, noise[25:26])) == {Reason.DISK_FULL}
        assert "the store takes nothing now" in (await status(pipeline)).waiting_for
        await reserving(pipeline, 0)
        assert await sent(pipeline, to, noise[25:MOST]) == receipts[25:MOST]
        assert reasons(await sent(pipeline, to, noise[MOST:])) == {Reason.ROUND_FULL}
        assert await sent(pipeline, to, noise[:MOST]) == receipts[:MOST]
        told = await status(pipeline)
        assert (told.submissions, told.refusals) == (MOST, {"disk_full": 1, "round_full": 20})
        assert f"it is full, with its maximum_reports = {MOST}" in told.waiting_for
        await pipeline.close_round(0)
        assert (await status(pipeline)).submissions == MOST
    # A thread writes the log, and it is whole once the service has ended.
    log = (tmp_path / "pipeline" / "logs" / "shuffler.log").read_text()
    assert (log.count("round full"), log.count("disk full: new submissions are refused")) == (1, 1)
