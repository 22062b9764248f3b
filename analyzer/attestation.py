"""Signs the counts of a batch when it is committed, and checks them when it is certified.

A round may wait for its certificate, and until then no digest that others have binds its counts. An attacker with the
store's disk, but without the analyzer's identity key, could change them meanwhile. They could also remove a
certificate, so that it is made again over other counts. Neither is certified.
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
from hubbub.protos.task.task import Task, signers


def attestation(task: Task, batch: ReceivedBatch, counts: bytes, committed: Committed, identity: Identity) -> bytes:
    """Return the signature (64 bytes) of a batch's counts, by the analyzer's identity that signs the round.

    Raises:
        SignatureError: if that identity's key is not here.
    """
    signer = identity.named(signers(task, batch.id.round).analyzer)
    return sign(Label.COUNTED, _body(batch, counts, committed), signer.key)


def check_attested(task: Task, batch: ReceivedBatch) -> None:
    """Return only if a committed batch is as it was at its commit. This takes the time of one signature check.

    Raises:
        CountsDiffer: if it was changed since, or its counts have no signature.
    """
    what = f"batch {batch.id.query} of round {batch.id.round}"
    if batch.committed is None or batch.counts is None or batch.attestation is None:
        raise CountsDiffer(f"{what}: its counts have no signature from the commit")
    try:
        body = _body(batch, batch.counts, batch.committed)
        check_signature(Label.COUNTED, body, batch.attestation, signers(task, batch.id.round).analyzer)
    except SignatureError as error:
        raise CountsDiffer(f"{what}: the stored counts are not those of the commit: {error}") from error


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
