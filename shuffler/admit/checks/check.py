"""What a check is: it looks at a call, and at its submissions that are not retries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.task import Task
from hubbub.shuffler.records import Round


@dataclass(frozen=True)
class Arrival:
    """A call as a check sees it: where its submissions say they go, the round there, the time, and the room for more.

    `now` is in seconds since 1970; `free` is how many more submissions may be in work, of `limit` at once. `revoked`
    are the numbers of enrolled devices that are admitted no more. `held` is how many submissions the round has;
    `disk_full` is the refusal where the disk has no room for more. `key_damaged`: the round's private key opens
    nothing.
    """

    task: Task
    round: Round
    destination: Destination
    now: float
    free: int
    limit: int
    revoked: Collection[bytes] = field(default=frozenset(), repr=False)
    held: int = 0
    disk_full: Refusal | None = None
    key_damaged: bool = False


Verdicts = Refusal | Sequence[Refusal | None] | None
"""Of submissions: None if all pass, one refusal where all are refused alike, else why each is refused, in order."""

Check = Callable[[Arrival, Sequence[Submission]], Verdicts]
"""Looks at those submissions of a call that passed the checks before it, all at once: what is alike for thousands of
submissions is decided once, and what is not costs no call for each."""
