"""A batch as a hop's store holds it."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.protos.identity.documents import SignedDocument
from hubbub.service.receiving.receiver import Delivery


@dataclass(frozen=True)
class HopBatch(Delivery):
    """A batch on its way through. `mixed` is the hop's own record once its list is stored, with the list's digest.

    What arrived is erased with the same transaction; the list itself once the next party has acknowledged it.
    """

    mixed: SignedDocument | None
    mixed_digest: bytes


@dataclass(frozen=True)
class HopRoundStatus:
    """How far a round is at a hop: its key, its batches, how many are announced, permuted and acknowledged."""

    task_id: bytes
    round: int
    has_key: bool
    announced: int
    mixed: int
    passed_on: int
