"""Values that the stages and the store exchange."""

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
from hubbub.protos.task.schedule import Close
from hubbub.service.errors import StoreError as StoreError
from hubbub.shuffler.keys import RoundKeyMaterial

NOT_READY_SECONDS = 1.0
"""Seconds until a device may ask again for keys of a round whose analyzer has not answered yet."""

RETRIED = "retried"
"""The name under which retries are counted, among the refusals."""

ANY_ROUND = -1
"""The round of refusals for rounds that never began: they count for the task as a whole, so that nobody can fill the
store with them."""

DIGEST_BYTES = 16
"""Length of the digest that distinguishes a retry from a conflict."""

Tally = Counter[str]
"""Refusals by reason, and retries."""

RoundId = tuple[bytes, int]
"""A task's id, and a round's number."""

FINAL = frozenset({RoundState.ERASED, RoundState.EXPIRED})
"""States in which a round is over: only numbers are left of it."""


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
    """Why a round expired although it reached the minimum, for the operator."""


def is_over(round_: Round) -> bool:
    """Return whether only numbers are left of a round."""
    return round_.state in FINAL


@dataclass(frozen=True, init=False)
class Opened:
    """A submission whose outer layer is open: its id, its outer envelope's digest, its inner envelopes joined.

    The id is the submission's own, or its device's pseudonym in the round if devices are enrolled.
    """

    id: bytes = field(repr=False)
    digest: bytes
    inners: bytes = field(repr=False)

    def __init__(self, id: bytes, digest: bytes, inners: bytes) -> None:  # noqa: A002
        # Set directly, as in `Submission`: one is made for each submission.
        fields = self.__dict__
        fields["id"], fields["digest"], fields["inners"] = id, digest, inners


class InsertOutcome(Enum):
    """The result of storing a submission."""

    STORED = "new"
    DUPLICATE = "same"
    """Stored already, with the same bytes: a retry."""
    CONFLICT = "conflict"
    """The id is stored already, with other bytes."""
    CUT = "cut"
    """The round is cut already."""
    FULL = "full"
    """The round has as many submissions as it may have."""


@dataclass(frozen=True)
class StoredBatch:
    """A permuted list in the store; `committed` is true once the analyzer has confirmed it."""

    query: int
    digest: bytes
    record: SignedDocument
    committed: bool


def not_ready(number: int) -> Refusal:
    """Return the refusal for a round that has no keys yet."""
    return Refusal(
        Reason.NOT_READY,
        f"round {number} has no keys yet: the analyzer or a hop has not given its key; ask again shortly",
        NOT_READY_SECONDS,
    )
