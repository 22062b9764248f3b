"""Says why the proof of a submission is wrong: it is compared with those that a client makes by mistake."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator

from hubbub.protos.enrollment.credentials import PROOF_BYTES
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import Destination

LABEL = b"hubbub/v1 submission proof"

RIGHT = (
    f"it is BLAKE2b with a digest of {PROOF_BYTES} bytes, keyed with the credential's key, over {LABEL.decode()!r}, a "
    "zero byte, the task id, the round in 4 bytes, the key set's hash, the submission id and the envelope"
)
"""What a proof is, in words."""


def why_proof(key: bytes, to: Destination, submission: Submission) -> str:
    """Return why the proof is not that of the credential with this key, as far as that can be found."""
    if len(submission.proof) != PROOF_BYTES:
        return f"the proof has {len(submission.proof)} bytes; {RIGHT}"
    for proof, wrong in _mistaken(key, to, submission):
        if proof == submission.proof:
            return f"{wrong}; {RIGHT}"
    return f"the proof is not that of this credential, destination, id and envelope; {RIGHT}"


def _mistaken(key: bytes, to: Destination, submission: Submission) -> Iterator[tuple[bytes, str]]:
    """Return wrong proofs, and what is wrong with each."""
    rest, right = submission.id + submission.envelope, LABEL + b"\0" + _written(to)
    whole = right + rest
    yield hashlib.blake2b(whole, key=key).digest()[:PROOF_BYTES], "it is the beginning of a digest of 64 bytes"
    yield _proof(key, whole, 32), "it is the beginning of a digest of 32 bytes"
    yield hashlib.blake2b(whole, digest_size=PROOF_BYTES).digest(), "it has no key"
    yield hashlib.blake2b(key + whole, digest_size=PROOF_BYTES).digest(), "the key is before the message"
    yield hmac.digest(key, whole, "blake2b")[:PROOF_BYTES], "it is an HMAC"
    yield hmac.digest(key, whole, "sha256")[:PROOF_BYTES], "it is an HMAC with SHA-256"
    yield _proof(submission.credential[:32], whole), "its key is the credential's id"
    for message, wrong in (
        (LABEL + _written(to) + rest, "there is no zero byte behind the label"),
        (_written(to) + rest, "the label is missing"),
        (LABEL + b"\0" + rest, "the destination is missing"),
        (LABEL + b"\0" + to.task_id + to.round.to_bytes(4, "little") + to.key_set_hash + rest, "the round is reversed"),
        (LABEL + b"\0" + to.task_id + to.round.to_bytes(8, "big") + to.key_set_hash + rest, "the round has 8 bytes"),
        (LABEL + b"\0" + to.task_id + to.round.to_bytes(4, "big") + rest, "the key set's hash is missing"),
        (right + submission.envelope, "the submission id is missing"),
        (right + submission.id, "the envelope is missing"),
        (right + submission.envelope + submission.id, "the envelope is before the submission id"),
    ):
        yield _proof(key, message), wrong


def _written(to: Destination) -> bytes:
    return to.task_id + to.round.to_bytes(4, "big") + to.key_set_hash


def _proof(key: bytes, message: bytes, size: int = PROOF_BYTES) -> bytes:
    return hashlib.blake2b(message, key=key, digest_size=size).digest()[:PROOF_BYTES]
