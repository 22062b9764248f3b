"""Every layer in its suite, and nothing of another suite gets in."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.enrollment.credentials import KEY_BYTES, Credential
from hubbub.protos.messages import Redemption, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.sealing.suites import MLKEM768_X25519, X25519
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.fleets import fleet_of
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import FEW

DEVICES = 120
DRAFT = Draft(
    "usage",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    DEVICES,
    Privacy(epsilon=20.0, delta=1e-2, epsilon_local=20.0, dummies=30, large_delta=FEW),
    (Histogram("theme", ("light", "dark")), Number("session", 0.0, 60.0, optional=True)),
    suite=MLKEM768_X25519.name,
)


async def sent_in_x25519(pipeline: LocalPipeline) -> Refusal:
    """Send what a device would that seals in the other suite, keys of its own included; return what it is told."""
    task = pipeline.task.task
    async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
        caller = SubmissionCaller(channel)
        key_set = await caller.get_round(task.id, 0, CALL_SECONDS)
        records = key_set.read(task.id, 0, task.suite, task.identities.shuffler, task.identities.analyzer)
        assert [(record.suite, len(record.public_key)) for record in records] == [(MLKEM768_X25519.name, 1216)] * 2
        here = Destination(task.id, 0, key_set.hash)
        sealer = Sealer(here, X25519.generate_key()[1], X25519.generate_key()[1], X25519)
        inners = [sealer.inner(bytes(query.report_bytes), place) for place, query in enumerate(task.queries)]
        submission_id = os.urandom(16)
        submission = Submission(submission_id, sealer.outer(inners, submission_id))
        (credential,) = await caller.enroll(
            [Redemption(pipeline.ticket("another"), os.urandom(KEY_BYTES))], CALL_SECONDS
        )
        assert isinstance(credential, Credential)
        with pytest.raises(Refusal) as caught:
            await caller.submit(here, credential.proven(here, submission), CALL_SECONDS)
    return caught.value


# tests/cli/test_demo.py has a round in that suite, tests/unit/protos/sealing every layer.
@pytest.mark.exhaustive
async def test_every_layer_is_sealed_and_opened_in_the_task_s_suite(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), LocalPipeline(DRAFT, tmp_path / "pipeline") as pipeline:
        task = pipeline.task.task
        assert task.outer_bytes == 3 * 1136 + sum(query.report_bytes for query in task.queries)
        answers = [(str(device), {"theme": "dark", "session": 20.0}) for device in range(DEVICES)]
        async with fleet_of(pipeline, "fleet") as carrier:
            assert (await carrier.submit_many(answers, 0)).accepted == DEVICES
        # A round that has taken reports has its keys: there is nothing to wait for.
        refused = await sent_in_x25519(pipeline)
        await pipeline.close_round(0)
        results = await pipeline.results(0)
    assert refused.reason is Reason.WRONG_SIZE
    assert f"this task's have {task.outer_bytes}" in refused.message
    identities = task.identities
    # Every report and every dummy was opened: none is left out.
    verified = verify(results.certificate, Pins(identities.operator, identities.shuffler, identities.analyzer))
    assert [(query["valid"], query["dummies"]) for query in verified.content["queries"]] == [(DEVICES, 30)] * 2
    assert verified.task.hpke is MLKEM768_X25519
    for written in (f'"suite":"{X25519.name}"', '"suite":"MLKEM1024-P384"'):
        changed = results.certificate.replace(b'"suite":"MLKEM768-X25519"', written.encode())
        assert changed != results.certificate
        with pytest.raises(VerificationError):
            verify(changed, Pins())
