"""Prepares made-up devices, each with its credential and a sealed submission of a report without an answer.

They are prepared before the load, since sealing costs more processor time than sending. Their reports are like those of
dummies (`Randomizer.dummies`), so no answers are made up; nevertheless they count in the round's results.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

from hubbub.client.encode import seal
from hubbub.client.enrollment.credentials import redeem
from hubbub.client.session.rounds import VerifiedRoundKeys
from hubbub.client.submit import Retrying, RetryPolicy, ShufflerLink
from hubbub.protos.enrollment.credentials import KEY_BYTES, Credential
from hubbub.protos.identity.successions import read_successions
from hubbub.protos.messages import Redemption, Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.task import Task, connected, followed

CHUNK = 500
"""Devices between two updates of the progress, and tickets in one call."""

ENROLLING = RetryPolicy(total=3600.0, call=60.0)
"""How long redeeming tickets is retried: a shuffler limits the tickets per second by its settings."""


async def keys_of(link: ShufflerLink, task: Task, number: int, retrying: Retrying) -> VerifiedRoundKeys:
    """Return the keys of a round, checked to be of the task's services.

    Raises:
        Refusal, Unreachable: as calls to the shuffler do.
        SignatureError, KeyRecordError, SuccessionError: if the keys are not to be trusted.
    """
    key_set = await retrying.retry(lambda deadline: link.caller.get_round(task.id, number, deadline))
    successions = read_successions(key_set.successions)
    return VerifiedRoundKeys.read(key_set, followed(task, connected(task, successions)), number)


async def credentials_for(
    link: ShufflerLink, tickets: Sequence[bytes], progress: Callable[[int], None]
) -> list[Credential]:
    """Redeem tickets that were never redeemed, by fresh secrets; return their credentials in order.

    Raises:
        Refusal: if one is refused.
        Unreachable, MessageError: as calls to the shuffler do.
    """
    found: list[Credential] = []
    for start in range(0, len(tickets), CHUNK):
        some = tickets[start : start + CHUNK]
        asked = {str(place): Redemption(ticket, os.urandom(KEY_BYTES)) for place, ticket in enumerate(some)}
        answers = await redeem(link, asked, Retrying(ENROLLING))
        for place in asked:
            answer = answers[place]
            if isinstance(answer, Refusal):
                raise answer
            found.append(answer)
        progress(len(some))
    return found


def sealed(
    task: Task, keys: VerifiedRoundKeys, count: int, credentials: Sequence[Credential] | None
) -> Iterator[list[Submission]]:
    """Yield that many submissions without answers, in chunks, each proven by a credential if there are any.

    Raises:
        KeyRecordError: if the round's keys are not valid now.
    """
    sealer, to = keys.sealer(time.time()), keys.destination
    for start in range(0, count, CHUNK):
        some = min(CHUNK, count - start)
        columns = [_chunks(query.randomizer.dummies(some, os.urandom), query.report_bytes) for query in task.queries]
        made = [seal(sealer, reports, os.urandom(SUBMISSION_ID_BYTES)) for reports in zip(*columns, strict=True)]
        if credentials is not None:
            made = _proven(to, made, credentials[start : start + some])
        yield made


def _chunks(joined: bytes, length: int) -> list[bytes]:
    return [joined[start : start + length] for start in range(0, len(joined), length)]


def _proven(to: Destination, made: Sequence[Submission], credentials: Sequence[Credential]) -> list[Submission]:
    return [credential.proven(to, one) for credential, one in zip(credentials, made, strict=True)]


def unsupported_reason(task: Task) -> str:
    """Return why a task cannot be loaded, or an empty text: devices with certificates need separate connections."""
    if task.admission.mode is Mode.MTLS:
        return (
            f"task {task.name} admits by TLS certificates, and a load does not open a connection for each device; "
            "use `hubbub rehearse --certificates`"
        )
    return ""
