"""Defines a check: a function of a call, and of the call's submissions that are not retries."""

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
    """A call as a check sees it: the destination of its submissions, their round, the time, and the room for more.

    `now` is in seconds since 1970; `free` is how many more submissions may be in work, of `limit` at once. `revoked`
    are the numbers of revoked devices. `held` is how many submissions the round has. `disk_full` is the refusal if the
    disk has no room for more. `key_damaged` is true if the round's private key cannot open envelopes.
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
"""Of submissions: None if all pass, one refusal if all are refused alike, else each one's refusal or None, in order."""

Check = Callable[[Arrival, Sequence[Submission]], Verdicts]
"""Checks all submissions of a call that passed the earlier checks, together. A property that thousands of submissions
share is checked once, and other properties cost no function call for each submission."""
