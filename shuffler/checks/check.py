"""What a check is: it looks at a call once, and then at each of its submissions that is not a retry."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from hubbub.protos.envelope import Destination
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.task import Task
from hubbub.shuffler.records import Round


@dataclass(frozen=True)
class Arrival:
    """A call as a check sees it: where its submissions say they go, the round there, the time, and the room for more.

    `now` is in seconds since 1970; `room` is how many more submissions may be in work, of `limit` at once. `revoked`
    are the numbers of enrolled devices that are admitted no more. `held` is how many submissions the round has;
    `no_room` is the refusal where the disk has no room for more. `key_damaged`: the round's private key opens nothing.
    """

    task: Task
    round: Round
    destination: Destination
    now: float
    room: int
    limit: int
    revoked: Collection[bytes] = field(default=frozenset(), repr=False)
    held: int = 0
    no_room: Refusal | None = None
    key_damaged: bool = False


Verdict = Callable[[Submission], Refusal | None]
"""Says of one submission why it is refused, None where it passes. It is asked only where the checks before passed."""

Check = Callable[[Arrival], Verdict]
"""Looks at a call, once, so that what is alike for thousands of submissions is decided once."""


def passes(_submission: Submission) -> None:
    """The verdict of a check that nothing of a call can fail; it need not be asked."""


def all_alike(refusal: Refusal | None) -> Verdict:
    """Return the verdict that is the same for every submission of a call."""
    return passes if refusal is None else lambda _submission: refusal
