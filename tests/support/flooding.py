"""Who has no more than a task's file makes submissions up, as many as it wants, of reports it chose."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from hubbub.client.submit import Retrying
from hubbub.protos.enrollment.credentials import CREDENTIAL_BYTES, PROOF_BYTES
from hubbub.protos.messages import Answer, Submission
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination, Sealer
from hubbub.protos.task.task import Task
from hubbub.protos.transport.channels import TLS, open_channel
from support.patience import CALL_SECONDS

KNOWN = 0
"""The symbol that every made-up report is of."""


async def flood(shuffler: str, tls: TLS, task: Task, count: int) -> list[Answer]:
    """Send so many made-up submissions to round 0; return their answers. Half of them show a made-up credential."""
    async with open_channel(shuffler, tls) as channel:
        caller = SubmissionCaller(channel)
        key_set = await Retrying().retry(partial(caller.get_round, task.id, 0))
        ours = key_set.read(task.id, 0, task.suite, task.identities.shuffler, task.identities.analyzer)
        to = Destination(task.id, 0, key_set.hash)
        sealer = Sealer(to, ours[0].public_key, ours[1].public_key, task.hpke)
        reports = [KNOWN.to_bytes(query.report_bytes, "big") for query in task.queries]
        made_up = [_made_up(sealer, reports, number % 2 == 0) for number in range(count)]
        return await caller.submit_batch(to, made_up, CALL_SECONDS)


def _made_up(sealer: Sealer, reports: Sequence[bytes], bare: bool) -> Submission:
    submission_id = os.urandom(SUBMISSION_ID_BYTES)
    inners = [sealer.inner(report, query) for query, report in enumerate(reports)]
    shown = (b"", b"") if bare else (os.urandom(CREDENTIAL_BYTES), os.urandom(PROOF_BYTES))
    return Submission(submission_id, sealer.outer(inners, submission_id), *shown)
