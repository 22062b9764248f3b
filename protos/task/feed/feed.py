"""Defines the feed of a deployment's tasks: numbered entries that publish a task, or end one after a round.

Each entry names the hash of the entry before it, and is signed by the operator and the shuffler, as a task is. So there
is one order: whoever has taken an entry refuses another one with its number, a gap, and an older copy of the feed.
`entry` has the form of an entry, and `budgets` what the tasks of one purpose may spend together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from hubbub.protos.task.feed.budgets import PurposeBudget, PurposeSpending, ShareError
from hubbub.protos.task.feed.entry import MOST_ENTRIES, NOTHING_BEFORE, FeedEntry, FeedError, FeedPosition
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task


@dataclass(frozen=True)
class FeedPage:
    """Entries of a feed from a number on, in order, and the successions of those who sign; all as bytes, unchecked."""

    entries: tuple[bytes, ...] = ()
    successions: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Feed:
    """Entries in their order, from the first one on; each was checked to follow the one before."""

    entries: tuple[FeedEntry, ...] = ()

    @property
    def position(self) -> FeedPosition:
        """The position of its last entry."""
        return self.entries[-1].position if self.entries else FeedPosition()

    @cached_property
    def published(self) -> dict[bytes, SignedTask]:
        """The published tasks by id, also those that have ended."""
        return {each.task_id: each.signed for each in self.entries if each.signed is not None}

    @cached_property
    def log_proofs(self) -> dict[bytes, bytes]:
        """The proof of each published task that demands a transparency log, by the task's id."""
        return {each.task_id: each.log_proof for each in self.entries if each.log_proof is not None}

    @cached_property
    def ends(self) -> dict[bytes, int]:
        """The last round of each task that has ended, by its id; -1 for none."""
        return {each.task_id: each.after for each in self.entries if each.after is not None}

    def that_may_run(self, tasks: Iterable[Task]) -> list[Task]:
        """Return those tasks that the feed has not ended before their first round."""
        return [each for each in tasks if self.ends.get(each.id) != -1]

    @cached_property
    def spending(self) -> dict[str, PurposeSpending]:
        """What the tasks of each purpose take of its budget, by the purpose's name."""
        found = dict[str, PurposeSpending]()
        for each in self.entries:
            if each.budget is not None and each.signed is not None:
                before = found.get(each.budget.purpose, PurposeSpending(each.budget))
                found[each.budget.purpose] = before.with_task(each.signed.task)
        return found

    @cached_property
    def purposes(self) -> dict[str, str]:
        """The purpose of each task that has one, by the task's name."""
        named = ((each.signed, each.budget) for each in self.entries)
        return {
            signed.task.name: budget.purpose for signed, budget in named if signed is not None and budget is not None
        }

    def publishing(
        self, signed: SignedTask, budget: PurposeBudget | None = None, log_proof: bytes | None = None
    ) -> FeedEntry:
        """Return the next entry, which publishes this task for the purpose of a budget; nobody has signed it yet.

        Raises:
            FeedError: if the task was published before, or the budget does not allow it.
            NotLogged: if the task demands a transparency log, and the proof does not show that it is there.
        """
        who = signed.task.identities
        parts = (*self._next(), who.operator, who.shuffler, signed.task.id)
        entry = FeedEntry(*parts, signed=signed, budget=budget, log_proof=log_proof)
        self.check_next(entry)
        entry.check_logged()
        return entry

    def ending(
        self, task_id: bytes, after: int, operator: bytes | None = None, shuffler: bytes | None = None
    ) -> FeedEntry:
        """Return the next entry, which ends that task after a round; nobody has signed it yet.

        `operator` and `shuffler` sign it (32 bytes each), by default those of the last entry: since then, another
        identity may have succeeded one of them.

        Raises:
            FeedError: if no such task was published, it has no such round, or it has ended before.
        """
        who = self.entries[-1] if self.entries else FeedEntry(1, NOTHING_BEFORE, b"", b"", task_id)
        entry = FeedEntry(*self._next(), operator or who.operator, shuffler or who.shuffler, task_id, after)
        self.check_next(entry)
        return entry

    def _next(self) -> tuple[int, bytes]:
        last = self.position
        return last.number + 1, last.hash

    def check_next(self, entry: FeedEntry) -> None:
        """Check that an entry follows the last one; its signatures are checked by `FeedEntry.check`.

        Raises:
            FeedError: if it does not, or says what cannot be.
        """
        last = self.position
        if entry.number > MOST_ENTRIES and entry.after is None:
            raise FeedError(
                f"the feed has {last.number} entries, and entry {MOST_ENTRIES} is the last that may publish; end its "
                "tasks, and begin a new deployment"
            )
        if entry.number != last.number + 1:
            raise FeedError(f"{entry.name} does not follow entry {last.number}; put the entries between them there")
        if entry.previous != last.hash:
            raise FeedError(
                f"{entry.name} does not follow the entry {last.number} that was taken, but another one: it is of "
                "another feed, or an entry was changed; get the feed again from the operator"
            )
        published = self.published.get(entry.task_id)
        if entry.after is None:
            if published is not None:
                raise FeedError(
                    f"{entry.name} publishes task {published.task.name}, which was published before; leave it out, or "
                    "publish a task that was planned anew"
                )
            self._check_budget(entry)
            return
        if published is None:
            raise FeedError(
                f"{entry.name} ends task {entry.task_id.hex()[:16]}…, which the feed does not publish; name one that "
                "it does (`hubbub tasks list`)"
            )
        if entry.task_id in self.ends:
            raise FeedError(
                f"{entry.name} ends task {published.task.name}, which has ended before; leave it out, as an end is "
                "final"
            )
        rounds = published.task.schedule.rounds
        if entry.after >= rounds:
            raise FeedError(
                f"{entry.name} ends task {published.task.name} after round {entry.after}, but its rounds are 0 to "
                f"{rounds - 1}; name one of these, or -1 for none"
            )

    def _check_budget(self, entry: FeedEntry) -> PurposeSpending | None:
        """Check that the budget that an entry states is its purpose's, and that its task fits; return what is spent."""
        if entry.signed is None:
            return None
        task, budget = entry.signed.task, entry.budget
        # Devices allow tasks by name: later ones of the same name must not leave the budget.
        before = self.purposes.get(task.name)
        if before is not None and (budget is None or budget.purpose != before):
            other = "no purpose" if budget is None else f"purpose {budget.purpose}"
            raise FeedError(
                f"{entry.name} publishes task {task.name} for {other}, but an earlier task of this name is for purpose "
                f"{before}, whose budget they share; name that purpose, or give the task another name"
            )
        if budget is None:
            return None
        spending = self.spending.get(budget.purpose, PurposeSpending(budget))
        if spending.budget != budget:
            raise FeedError(
                f"{entry.name} states {budget.in_words()}, but an earlier entry stated {spending.budget.in_words()}; "
                "a budget stands as it was stated first: name the same one"
            )
        try:
            return spending.with_task(task)
        except ShareError as error:
            raise FeedError(f"{entry.name}: {error}") from error

    def with_entry(self, entry: FeedEntry) -> Feed:
        """Return the feed with its next entry.

        Raises:
            FeedError: as `check_next` does.
        """
        self.check_next(entry)
        spending, after = self._check_budget(entry), Feed((*self.entries, entry))
        # Kept for the next entry: adding up all shares at each of a thousand entries would take seconds.
        vars(after)["spending"] = (
            self.spending if spending is None else {**self.spending, spending.budget.purpose: spending}
        )
        return after
