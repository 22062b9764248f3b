"""Finds out, before a standby's turn, what it lacks to act as the leader: tasks, successions, or private keys.

A leader's files are copied to a standby by hand. What is missing there would otherwise show when it takes over, with
nobody left to keep the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.messages import RoundState
from hubbub.protos.task.schedule import first_not_cut, prepared_from
from hubbub.protos.task.task import Task, signers
from hubbub.shuffler.keys import check_signers
from hubbub.shuffler.records import FINAL, Round
from hubbub.shuffler.tasks import Tasks

_SIGNING = frozenset({RoundState.OPEN, RoundState.CUT})
"""States in which the shuffler still has to sign a round's batches."""


class Readiness:
    """Checks if this process could lead the rounds in its database.

    `own` reads its identity and tasks from their files. `taken` reads the tasks that the leader took of its feed, and
    `rounds` the rounds in the database that are not over. `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        own: Callable[[], tuple[Identity, Tasks]],
        taken: Callable[[], Tasks],
        rounds: Callable[[], Sequence[Round]],
        clock: Callable[[], float],
    ) -> None:
        self._own = own
        self._taken = taken
        self._rounds = rounds
        self._clock = clock
        self._read: tuple[Identity, Tasks] | None = None

    def check(self) -> None:
        """Return only if nothing is known to be missing; blocks on files and the database.

        Files are read at the first call, and again after a call that found something missing.

        Raises:
            StoreError: if the database cannot be read.
            HubbubError: if an identity, a task or a succession cannot be used, or is missing.
        """
        self._read = self._read or self._own()
        rounds = self._rounds()
        try:
            identity, tasks = self._read
            # Read each time: the leader may have taken an entry since.
            check_able(identity, {**self._taken(), **tasks}, rounds, self._clock())
        except HubbubError:
            self._read = None
            raise


def check_able(identity: Identity, tasks: Tasks, rounds: Iterable[Round], now: float) -> None:
    """Return only if a shuffler with this identity and these tasks could lead the rounds, and begin the next ones.

    Raises:
        SignatureError: if a private key is missing that signs a round, or a succession that a round's keys were made
            under.
        KeyRecordError: if a round's keys are of another task or round.
    """
    for task in tasks.values():
        for public in _next_signers(task, now):
            identity.named(public)
    for round_ in rounds:
        task_of = tasks.get(round_.task_id)
        if task_of is None or round_.state in FINAL:
            continue
        if round_.keys is not None:
            check_signers(task_of, round_.number, round_.keys.key_set)
        if round_.state in _SIGNING:
            identity.named(signers(task_of, round_.number).shuffler)


def _next_signers(task: Task, now: float) -> Iterator[bytes]:
    """Yield the shuffler's identities (32 bytes) that sign the rounds from the first that is not cut to the last."""
    first, last = first_not_cut(task.schedule, now), task.last_round
    if first > last:
        return
    yield signers(task, first).shuffler
    if task.lineage is None:
        return
    # Not round by round: a task may have many thousands of rounds, and an identity signs those after its beginning.
    start, end = prepared_from(task.schedule, first), prepared_from(task.schedule, last)
    yield from (each.identity for each in task.lineage.held[Role.SHUFFLER] if start < each.since <= end)
