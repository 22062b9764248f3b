"""The values that the stages and the store exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from hubbub.protos.enrollment.admitted import MasterSecret as MasterSecret
from hubbub.protos.enrollment.admitted import RedeemedTicket as RedeemedTicket
from hubbub.protos.enrollment.admitted import Revoked as Revoked
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.task import Close
from hubbub.service.errors import StoreError as StoreError
from hubbub.shuffler.keys import RoundKeyMaterial

NOT_READY_SECONDS = 1.0
"""When a device may ask again for keys of a round whose analyzer has not answered yet."""

RETRIED = "retried"
"""Under this name retries are among the refusals' counts."""

ANY_ROUND = -1
"""Refusals for rounds that were never begun count for the task as a whole: nobody can fill the store with them."""

DIGEST_BYTES = 16
"""Length of the digest by which a retry is told from a conflict."""

Tally = Counter[str]
"""Refusals by reason, and retries."""

RoundId = tuple[bytes, int]
"""A task's id, and a round's number."""

FINAL = frozenset({RoundState.ERASED, RoundState.EXPIRED})
"""States in which a round is over: nothing but numbers is left of it."""


@dataclass(frozen=True)
class Round:
    """A round as it is on disk. `submissions` and `refusals_at_cut` are fixed at the cut, 0 and empty before."""

    key: int
    task_id: bytes
    number: int
    state: RoundState
    keys: RoundKeyMaterial | None = None
    submissions: int = 0
    closed_by: Close | None = None
    refusals_at_cut: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    """Why a round expired that was not under the minimum, for the operator."""


def is_over(round_: Round) -> bool:
    """Return whether a round holds nothing but numbers any more."""
    return round_.state in FINAL


@dataclass(frozen=True, init=False)
class Opened:
    """A submission whose outer layer is open: its id, its outer envelope's digest, its inner envelopes joined.

    The id is the submission's own, and its device's pseudonym in the round where devices are enrolled.
    """

    id: bytes = field(repr=False)
    digest: bytes
    inners: bytes = field(repr=False)

    def __init__(self, id: bytes, digest: bytes, inners: bytes) -> None:  # noqa: A002
        # As a `Submission` is made, and as often.
        fields = self.__dict__
        fields["id"], fields["digest"], fields["inners"] = id, digest, inners


class InsertOutcome(Enum):
    """What became of a submission at the store."""

    STORED = "new"
    DUPLICATE = "same"
    """Held already, with the same bytes: a retry."""
    CONFLICT = "conflict"
    """Its id is held already, with other bytes."""
    CUT = "cut"
    """The round was cut before."""
    FULL = "full"
    """The round holds the most that it may."""


@dataclass(frozen=True)
class StoredBatch:
    """A permuted list in the store: its query, its digest, its signed record; `committed` once the analyzer said so."""

    query: int
    digest: bytes
    record: SignedDocument
    committed: bool


def not_ready(number: int) -> Refusal:
    """Return the refusal of a round that has no keys yet."""
    return Refusal(
        Reason.NOT_READY,
        f"round {number} has no keys yet, those behind the shuffler are awaited; ask again",
        NOT_READY_SECONDS,
    )
