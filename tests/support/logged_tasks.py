"""Tasks that demand a transparency log, and proofs that documents are in it, made in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hubbub.protos.identity.keys import Identity
from hubbub.protos.merkle import leaf_hash, tree_of
from hubbub.protos.task.task import Task
from hubbub.protos.transparency_log.checkpoint import Checkpoint, SignedCheckpoint
from hubbub.protos.transparency_log.policy import LogPolicy
from hubbub.protos.transparency_log.proofs import LoggedProof
from hubbub.protos.transparency_log.signed_notes import NoteKey, NoteRole
from support.transparency_logs import LOG, LOG_KEY, NOW, WITNESS_KEYS, WITNESSES

POLICY = LogPolicy(LOG_KEY, WITNESS_KEYS, 2)
"""Two of three witnesses."""

NOISE = (b"another document", b"one more")
"""What else is in the log."""


def demanding(task: Task, policy: LogPolicy = POLICY) -> Task:
    """The same task, which must be in the log."""
    return replace(task, log=policy)


def checkpoint_of(
    documents: Sequence[bytes], witnesses: Sequence[int] = (0, 1), log: Identity = LOG, name: str = LOG_KEY.name
) -> SignedCheckpoint:
    """The checkpoint of a log with these documents, signed by it and by these witnesses."""
    root, _ = tree_of([leaf_hash(each) for each in documents])
    signed = SignedCheckpoint.made(Checkpoint(name, len(documents), root), log)
    for each in witnesses:
        signed = signed.witnessed(WITNESS_KEYS[each], WITNESSES[each], NOW)
    return signed


def proof_of(
    document: bytes, witnesses: Sequence[int] = (0, 1), log: Identity = LOG, name: str = LOG_KEY.name
) -> LoggedProof:
    """The proof of a document that is the second of three entries."""
    documents = (NOISE[0], document, NOISE[1])
    _, proofs = tree_of([leaf_hash(each) for each in documents])
    return LoggedProof(1, proofs[1].path, checkpoint_of(documents, witnesses, log, name))


def key_of(name: str, identity: Identity, role: NoteRole = NoteRole.WITNESS) -> NoteKey:
    """A key, as people hand it on by its name."""
    return NoteKey(name, role, identity.public)
