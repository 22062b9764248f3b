"""The records of a hop's store."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.protos.identity.documents import SignedDocument
from hubbub.service.receiving.receiver import Delivery


@dataclass(frozen=True)
class HopBatch(Delivery):
    """A batch on its way through. `mixed` is the hop's own record once its list is stored, with the list's digest.

    The arrived envelopes are erased in the same transaction; the list is erased once the next party has acknowledged
    it.
    """

    mixed: SignedDocument | None
    mixed_digest: bytes


@dataclass(frozen=True)
class HopRoundStatus:
    """The progress of a round at a hop: its key, and the numbers of batches announced, permuted and acknowledged."""

    task_id: bytes
    round: int
    has_key: bool
    announced: int
    mixed: int
    passed_on: int
