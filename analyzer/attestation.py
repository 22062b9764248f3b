"""What was counted of a batch, signed by the analyzer when it is committed and checked when it is certified.

A round may wait for its certificate, and until then no digest that others hold binds its counts. Whoever has the disk
of the store, but not the analyzer's identity key, could change them in that time, or take a certificate away so that it
is made again over other counts. Neither is certified.
"""

from __future__ import annotations

import hashlib

from hubbub.analyzer.records import ReceivedBatch
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import canonical, check_signature, sign
from hubbub.protos.identity.formats import Label
from hubbub.protos.identity.keys import Identity
from hubbub.protos.messages import Committed
from hubbub.protos.records.counts import CountsDiffer
from hubbub.protos.task.signers import signers
from hubbub.protos.task.task import Task


def attestation(task: Task, batch: ReceivedBatch, counts: bytes, committed: Committed, identity: Identity) -> bytes:
    """Return the signature (64 bytes), by the analyzer that signs the round, of what was counted of a batch.

    Raises:
        SignatureError: if that identity's key is not here.
    """
    signer = identity.named(signers(task, batch.id.round).analyzer)
    return sign(Label.COUNTED, _body(batch, counts, committed), signer.key)


def check_attested(task: Task, batch: ReceivedBatch) -> None:
    """Return only if a committed batch is as it was when it was committed. It takes the time of one signature's check.

    Raises:
        CountsDiffer: where it was changed since, or nothing signed says what was counted.
    """
    what = f"batch {batch.id.query} of round {batch.id.round}"
    if batch.committed is None or batch.counts is None or batch.attestation is None:
        raise CountsDiffer(f"{what}: nothing that was signed when it was committed says what was counted")
    try:
        body = _body(batch, batch.counts, batch.committed)
        check_signature(Label.COUNTED, body, batch.attestation, signers(task, batch.id.round).analyzer)
    except SignatureError as error:
        raise CountsDiffer(f"{what}: what is stored is not what was counted when it was committed: {error}") from error


def _body(batch: ReceivedBatch, counts: bytes, committed: Committed) -> bytes:
    return canonical(
        {
            "counts": hashlib.sha256(counts).hexdigest(),
            "dummies": batch.dummies,
            "left_out": dict(committed.left_out),
            "query": batch.id.query,
            "released": batch.digest.hex(),
            "reports": batch.reports,
            "round": batch.id.round,
            "task": batch.id.task_id.hex(),
            "valid": committed.counted,
        }
    )
